"""Masses per turn (FADE sec 9) and "retry failed prompts once = Power alpha = 2" by simulation.

For a prompt of solve rate p, turn 1 is a group of B responses with mean GRPO's weights. If the
prompt is retried, turn 2 is a new such group. "Only prompts that failed" has two readings for a
group of B responses, and both are simulated:

    a response   the prompt is retried if one response drawn from turn 1 failed, so with
                 probability 1 - X / B. On average that is q, as sec 9.2 takes it.
    all          the prompt is retried if all B responses failed, with probability q^B.
"""

import numpy as np
import pandas as pd

READINGS = ("a response", "all")


def play(*, p: float, B: int, reading: str, prompts: int, rng: np.random.Generator) -> dict:
    """Return the mass of turn 2 over `prompts` sampled prompts, with its standard error: the mean
    over prompts and responses of w^+ and w^-, 0 where turn 2 is not reached (Eq. 16); w is mean
    GRPO's r - X / B within the turn."""
    first = rng.binomial(B, p, size=prompts) / B
    chance = 1 - first if reading == "a response" else (first == 0).astype(float)
    reached = rng.random(prompts) < chance
    second = np.where(reached, rng.binomial(B, p, size=prompts) / B, 0)
    mass = second * (1 - second)  # with X successes, m_S and m_F are both (X / B)(1 - X / B)
    return {"m_2": mass.mean(), "stderr_2": mass.std(ddof=1) / prompts**0.5}


def simulate(prompts: int = 100_000, B: int = 8, seed: int = 0) -> pd.DataFrame:
    """Return one row for each solve rate and reading: simulated masses and their references.

    retry = (B - 1) / B p q x chance of turn 2, both exact. power_2 = p q^2, the printed form.
    power_2_exact = E[p_hat (1 - p_hat)^2], the mass of Power alpha = 2 on its group, as a mean over
    sampled groups.
    """
    rng, rows = np.random.default_rng(seed), []
    for p in (0.02, 0.05, *np.round(np.arange(0.1, 1.0, 0.1), 1)):
        q, X = 1 - p, rng.binomial(B, p, size=prompts) / B
        for reading in READINGS:
            reach = q if reading == "a response" else q**B
            played = play(p=p, B=B, reading=reading, prompts=prompts, rng=rng)
            forms = {
                "retry": (B - 1) / B * p * q * reach,
                "power_2": p * q**2,
                "power_2_exact": (X * (1 - X) ** 2).mean(),
            }
            rows.append({"reading": reading, "B": B, "p": p, "reach": reach, **played, **forms})
    return pd.DataFrame(rows)
