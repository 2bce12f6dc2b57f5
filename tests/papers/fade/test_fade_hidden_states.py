import numpy as np
import pandas as pd
import pytest
from refuses import refuses
from tiny import TINY

from common.config.compose import compose
from common.config.strict import strict
from papers.fade.compare import table10
from papers.fade.hidden_states import formulas, tables
from papers.fade.hidden_states.tables import States


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def states(*overrides: str) -> States:
    return strict(States, compose("fade", [*overrides], "hidden_states"))


# ---- formulas


def test_mean_pairwise_cosine_is_the_loop_over_pairs():
    h = random(7, 4) * np.arange(1, 8)[:, None]  # lengths do not count
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(7) for j in range(7) if i != j]
    whole, flat = np.zeros(4), np.zeros(2)  # nothing is taken away
    assert formulas.mean_pairwise_cosine(h, whole) == pytest.approx(np.mean(pairs))
    assert formulas.mean_pairwise_cosine(np.array([[1.0, 0], [0, 1], [-1, 0]]), flat) == -1 / 3
    assert formulas.mean_pairwise_cosine(np.array([[2.0, 0], [5, 0], [0, 0]]), flat) == 1
    assert np.isnan(formulas.mean_pairwise_cosine(h[:1], whole))


def residual_norm(v: np.ndarray, h_perp: np.ndarray) -> float:
    """||(1/N) sum_i v_i x h_perp_i||_F, without a factor A (footnote of Sec. 15.1)."""
    return float(np.linalg.norm(v.T @ h_perp) / len(h_perp))


def compared(v, h, correct, u) -> dict:
    weighted = formulas.weightings(np.ones(len(v)), correct, seed=0)
    return formulas.compare(formulas.outer_sums([v], h, weighted), h, correct, u)


def test_blocks_of_tokens_are_all_of_them():
    """In one pass over blocks, whatever their size: the sums over the whole, and the cosines of
    what is perpendicular."""
    A, v, h = random(50), random(50, 5, seed=1), random(50, 6, seed=2)
    correct = np.arange(50) % 7 < 2
    weighted = formulas.weightings(A, correct, seed=4)
    drawn = np.flatnonzero(weighted["few"])
    assert len(drawn) == correct.sum()
    assert not correct[drawn].any()
    for size in (1, 8, 50):
        blocks = (v[start : start + size] for start in range(0, 50, size))
        sums = formulas.outer_sums(blocks, h, weighted)
        np.testing.assert_allclose(sums["gradient"], (A[:, None] * v).T @ h / 50)
        u = tables.decomposed(sums["gradient"]).v
        h_perp = formulas.perpendicular(h, u)
        numbers = formulas.compare(sums, h, correct, u)
        for name, rows in (("S", correct), ("F", ~correct)):
            whole = residual_norm(v[rows], h_perp[rows])
            assert numbers[f"norm_{name}"] == pytest.approx(whole)
        few = residual_norm(v[drawn], h_perp[drawn]) / numbers["norm_S"]
        assert numbers["norm_ratio_equal_n"] == pytest.approx(few)
        cosine = formulas.mean_pairwise_cosine(h_perp, np.zeros(6))
        assert formulas.mean_pairwise_cosine(h, u, rows=size) == pytest.approx(cosine)


def test_compare_by_hand():
    u = np.array([0.0, 0, 1])
    h = np.array([[1.0, 0, 5], [1, 0, -5], [2, 0, 0], [0, 1, 0], [0, -1, 9], [1, 0, 0]])
    correct = np.array([True, True, False, False, False, False])
    v = np.tile([1.0, -1.0], (6, 1))
    numbers = compared(v, h, correct, u)
    assert (numbers["n_S"], numbers["n_F"]) == (2, 4)
    assert numbers["rho_S"] == pytest.approx(1)
    # wrong: directions x, y, -y, x; of 6 pairs one is 1, one is -1
    assert numbers["rho_F"] == pytest.approx(0, abs=1e-12)
    assert numbers["norm_S"] == pytest.approx(2**0.5)
    assert numbers["norm_F"] == pytest.approx(2**0.5 * 3 / 4)  # mean (3/4, 0)
    assert numbers["norm_ratio"] == pytest.approx(0.75)
    assert numbers["clt_ratio"] == pytest.approx(0.5**0.5)
    one_sided = compared(v[:2], h[:2], correct[:2], u)
    assert one_sided["n_F"] == 0
    assert np.isnan([one_sided[k] for k in ("rho_F", "norm_ratio", "norm_ratio_equal_n")]).all()


