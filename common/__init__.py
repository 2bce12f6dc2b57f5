"""The loop that all five papers share: rollout, verify, weigh, step, evaluate, compare.

As a library: `from common import group_advantages, policy_loss, pass_at_k, verify` (common/api.py
documents the names; `rlvr_papers` has the same ones).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.api import *  # noqa: F403

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


def __getattr__(name: str):
    # when it is asked for: a verifier's worker imports this package, and must not wait for torch
    if name in __all__:
        import common.api as api

        return getattr(api, name)
    raise AttributeError(f"module 'common' has no attribute {name!r}")
