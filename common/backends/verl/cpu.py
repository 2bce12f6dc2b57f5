"""verl and vLLM on a machine without a GPU: what the tests and a laptop need, nothing for speed.

Active where VERL_PLATFORM=cpu and VERL_USE_EXTERNAL_MODULES names this module, in every process of
a run. `vllm_plugin` is loaded by vLLM itself (entry point `vllm.general_plugins`), in evaluations
too, which need not wait for the import of verl and Ray.
"""

import os

if os.environ.get("VERL_PLATFORM") == "cpu":
    from common.backends.verl import cpu_platform  # noqa: F401


def vllm_plugin() -> None:
    """Keep vLLM's linear weights as they are.

    On a CPU vLLM packs them for its own kernels and drops the originals, and weights that verl
    sends after a step would have no place to go.
    """
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return
    import torch
    import vllm.model_executor.layers.utils as layers

    def plain(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = plain
