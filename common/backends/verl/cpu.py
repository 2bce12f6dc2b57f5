"""verl and vLLM on a machine without a GPU: what the tests and a laptop need, nothing for speed.

It is active in every process of a run if VERL_PLATFORM=cpu and VERL_USE_EXTERNAL_MODULES names this
module. `vllm_plugin` is loaded by vLLM itself (entry point `vllm.general_plugins`), also in
evaluations, which therefore need not wait for the import of verl and Ray.
"""

import os

if os.environ.get("VERL_PLATFORM") == "cpu":
    from common.backends.verl import cpu_platform  # noqa: F401


def vllm_plugin() -> None:
    """Make vLLM keep its linear weights as they are.

    On a CPU vLLM packs them for its own kernels and drops the originals. The weights that verl
    sends after a step would then have no place to go.
    """
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return
    import torch
    import vllm.model_executor.layers.utils as layers

    def plain(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = plain
