"""F-GRPO's laptop measurements: matched accuracy, the measured Lemma 3.1, and the comparison."""

import itertools

import numpy as np
import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run

from common.comparison import compare, gather, matched
from common.comparison.spec import spec_of
from common.results.columns import COLUMNS
from common.results.files import write_jsonl_gz
from papers.f_grpo import laptop

GRPO, F_GRPO = "GRPO (N=8)", "F-GRPO (N=8, gamma=1)"
SPEC = spec_of("f_grpo")

# ---- diversity at matched accuracy


def curve(table: str, method: str, seed: int, points: dict[int, tuple[float, float]]):
    """Rows of a training curve: step -> (natural pass@1, rare pass@64)."""
    for step, values in points.items():
        pairs = [matched.ACCURACY, matched.DIVERSITY]
        for (benchmark, metric), value in zip(pairs, values, strict=True):
            yield dict(
                table=table, model="tiny", method=method, benchmark=benchmark, metric=metric,
                value=value, seed=seed, step=step, run_id=f"{table}-{method}-{seed}",
            )  # fmt: skip


def rows(*curves) -> pd.DataFrame:
    return pd.DataFrame([row for one in curves for row in one], columns=COLUMNS)


def test_matched_accuracy_by_hand():
    frame = rows(
        curve("t", "base", 1, {0: (20.0, 50.0)}),
        curve("t", GRPO, 1, {50: (30.0, 44.0), 100: (40.0, 30.0)}),
        curve("t", F_GRPO, 1, {50: (24.0, 49.0), 100: (32.0, 45.0)}),
        curve("other", GRPO, 1, {50: (99.0, 1.0)}),  # another table has no part in it
    )
    out = matched.at_matched_accuracy(frame, "t", SPEC.pairs)
    assert len(out) == 2
    assert set(out["table"]) == {f"t, {F_GRPO} vs {GRPO} at matched pass@1"}
    # The highest accuracy that both reach is 32. GRPO passes it a fifth of the way from step 50
    # (30, 44) to step 100 (40, 30): 44 - 14 / 5 = 41.2. F-GRPO has 45 there.
    assert dict(zip(out["method"], out["value"], strict=True)) == pytest.approx(
        {GRPO: 41.2, F_GRPO: 45.0}
    )
    assert set(out["metric"]) == {"pass@64 at natural pass@1 12.0 points above base"}
    assert list(out.columns) == COLUMNS


def test_the_base_model_is_the_first_point_of_every_run():
    frame = rows(
        curve("elsewhere", "base", 1, {0: (20.0, 50.0)}),
        curve("t", GRPO, 7, {50: (25.0, 45.0)}),
        curve("t", F_GRPO, 8, {50: (25.0, 46.0)}),
    )
    out = matched.at_matched_accuracy(frame, "t", SPEC.pairs).set_index("method")
    # Level 25, 5 above the base (20, 50): each run's only point.
    assert out["value"].to_dict() == pytest.approx({GRPO: 45.0, F_GRPO: 46.0})
    assert out["seed"].to_dict() == {GRPO: 7, F_GRPO: 8}
    points = matched.curves(frame, "t")
    assert points["step"].tolist() == [0, 50, 0, 50]
    assert set(points["seed"]) == {7, 8}


def test_the_level_is_what_every_seed_reached_and_where_first():
    frame = rows(
        curve("t", "base", 1, {0: (20.0, 50.0)}),
        # Up to 40, back to 30, up again: 36 is first passed 16/20 of the way to (40, 40).
        curve("t", GRPO, 1, {10: (20.0, 50.0), 20: (40.0, 40.0), 30: (30.0, 10.0), 40: (50.0, 0)}),
        curve("t", GRPO, 2, {10: (36.0, 20.0), 20: (25.0, 25.0)}),  # the lowest of all maxima
        # 16/40 of the way: 50 - 0.4 * 40
        curve("t", F_GRPO, 1, {10: (20.0, 50.0), 20: (60.0, 10.0)}),
    )
    out = matched.at_matched_accuracy(frame, "t", SPEC.pairs)
    read_at = {(m, s): v for m, s, v in out[["method", "seed", "value"]].values}
    assert read_at == pytest.approx({(GRPO, 1): 42.0, (GRPO, 2): 20.0, (F_GRPO, 1): 34.0})


