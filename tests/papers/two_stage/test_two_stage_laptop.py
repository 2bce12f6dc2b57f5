"""The two-stage paper's laptop measurements, and tiny runs to the end."""

import numpy as np
import pandas as pd
import pytest
from tiny import TINY

from common.backends.local import train
from common.comparison import compare, gather
from common.comparison.spec import spec_of
from common.experiment import load
from common.results.files import write_jsonl_gz
from papers.two_stage import figures, laptop
from papers.two_stage.compare import own_rows

SPEC = spec_of("two_stage")


def sample(*values) -> dict:
    return dict(zip(("problem_id", "parsed", "outcome", "log_prob", "tokens"), values, strict=True))


# ---- Table 4's entropies


def test_entropies_by_hand(tmp_path):
    rows = [
        # p: answers x x y NA: 1.5 bits; -log p a token: 1, 2, 3, 2
        sample("p", "x", "correct", -2.0, 2),
        sample("p", "x", "correct", -4.0, 2),
        sample("p", "y", "wrong", -9.0, 3),
        sample("p", "left over", "unparsed", -2.0, 1),
        # q: one answer: 0 bits; 0.5 a token
        *[sample("q", "z", "wrong", -1.0, 2)] * 4,
    ]
    write_jsonl_gz(tmp_path / "natural.jsonl.gz", rows)
    measured = laptop.entropies(tmp_path / "natural.jsonl.gz").set_index("metric")
    assert measured.loc["answer_level_entropy", "value"] == pytest.approx(0.75)
    assert measured.loc["token_level_entropy", "value"] == pytest.approx((2 + 0.5) / 2)
    assert measured.loc["answer_level_entropy", "stderr"] == pytest.approx(0.75)  # of 1.5 and 0
    assert measured["unit"].to_dict() == laptop.ENTROPIES
    assert set(measured["benchmark"]) == {"natural"}
    assert (measured[["n_problems", "n_samples"]] == [2, 4]).all(axis=None)


@pytest.mark.sweep
def test_tiny_runs_end_in_tables_page_figures_and_verdicts(results, monkeypatch):
    monkeypatch.setattr("common.comparison.lines._plan", lambda *_: {})  # tiny runs stand for it
    for name in ("base", "grpo", "grpo_n"):
        changed = [o for o in TINY if name != "base" or "optim.steps" not in o]
        where = [f"results_dir={results}", "table=laptop_strong", "eval.rare_nll_samples=0"]
        train(load([*changed, *where, f"experiment={name}"], "two_stage"), progress=False)
    found = gather.gather(results, "two_stage")
    found.write(results, "two_stage")
    runs = found.scopes["laptop"]
    laptop.measure(results, runs)
    measured = laptop.read(results, "entropies")
    assert len(measured) == 3 * 2 * 3  # runs, benchmarks, metrics
    assert (measured.groupby("metric")["value"].min() > 0).all()
    curve = laptop.read(results, "training")
    assert set(curve["method"]) == {"GRPO", "GRPO-N"}
    assert np.isfinite(curve[["entropy", "reward"]]).all(axis=None)
    rows, _ = gather.read(results, "two_stage", gather.LAPTOP)
    figures.fig2(rows, curve, results / "fig2")
    drawn = pd.read_csv(results / "fig2.csv")
    assert set(drawn["metric"]) == {
        "pass@1",
        "token_entropy",
        "training entropy",
        "training reward",
    }
    result = compare.assess(SPEC, results)
    assert len(own_rows(results, runs)[-1]) == len(measured)
    assert set(result.scopes["laptop"]["metric"]) >= {"answer_level_entropy", "token_level_entropy"}
    decided = result.verdicts.set_index("id")["laptop"]
    assert decided["pass256_grpo_n_table1"] == "not run"  # eight samples only
    assert decided["table4_n_base"] == "inconclusive"  # one seed
    first = (results / "two_stage" / "laptop" / "entropies.csv.gz").read_bytes()
    laptop.measure(results, runs)
    assert (results / "two_stage" / "laptop" / "entropies.csv.gz").read_bytes() == first
