"""The class that vLLM mixes into its worker in verl's rollouts; only vLLM's processes import it."""

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from common.backends.verl.sockets import own
from common.rollout.vllm_dlc import Sync


class Extension(vLLMColocateWorkerExtension, Sync):
    def _get_zmq_handle(self) -> str:
        return own(super()._get_zmq_handle())