# ---- on laptop checkpoints


def test_a_laptop_run_and_its_checkpoints(tiny, results, tmp_path):
    """Read whole and in small parts; Table 10's claims read them."""
    from common.backends.local import train

    x = tiny("paper=study", "method=grpo", "optim.steps=2", "table=other")
    run = train(x, progress=False)
    base = next(results.glob("models/*/DONE")).parent
    of = ",".join(f"'{one}'" for one in TINY)
    given = ["prompts=30", f"checkpoints=[{base},{run}]", f"of=[{of}]"]
    folder = tables.run(states(*given, f"results_dir={tmp_path / 'whole'}"))
    rows = pd.read_csv(folder / "residuals.csv")
    assert list(rows.checkpoint) == [base.name, run.name]
    assert (rows.n_S > 0).all()
    assert (rows.n_F > rows.n_S).all()  # this model is right two times in a hundred
    assert rows.rho_S.between(-1, 1).all()
    assert (rows.norm_F > 0).all()
    assert rows.clt_ratio.to_numpy() == pytest.approx((rows.n_S / rows.n_F) ** 0.5)
    least, largest = table10(tmp_path / "whole")[0].value
    assert (least, largest) == (rows.rho_ratio.min(), rows.rho_ratio.max())
    parts = [f"results_dir={tmp_path / 'parts'}", "responses=7", "block_mb=0.01"]
    again = tables.run(states(*given, *parts))
    numbers = rows.columns[list(rows.columns).index("r1") :]
    found = pd.read_csv(again / "residuals.csv")
    np.testing.assert_allclose(found[numbers], rows[numbers], rtol=1e-4)


def test_tokens_are_the_policys_own(tiny, results):
    """v = e_y - pi and h belong to the sampled tokens: lm_head(h) gives the log-probabilities that
    the sampler stored, and A sums to zero over a group's responses."""
    import torch

    from common.config.resolve import resolve
    from common.models import load
    from common.rollout.local import encode, generate
    from common.seeds import generator
    from common.verifiers.countdown import verify

    x = tiny()
    policy, tokenizer = load.load_model(x.model, results, "cpu")
    prompts = resolve(x.data.train, "data.train")()[:5]
    judge = lambda pairs: [verify(*pair) for pair in pairs]  # noqa: E731
    given = dict(group_size=4, max_tokens=20, seed=3)
    found = tables.tokens(policy, tokenizer, prompts, judge, responses=100, **given)
    by_few = tables.tokens(policy, tokenizer, prompts, judge, responses=3, **given)
    np.testing.assert_allclose(by_few.h, found.h, atol=1e-5)
    A, h, correct = found.A, found.h, found.correct
    v = np.concatenate(list(tables.errors(policy.lm_head, found, 7)))
    ids, mask = encode(tokenizer, [p.text for p in prompts], "cpu")
    batch = generate(
        policy, ids, mask, group_size=4, temperature=1.0, max_tokens=20,
        eos_id=tokenizer.eos_token_id, generator=generator(3, "hidden states"),
    )  # fmt: skip
    real = batch.mask > 0
    assert len(A) == len(v) == len(h) == len(correct) == int(real.sum())
    y = batch.response_ids[real].numpy()
    np.testing.assert_allclose(v.sum(1), 0, atol=1e-6)
    chosen = np.log(1 - v[np.arange(len(y)), y])
    np.testing.assert_allclose(chosen, batch.log_probs[real].numpy(), atol=1e-4)
    logits = policy.lm_head(torch.from_numpy(h).float()).log_softmax(-1).detach().numpy()
    np.testing.assert_allclose(logits[np.arange(len(y)), y], chosen, atol=1e-4)
    # one weight a response; those of a group sum to zero
    ends = np.r_[0, real.sum(1).cumsum(0).numpy()[:-1]]
    np.testing.assert_allclose(A[ends].reshape(5, 4).sum(1), 0, atol=1e-6)


def test_without_checkpoints_nothing_is_measured():
    with refuses("checkpoints", "[]"):
        tables.run(states())
