"""The training passes of a small model on a GPU as CUDA graphs: launching their kernels one by one
from Python takes longer than they run."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from common.models.llama import is_plain_llama
from common.models.policy import log_probs
from common.types import RolloutBatch

SMALL = 2**26  # parameters; kernels of larger models run longer than their launches take
MOST = 16  # recorded shapes
WIDTH = 8  # responses are padded to a multiple of so many tokens
SHARE = 4  # tokens that are computed: a multiple of SHARE a response on average


def passes(model, *, temperature: float, dtype: torch.dtype) -> Callable:
    """Return `log_probs` of `model` as a function of only a batch, recorded where that is faster.
    What it returned is overwritten by its next call."""
    size = sum(parameter.numel() for parameter in model.parameters())
    eager = model.is_gradient_checkpointing or size > SMALL or not is_plain_llama(model)
    if eager or model.device.type != "cuda":
        return lambda batch: log_probs(model, batch, temperature, dtype)
    return Recorded(model, temperature, dtype)


class Recorded:
    """Records each shape when it first comes, at most MOST of them; all graphs share their memory.

    A pass that is not recorded comes after these: what is left of it, such as a loss, would tie the
    parameters' gradients to another stream, and a recording refuses to wait for that.
    """

    def __init__(self, model, temperature: float, dtype: torch.dtype):
        self.settings = model, temperature, dtype
        self.graphs: dict[tuple, Callable] = {}  # by the shapes of their arguments
        self.pool = torch.cuda.graph_pool_handle()
        # A recorded pass's gradients come from the stream that it was recorded on.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
        for parameter in model.parameters():
            # Without one, autograd would keep the graph's own tensor, which a replay overwrites.
            parameter.grad = torch.zeros_like(parameter)

    def __call__(self, batch: RolloutBatch) -> tuple[torch.Tensor, torch.Tensor]:
        width = batch.response_ids.shape[1]
        more = (0, -width % WIDTH)
        ids, mask = F.pad(batch.response_ids, more), F.pad(batch.mask, more)
        responses, later = len(mask), mask[:, 1:].flatten() > 0
        step = SHARE * responses
        count = min(-(-int(later.sum()) // step) * step, len(later))
        # the real tokens, and as many places of padding as fill up the number
        rows = later.int().argsort(descending=True, stable=True)[:count].sort().values
        given = (batch.prompt_ids, batch.prompt_mask, ids, mask, rows)
        key = tuple(one.shape for one in given)
        if key not in self.graphs and len(self.graphs) < MOST:
            with torch.enable_grad():  # the first to come may be a pass without gradient
                self.graphs[key] = torch.cuda.make_graphed_callables(
                    Pass(*self.settings),
                    tuple(one.clone() for one in given),
                    num_warmup_iters=1,
                    pool=self.pool,
                )
        run = self.graphs.get(key) or Pass(*self.settings)
        return tuple(one[:, :width] for one in run(*given))


class Pass(torch.nn.Module):
    def __init__(self, model, temperature: float, dtype: torch.dtype):
        super().__init__()
        self.model, self.temperature, self.dtype = model, temperature, dtype

    def forward(self, prompt_ids, prompt_mask, ids, mask, rows):
        batch = RolloutBatch(prompt_ids, prompt_mask, ids, mask, mask, mask[:, 0] > 0)
        return log_probs(self.model, batch, self.temperature, self.dtype, rows)
