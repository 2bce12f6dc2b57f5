"""How often each statement of over_sharpening Sec. 2 and 3.1 fails on random instances.

`cases` counts the instances that meet the premises of a statement, `violated` the cases where it
fails. Instances have K = 8 modes, a reference drawn from Dirichlet(1), each mode correct with
probability 1/2 (at least one correct and one wrong), groups of G drawn from the reference, and the
advantages of verifiable rewards in {0, 1} with the population sigma.
"""

import numpy as np
import pandas as pd

from papers.over_sharpening.theory import formulas

MODES, BETA, DRAWS = 8, 0.1, 10_000
BETAS = (0.1, 1.0)  # for Theorem 2.3; the paper prints no beta
GROUP_SIZES = (4, 8, 16, 32)
COUPLING, SPREADS = (0.3, 0.5, 0.7), (0.0, 0.1, 0.2)


# ---- the tables; `thin` divides the number of instances


def groups(thin: int) -> pd.DataFrame:
    sizes = [(G, beta) for beta in BETAS for G in GROUP_SIZES]
    return pd.concat([sampled_groups(G, beta, DRAWS // thin, seed=G) for G, beta in sizes])


def checks(groups: pd.DataFrame, thin: int) -> pd.DataFrame:
    """Return statement, cases, violated and beta of every statement except Theorem 2.4's."""
    by_beta = [group_checks(rows).assign(beta=beta) for beta, rows in groups.groupby("beta")]
    return pd.concat([modes_checks(2000 // thin).assign(beta=BETA), *by_beta], ignore_index=True)


def coupled(thin: int) -> pd.DataFrame:
    frames = [
        coupling_checks(G, c, width, repeats, draws=1000 // thin, seed=1)
        for G in GROUP_SIZES
        for c in COUPLING
        for width in SPREADS
        for repeats in (False, True)
    ]
    return pd.concat(frames, ignore_index=True)


# ---- Theorems 2.1 and 2.2


def references(draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return (ref, correct), (draws, MODES) each, with at least one correct and one wrong mode."""
    ref = rng.dirichlet(np.ones(MODES), draws)
    ref = np.maximum(ref, 1e-12)
    correct = rng.random((draws, MODES)) < 0.5
    correct[:, 0], correct[:, 1] = True, False
    return ref / ref.sum(1, keepdims=True), correct


def modes_checks(draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Check Theorem 2.1, Corollary 2.1, Theorem 2.2 with both readings of its objective, and
    Theorem B.1."""
    rng = np.random.default_rng(seed)
    ref, correct = references(draws, rng)
    A = np.where(correct, rng.exponential(1, (draws, 1)), -rng.exponential(1, (draws, 1)))
    best = formulas.optimum(ref, A, BETA)
    others = _others(best, ref, rng)
    reached = formulas.objective(best, ref, A, BETA)
    beaten = formulas.objective(others, ref, A, BETA).max(0) > reached + 1e-9
    found = {
        "Theorem 2.1: no policy beats Eq. 2 in Eq. 1": beaten,
        "Corollary 2.1: Eq. 2 lowers no correct mode": formulas.over_sharpened(best, ref, correct),
    }
    counts = rng.multinomial(8, ref)
    hat = formulas.batch_optimum(ref, counts, A, BETA)
    others = _others(hat, ref, rng)
    target = formulas.batch_target(counts, A)
    reached = formulas.objective(hat, ref, target, BETA)
    beaten = formulas.objective(others, ref, target, BETA).max(0) > reached + 1e-9
    found["Theorem 2.2: no policy beats Eq. 4 in the linear objective"] = beaten
    # Eq. 3 as printed, tested against Eq. 4: a policy with the sampled wrong modes pushed down,
    # and for A >= 0 the true maximiser
    wrong = (counts > 0) & ~correct
    has = wrong.any(1)
    down = np.where(wrong, hat * 1e-300, hat)
    down /= down.sum(1, keepdims=True)
    printed = formulas.printed_objective
    better = printed(down, ref, counts, A, BETA) > printed(hat, ref, counts, A, BETA) + 1e-9
    found["Theorem 2.2: Eq. 4 maximises Eq. 3 as printed, a wrong mode sampled"] = better[has]
    positive, better = np.where(correct, A, 0.0), []
    for i in range(min(200, draws)):
        one = (ref[i], counts[i], positive[i])
        if (counts[i] * correct[i]).sum() == 0:
            continue
        true = formulas.printed_optimum(*one, BETA)
        hat_i = formulas.batch_optimum(*one, BETA)
        better.append(printed(true, *one, BETA) > printed(hat_i, *one, BETA) + 1e-9)
    return _counted(
        found
        | {"Theorem 2.2: Eq. 4 maximises Eq. 3 as printed, all A >= 0": better}
        | {"Theorem B.1 is a gradient step on softmax logits": _gradient(ref, hat, target)}
    )


def _others(best: np.ndarray, ref: np.ndarray, rng) -> np.ndarray:
    """Return 100 other policies for each instance, (100, draws, K): 50 near `best`, 50 anywhere."""
    near = np.log(best) + rng.normal(0, 0.1, (50, *best.shape))
    far = rng.normal(0, 3, (50, *best.shape)) + np.log(ref)
    both = np.concatenate([near, far])
    both = np.exp(both - both.max(-1, keepdims=True))
    both = np.maximum(both, 1e-300)
    return both / both.sum(-1, keepdims=True)


def _gradient(ref, hat, target, eta: float = 0.5) -> np.ndarray:
    """Return where Theorem B.1 differs from a gradient step of Eq. 3 on the logits,
    softmax(log pi + eta grad), by more than a hundredth of the largest change."""
    # the gradient of sum target log pi; the gradient of the KL is 0 at ref
    grad = target - ref * target.sum(1, keepdims=True)
    new = formulas.softmax(np.log(ref) + eta * grad, axis=1)
    claimed = formulas.geometric_step(ref, hat, eta, BETA)
    return np.abs(new - claimed).max(1) > 0.01 * np.abs(claimed - ref).max(1) + 1e-12


def _counted(found: dict) -> pd.DataFrame:
    rows = [(name, len(violated), np.count_nonzero(violated)) for name, violated in found.items()]
    return pd.DataFrame(rows, columns=["statement", "cases", "violated"])


# ---- Theorem 2.3 and what IAC does to Z'


def sampled_groups(G: int, beta: float, draws: int, seed: int) -> pd.DataFrame:
    """Return one row for each random mixed group: Z' with GRPO's advantages, and its two bounds; Z'
    with IAC (alpha = 1), and with IAC scaled to GRPO's largest weight."""
    rng = np.random.default_rng([seed, 23])
    ref, correct = references(draws, rng)
    counts = rng.multinomial(G, ref)
    X = (counts * correct).sum(1)
    keep = (X > 0) & (X < G)
    ref, correct, counts, X = ref[keep], correct[keep], counts[keep], X[keep]
    plus, minus = formulas.normalised_advantages(X / G)
    A = np.where(correct, plus[:, None], minus[:, None])
    iac = np.where(correct, (plus * (G - X))[:, None], minus[:, None])
    bounds = formulas.partition_bounds(ref, counts, correct, A_plus=plus, A_minus=minus, beta=beta)
    frame = {
        "G": G,
        "beta": beta,
        "p": X / G,
        "Z": formulas.partition(ref, counts, A, beta),
        "bound": bounds.first,
        "simplified": bounds.simplified,
        "gap": bounds.gap,
        "Z_iac": formulas.partition(ref, counts, iac, beta),
        "Z_iac_equalised": formulas.partition(ref, counts, iac / (G - 1), beta),
    }
    return pd.DataFrame(frame)


def group_checks(groups: pd.DataFrame) -> pd.DataFrame:
    """Return how often each statement on Z' fails, over all group sizes together."""
    g = groups
    slack = 1 - 1e-12
    confident, other = g["gap"] > 0, g["gap"] <= 0
    statements = {
        "Theorem 2.3: Z' >= the first bound": g["Z"] < g["bound"] * slack,
        "Theorem 2.3: Z' >= the simplified bound": g["Z"] < g["simplified"] * slack,
        "Theorem 2.3: Delta_pi > 0 gives Z' > 1": (g["Z"] <= 1)[confident],
        "Table 1, read as only if: Z' > 1 only where Delta_pi > 0": (g["Z"] > 1)[other],
        "Sec. 3.1, our reading: IAC keeps Z' at or below GRPO's, same beta": g["Z_iac"]
        > g["Z"] / slack,
        "Sec. 3.1, our reading: IAC keeps Z' at or below GRPO's, equal largest weight": (
            g["Z_iac_equalised"] > g["Z"] / slack
        ),
    }
    return _counted(statements)


# ---- Theorem 2.4 and Corollary 2.2


def kernels(G: int, coupling: float, width: float, repeats: bool, draws: int, rng):
    """Return the kernel K (draws, G + 1, G + 1) of G samples and, last, one unseen mode; and the
    mode of each sample (draws, G).

    Mode m has the gradient s_m (sqrt(c) u + sqrt(1 - c) v_m), where c is the coupling, u is shared,
    v_m are random unit vectors of 64 dimensions and s_m is uniform in [1 - width, 1 + width]. The
    samples are distinct modes, or with `repeats` drawn from G / 2 modes.
    """
    v = rng.normal(size=(draws, G + 1, 64))
    v /= np.linalg.norm(v, axis=-1, keepdims=True)
    u = np.zeros(65)
    u[0] = 1
    features = np.concatenate([np.zeros((draws, G + 1, 1)), v], axis=-1)
    features = np.sqrt(coupling) * u + np.sqrt(1 - coupling) * features
    features *= rng.uniform(1 - width, 1 + width, (draws, G + 1, 1))
    mode = np.tile(np.arange(G + 1), (draws, 1))
    if repeats:
        mode[:, :G] = rng.integers(0, G // 2, (draws, G))
    picked = np.take_along_axis(features, mode[:, :, None], axis=1)
    return picked @ picked.swapaxes(1, 2), mode[:, :G]


def coupling_checks(
    G: int, coupling: float, width: float, repeats: bool, *, draws: int, seed: int
) -> pd.DataFrame:
    """Check Theorem 2.4 on kernels that meet Assumptions 2.1 to 2.3 (2.2 exactly, with eta = 1).
    lambda and rho are taken over distinct modes, the unseen one included. A seen mode then moves by
    exactly y_k, because the update fits the batch: k_q' is a row of K_qq. The factor N in the bound
    asks for up to N times that."""
    rng = np.random.default_rng([seed, G, int(100 * coupling), int(100 * width), repeats])
    K, mode = kernels(G, coupling, width, repeats, draws, rng)
    distinct = np.concatenate([mode, np.full((draws, 1), -1)], axis=1)
    distinct = distinct[:, :, None] != distinct[:, None, :]
    s = formulas.spread(K, distinct)
    keep = (s.rho_min >= 0) & (s.lambda_min >= s.rho_max)
    K, mode = K[keep], mode[keep]
    s = formulas.Spread(*(value[keep] for value in s))
    N = (mode[:, :, None] == mode[:, None, :]).sum(2)
    # |A| of a mixed group with normalised binary rewards; all copies of a mode are alike
    p = rng.integers(1, G, len(K)) / G
    right = np.take_along_axis(rng.random((len(K), G + 1)) < p[:, None], mode, axis=1)
    plus, minus = formulas.normalised_advantages(p)
    y = N * np.where(right, plus[:, None], -minus[:, None]) / (BETA * G)
    total = y.sum(1)
    batch = K[:, :G, :G]
    alpha = formulas.dual(batch, y)
    unseen = (K[:, G, :G] * alpha).sum(1)
    seen = (batch[:, 0] * alpha).sum(1)  # o' = the first sample's mode
    upper = formulas.unseen_bound(s, G, total, 1.0)
    lower = formulas.seen_bound(s, G, N[:, 0], y[:, 0], total, 1.0)
    tiny = 1e-9 * (1 + np.abs(total))
    checks = {
        "case 1: unseen mode, upper bound": unseen > upper + tiny,
        "case 2: seen mode, lower bound": seen < lower - tiny,
        "Corollary 2.2: R > 1 means the seen mode gains more": (seen <= unseen)[lower > upper],
    }
    found = _counted(checks).assign(G=G, coupling=coupling, width=width, repeats=repeats)
    return found[["G", "coupling", "width", "repeats", "statement", "cases", "violated"]]