def test_a_run_that_never_beats_the_base_is_not_read():
    frame = rows(
        curve("t", "base", 1, {0: (20.0, 50.0)}),
        curve("t", GRPO, 1, {50: (10.0, 5.0)}),
        curve("t", F_GRPO, 1, {50: (30.0, 45.0)}),
    )
    out = matched.at_matched_accuracy(frame, "t", SPEC.pairs)
    assert out["value"].isna().tolist() == [True, True]
    assert (
        out["metric"]
        .str.contains("0.0 points above base (refused: less than 2)", regex=False)
        .all()
    )


def test_without_base_or_with_one_method_there_is_nothing_to_match():
    base = curve("t", "base", 1, {0: (20.0, 50.0)})
    one = curve("t", GRPO, 1, {50: (30.0, 44.0)})
    assert matched.at_matched_accuracy(rows(one, base), "t", SPEC.pairs).empty
    both = [curve("t", method, 1, {50: (30.0, 44.0)}) for method in (GRPO, F_GRPO)]
    assert matched.at_matched_accuracy(rows(*both), "t", SPEC.pairs).empty


# ---- Lemma 3.1 measured


@pytest.mark.parametrize("n", [4, 5, 7])
def test_lemma_unbiased_equals_exact_enumeration(n):
    """Over all groups of N of the n samples, the share that is active and has no rare answer."""
    for c in range(n + 1):
        for r in range(c + 1):
            kinds = ["rare"] * r + ["right"] * (c - r) + ["wrong"] * (n - c)
            for N in range(2, n + 1):
                groups = list(itertools.combinations(kinds, N))
                misses = sum(
                    "rare" not in group and "right" in group and "wrong" in group
                    for group in groups
                )
                got = laptop.lemma_unbiased(np.array([c]), np.array([r]), n, N)
                assert got == pytest.approx([misses / len(groups)], abs=1e-12), (c, r, N)


def samples(path, problems: dict[str, str]):
    """R: right by *, r: right without, w: wrong, u: unparsed; one letter a sample."""
    meaning = {
        "R": ("correct", "3*4"),
        "r": ("correct", "+3+4"),
        "w": ("wrong", "3*5"),
        "u": ("unparsed", None),
    }
    write_jsonl_gz(
        path,
        [
            dict(problem_id=problem, sample=i, outcome=meaning[kind][0], parsed=meaning[kind][1])
            for problem, kinds in problems.items()
            for i, kind in enumerate(kinds)
        ],
    )


def test_measure_by_hand(tmp_path):
    path = tmp_path / "natural.jsonl.gz"
    samples(path, {"p": "rrwu" + "rwRw", "q": "Rrww" + "wurr"})
    (row,) = laptop.of_samples(path).to_dict("records")  # half = 4, so N = 2 only
    assert row["N"] == 2
    # Second halves in groups of two: p has rw (active, no rare) and Rw (active, rare); q has wu and
    # rr (neither active). Measured 1/2 and 0; active 1/2 and 0.
    assert row["measured"] == pytest.approx(0.25)
    assert row["active"] == pytest.approx(0.5)
    assert row["measured_stderr"] == pytest.approx(0.25)  # sd of 1/2 and 0 over sqrt(2)
    # First halves, all pairs: p has two right, two wrong, none rare: 4 of 6 pairs are active.
    # q: one rare, one right, two wrong: of 6 pairs, 2 (right with wrong) are active without rare.
    assert row["predicted"] == pytest.approx((4 / 6 + 2 / 6) / 2)
    # Differences 1/2 - 2/3 = -1/6 and 0 - 1/3 = -1/3: sd is (1/6) / sqrt(2), over sqrt(2).
    assert row["difference_stderr"] == pytest.approx(1 / 12)


# ---- gather and show


