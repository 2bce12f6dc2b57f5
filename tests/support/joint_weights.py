"""The worker of a joint model (DLC) in vLLM, for a test that has no verl to send its weights."""

from safetensors.torch import load_file

from common.rollout.vllm_dlc import Sync


class Loaded(Sync):
    def load_memory(self, path: str) -> None:
        """Load the tensors of a safetensors file into the joint model."""
        self.model_runner.get_model().load_weights(iter(load_file(path).items()))
