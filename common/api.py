"""The library: the names that `from rlvr_papers import ...` offers.

A method of configs/method, or of your own .yaml file, is bound to pure functions of tensors.
Shapes: P prompts, G responses to each, B = P * G responses in all, T tokens.

    from rlvr_papers import advantages, bind, method, pass_at_k, verify

    bound = bind(method("f_grpo", gamma=1.0))
    right = torch.tensor([[True, False, False, True]])                      # (P, G)
    A = advantages(bound, right.float(), correct=right, lengths=torch.ones(1, 4), arguments={})
    loss, clipped = bound.loss(log_prob, old_log_prob, A.view(-1, 1), mask)  # (B, T) each
    (loss * bound.aggregate(mask)).sum().backward()
    verify(r"so \\boxed{1/2}", "0.5").outcome                                # "correct"
    pass_at_k([3, 0], 8, [1, 8])                                            # (problems, k)

Bad input raises `UserError` with a message of one line.
"""

from common.config.schema import Method
from common.errors import UserError
from common.losses.regularizers import kl_k1, kl_k2, kl_k3
from common.methods.binding import advantages, bind, observe
from common.methods.catalogue import method
from common.methods.catalogue import names as method_names
from common.metrics.paired import subsampling_test
from common.metrics.passk import avg_at_k, pass_at_k
from common.types import Prompt, Verdict
from common.verifiers.math import verify
from common.verifiers.pool import Pool

__all__ = [
    "Method",
    "Pool",
    "Prompt",
    "UserError",
    "Verdict",
    "advantages",
    "avg_at_k",
    "bind",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "method",
    "method_names",
    "observe",
    "pass_at_k",
    "subsampling_test",
    "verify",
]
