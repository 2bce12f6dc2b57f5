"""Pure functions for the quantities on which CW-GRPO's argument rests: the weights that the
Gaussian kernel gives to token covariances (sec 2.3), and the entropy drift (sec 2.2). The spread of
the covariances (Table 1, Fig. 3) is in common/losses/contributions.py.

    c_t = (log_prob_t - mean log_prob) (A_t - mean A)       common/losses/covariance.py
    Delta H ~ -eta Cov_t(log_prob_t, A_t) = -eta mean_t c_t
"""

import pandas as pd
import torch

from common.errors import require
from common.losses.covariance import gaussian_kernel


def by_group(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    mean: str,
    group_size: int,
) -> torch.Tensor:
    """Return CW-GRPO's weights with all means and sums taken over the group of one prompt.

    Sec 2.3 prints them so (sum_{j=1}^G); `gaussian_kernel` of common/losses takes both over the
    mini-batch. There the tokens of groups without a gradient have c = 0 and the largest weight,
    which leaves less than 1, on average, for the tokens with a gradient. Rows are prompt-major, in
    whole groups of `group_size`. Raises UserError if the rows do not divide into groups.
    """
    rows = len(log_prob)
    require(rows % group_size == 0, "token_weights.group_size", group_size, f"must divide {rows}")
    parts = zip(
        *(x.split(group_size) for x in (log_prob, old_log_prob, advantages, mask)), strict=True
    )
    return torch.cat([gaussian_kernel(*part, mean=mean) for part in parts])


def weight_summary(weights: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> dict:
    """Return statistics of how token weights (B, T) change the update; advantages is (B, 1) or
    (B, T).

    mean_active     mean over the active tokens (A != 0), the only ones with a gradient: the factor
                    that the weights put on the effective learning rate
    damped          percent of active tokens with less than half of their largest weight
    padded          padded size over real tokens: the author's repository normalises by the padded
                    size, which raises the learning rate by this factor

    Without an active token, mean_active and damped are missing (None).
    """
    real = mask > 0
    w = torch.where(real, weights, 0).double()
    active = w[real & (advantages != 0).expand_as(real)]
    summary = {"padded": real.numel() / real.sum().item()}
    if not len(active):
        return summary | {"mean_active": None, "damped": None}
    return summary | {
        "mean_active": active.mean().item(),
        "damped": 100 * (active < active.max() / 2).double().mean().item(),
    }


def agreement(predicted: pd.Series, measured: pd.Series) -> dict:
    """Return how well a prediction agrees with a measured drift: the correlation, the percentage of
    equal signs, and the `slope` of the least squares fit measured = slope x predicted. The
    correlation is None if one of the two does not vary, the slope if all predictions are 0."""
    varies = predicted.std() > 0 and measured.std() > 0
    square = (predicted**2).sum()
    return {
        "correlation": float(predicted.corr(measured)) if varies else None,
        "same_sign": 100 * float((predicted * measured > 0).mean()),
        "slope": float((predicted * measured).sum() / square) if square > 0 else None,
    }