def finished_run(root, method: str, seed: int, step: int, right: dict[str, float]):
    """A finished run folder of 40 problems a benchmark, `right` of 64 samples right on average."""
    rng = np.random.default_rng([seed, step, *map(ord, method)])
    counts = made_up_counts(
        right, lambda share: rng.binomial(64, share / 64, 40), problems=40, n=64, ids="{i} = {i}"
    )
    name = f"{method.lower().split()[0]}-{len(method)}-s{seed}"
    about = dict(table="laptop_strong", model="tiny", method=method, seed=seed)
    config = {"seed": seed}
    return made_up_run(root, "f_grpo", name, about, {step: counts}, [1, 64], config=config)


@pytest.fixture
def made_up(tmp_path):
    """Four seeds in which F-GRPO is far better on rare prompts, and equal on natural ones."""
    finished_run(tmp_path, "base", 1, 0, {"natural": 10, "rare": 1.0})
    for seed in (1, 2, 3, 4):
        finished_run(tmp_path, GRPO, seed, 200, {"natural": 30, "rare": 0.3})
        finished_run(tmp_path, F_GRPO, seed, 200, {"natural": 30, "rare": 3.0})
    return tmp_path


def shown(root, form="csv"):
    compare.compare(SPEC, root, form)
    return pd.read_csv(root / "f_grpo" / "claims.csv", keep_default_na=False).set_index("id")


def gathered(root):
    found = gather.gather(root, "f_grpo")
    found.write(root, "f_grpo")
    return found.scopes["laptop"]


def test_groups_of_the_first_seed_are_measured_and_kept(made_up):
    runs = gathered(made_up)
    rows = runs.rows
    files = []
    for run_id in rows["run_id"].unique():
        files.append(made_up / "f_grpo" / run_id / "samples" / "natural.jsonl.gz")
        files[-1].parent.mkdir()
        samples(files[-1], {"p": "rrwu" + "rwRw", "q": "Rrww" + "wurr"})
    laptop.measure(made_up, runs)
    table = made_up / "f_grpo" / "laptop" / "tail_miss.csv"
    measured = pd.read_csv(table)
    assert sorted(measured["method"]) == sorted(["base", GRPO, F_GRPO])
    assert measured["measured"].tolist() == [0.25] * 3
    first = table.read_bytes()
    for file in files:
        file.unlink()
    laptop.measure(made_up, runs)  # a table that came without its samples stays
    assert table.read_bytes() == first


@pytest.mark.sweep
def test_show_writes_the_verdicts(made_up):
    verdicts = shown(made_up)
    text = (made_up / "f_grpo" / "claims.csv").read_text()
    assert text.startswith("claim,source,published,laptop,cluster,")
    assert verdicts["laptop"]["focal_grpo"] == "holds"
    assert verdicts["laptop"]["focal_grpo_matched"] == "inconclusive"
    # Each run has one checkpoint, and most pass the level before it.
    assert "refused" in verdicts["laptop_numbers"]["focal_grpo_matched"]
    assert verdicts["laptop"]["focal_dapo"] == "not run"
    assert verdicts["published"]["focal_grpo"] == "holds"
    assert set(verdicts["cluster"]) <= {"not run", "not claimed here"}
    cells = pd.read_csv(made_up / "f_grpo" / "comparison.csv")
    focal = cells[(cells["scope"] == "laptop") & (cells["method"] == F_GRPO)]
    assert (focal["n_seeds"] == 4).all()
    assert set(focal["benchmark"]) == {"natural", "rare"}
    page = (made_up / "f_grpo" / "comparison.md").read_text()
    assert f"| {F_GRPO} |" in page
    assert "## Laptop: laptop_strong" in page
    assert "## Published: Table 2" in page


@pytest.mark.sweep
def test_a_claim_that_fails_is_shown_as_failing(tmp_path):
    for seed in (1, 2, 3, 4):
        finished_run(tmp_path, GRPO, seed, 200, {"natural": 30, "rare": 3.0})
        finished_run(tmp_path, F_GRPO, seed, 200, {"natural": 30, "rare": 0.3})
    verdicts = shown(tmp_path)
    assert verdicts["laptop"]["focal_grpo"] == "fails"
    assert verdicts["published"]["focal_grpo"] == "holds"
    assert verdicts["laptop"]["focal_grpo_matched"] == "not run"  # no base model
