"""The library: the names that `from rlvr_papers import ...` offers.

Every operation is a plain function. What a call leaves out has the value of the method's file. Bad
input raises `UserError` with a message of one line. A `method` is the name of a file in
configs/method, the path of a .yaml file, or a `Method`. Shapes: P prompts, G responses to each,
B = P * G responses in all, T tokens.

    from rlvr_papers import group_advantages, policy_loss, pass_at_k, verify

    A = group_advantages([[1, 0, 0, 1]], "f_grpo", gamma=1.0)          # (P, G)
    loss = policy_loss(log_prob, old_log_prob, A.view(-1), mask, "f_grpo")
    verify(r"so \\boxed{1/2}", "0.5").outcome                           # "correct"
    pass_at_k([3, 0], 8, [1, 8])                                       # (problems, k)
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from numpy.typing import ArrayLike

from common.config.resolve import resolve
from common.config.schema import Method
from common.errors import UserError, require
from common.losses.regularizers import kl_k1, kl_k2, kl_k3
from common.methods import binding, files
from common.metrics.paired import subsampling_test
from common.metrics.passk import avg_at_k, pass_at_k
from common.metrics.samples import maj_at_k
from common.types import Prompt, Verdict
from common.verifiers.plain import of_plain
from common.verifiers.pool import Pool

__all__ = [
    "Method",
    "Prompt",
    "UserError",
    "Verdict",
    "avg_at_k",
    "group_advantages",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "load_method",
    "maj_at_k",
    "method_names",
    "pass_at_k",
    "policy_loss",
    "subsampling_test",
    "token_loss",
    "verify",
    "verify_all",
]


def method_names() -> list[str]:
    """Return the names of the method files in configs/method."""
    return files.names()


def load_method(
    method: str | Path | Method,
    *,
    max_tokens: int | None = None,
    **arguments: object,
) -> Method:
    """Return a method, with `arguments` in place of the same arguments of its advantage.

    Raises UserError for an unknown name or argument, for `arguments` beside a `Method`, and if the
    method needs max_tokens (Dr. GRPO does: the token count of the longest response) and it is None.
    """
    if isinstance(method, Method):
        require(not arguments, "arguments", arguments, "go with a name or a path, not a Method")
        return method
    made = files.method(
        str(method),
        max_tokens=max_tokens,
        steps=1,
        **arguments,
    )
    binding.bind(made)
    return made


def group_advantages(
    rewards: torch.Tensor | ArrayLike,
    method: str | Path | Method = "grpo",
    *,
    correct: torch.Tensor | ArrayLike | None = None,
    lengths: torch.Tensor | None = None,
    log_probs: torch.Tensor | None = None,
    max_tokens: int | None = None,
    solve_rate: float = 0.5,
    entropy: float = 1.0,
    step: int = 1,
    **arguments: object,
) -> torch.Tensor:
    """Return the advantage (weight) of each response, (P, G) -> (P, G), float32 (float64 stays).

    rewards     numbers or truth values, one row per prompt
    correct     (P, G) truth values: which responses are right, for methods that count successes;
                None: the responses with reward 1
    lengths     (P, G) token counts of the responses, for methods that use them; None: all equal
    log_probs   (P, G) log-probability of each response under the policy that sampled it, for
                methods that use it; None: all equal
    solve_rate, entropy, step   what the controller of a method such as FADE observes at its first
                call; entropy in nats
    arguments   of the advantage, such as gamma=1.0

    Raises UserError for rewards that are not 2-D or not finite, for arrays of another shape than
    the rewards, and as `load_method` does.
    """
    values = torch.as_tensor(rewards)
    values = values if values.is_floating_point() else values.float()
    shape = tuple(values.shape)
    require(len(shape) == 2, "rewards", f"shape {shape}", "give (prompts, responses a prompt)")
    require(bool(torch.isfinite(values).all()), "rewards", "nan or inf", "give finite numbers")
    given = torch.ones_like(values) if lengths is None else torch.as_tensor(lengths)
    drawn = torch.zeros_like(values) if log_probs is None else torch.as_tensor(log_probs)
    right = values == 1 if correct is None else torch.as_tensor(correct, dtype=torch.bool)
    for name, one in (("correct", right), ("lengths", given), ("log_probs", drawn)):
        here = f"shape {tuple(one.shape)}"
        require(one.shape == values.shape, name, here, f"must be that of rewards, {shape}")
    bound = binding.bind(load_method(method, max_tokens=max_tokens, **arguments))
    _, controlled = binding.observe(bound, {}, solve_rate=solve_rate, entropy=entropy, step=step)
    seen = {"correct": right, "lengths": given, "log_probs": drawn}
    return binding.advantages(bound, values, arguments=controlled, **seen)


def token_loss(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    method: str | Path | Method = "grpo",
    *,
    max_tokens: int | None = None,
    **seen: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (loss, clipped) of each token of a whole mini-batch, (B, T) each. The loss carries the
    gradient.

    `advantages` is (B,), (B, 1) or (B, T). `seen` holds the further tensors that the loss takes:
    entropy (B, T), top_log_prob (B, T, K) and drawn_top (B, T) for `simko`. Raises UserError for
    shapes that do not fit, and if `seen` lacks a tensor or has one that the loss does not take.
    """
    bound, weights = _bound_loss(log_prob, old_log_prob, advantages, mask, method, max_tokens)
    asked = binding.asked_of_tokens(bound)
    require(set(seen) == set(asked), "seen", sorted(seen), f"the loss of this method takes {asked}")
    extra = dict(seen)
    if bound.token_weights is not None:
        with torch.no_grad():
            made = bound.token_weights(log_prob.detach(), old_log_prob, weights, mask)
        extra["token_weights"] = made
    return bound.loss(log_prob, old_log_prob, weights, mask, **extra)


def policy_loss(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    method: str | Path | Method = "grpo",
    *,
    max_tokens: int | None = None,
    **seen: torch.Tensor,
) -> torch.Tensor:
    """Return the scalar to call backward() on: `token_loss`, summed with the method's aggregation.

    The method's entropy bonus and KL penalty are not included. Raises UserError as `token_loss`
    does, and for a mask without any token.
    """
    given = (log_prob, old_log_prob, advantages, mask, method)
    loss, _ = token_loss(*given, max_tokens=max_tokens, **seen)
    real = mask > 0
    require(bool(real.any()), "mask", "all 0", "no token of any response is left")
    bound, _ = _bound_loss(*given, max_tokens)
    # torch.where, not a product: padding may hold inf or nan
    return torch.where(real, loss * bound.aggregate(mask.float()), 0.0).sum()


def _bound_loss(log_prob, old_log_prob, advantages, mask, method, max_tokens):
    shape = tuple(log_prob.shape)
    require(len(shape) == 2, "log_prob", f"shape {shape}", "give (responses, tokens)")
    for name, tensor in (("old_log_prob", old_log_prob), ("mask", mask)):
        said = f"shape {tuple(tensor.shape)}"
        require(tuple(tensor.shape) == shape, name, said, f"must be that of log_prob, {shape}")
    weights = advantages[:, None] if advantages.dim() == 1 else advantages
    require(
        tuple(weights.shape) in (shape, (shape[0], 1)),
        "advantages",
        f"shape {tuple(advantages.shape)}",
        f"give ({shape[0]},), ({shape[0]}, 1) or {shape}: one a response, or one a token",
    )
    return binding.bind(load_method(method, max_tokens=max_tokens)), weights


def verify(
    response: str, reference: str, verifier: str = "common.verifiers.math.verify", **options: object
) -> Verdict:
    """Return the verdict on one response, in this process and without a deadline: for trials.

    `verifier` is a dotted path, module:function or path.py:function. `options` are its keyword
    arguments, such as convention="boxed". Raises UserError for an unknown verifier or option, or an
    empty reference.
    """
    judge = resolve({"_target_": verifier, **options}, "verifier")
    given = of_plain(judge(response, reference))
    if not isinstance(given, Verdict):
        raise UserError(f"verifier={verifier}: gave {repr(given)[:80]}; give a Verdict or a number")
    return given


def verify_all(
    pairs: Sequence[tuple[str, str]],
    verifier: str = "common.verifiers.math.verify",
    *,
    workers: int = 2,
    deadline: float = 3.0,
    memory_gb: float = 4.0,
    **options: object,
) -> list[Verdict]:
    """Return the verdicts on (response, reference) pairs, in order.

    `workers` processes of `memory_gb` GiB each do the work. A response that takes longer than
    `deadline` seconds gets the outcome "timeout". Raises UserError as `verify` does.
    """
    node = {"_target_": verifier, **options}
    resolve(node, "verifier")
    with Pool(node, workers=workers, deadline=deadline, memory_gb=memory_gb) as pool:
        return pool.map(list(pairs))
