import json

import pandas as pd
import pytest

from common.results.run import Run
from papers.f_grpo import gamma

MATH = "Qwen2.5-1.5B-Math"
CURVES = {  # table, method, gamma -> mean math pass@1 by step
    ("table1", "F-GRPO", 0.5): {153: 40.0, 306: 44.0},
    ("gamma 1", "F-GRPO", 1): {153: 45.0, 306: 41.0},
    ("gamma 2", "F-GRPO", 2): {153: 30.0, 306: 31.0, 459: 60.0},  # trained for longer
    ("table1", "GRPO", None): {153: 90.0, 306: 90.0},
    ("table1", "F-CISPO", 1): {153: 50.0},
}


@pytest.fixture
def rows(tmp_path):
    """Each set is as far above or below the mean as another is below or above."""
    parts = []
    for (table, method, exponent), curve in CURVES.items():
        run = Run(tmp_path, "f_grpo", f"{method}-{table}", {"method": {"advantage": {}}})
        advantage = {} if exponent is None else {"gamma": exponent}
        config = {"method": {"advantage": advantage}}
        (run.path / "config.yaml").write_text(json.dumps(config))
        run.close()
        about = {"table": table, "model": MATH, "method": method, "seed": 1, "run_id": run.run_id}
        for step, mean in curve.items():
            spread = [-5, -3, -1, 1, 3, 5]
            named = zip(gamma.SETS, spread, strict=True)
            parts += [
                about | {"benchmark": b, "metric": "pass@1", "step": step, "value": mean + off}
                for b, off in named
            ]
    return pd.DataFrame(parts)


def test_the_gamma_with_the_best_checkpoint_is_chosen_on_common_steps(tmp_path, rows):
    found = gamma.curves(tmp_path, rows)
    assert set(zip(found["method"], found["gamma"], strict=True)) == {
        *(("F-GRPO", g) for g in (0.5, 1.0, 2.0)),
        ("F-CISPO", 1.0),
    }
    table = gamma.choice(found[found["method"] == "F-GRPO"])
    best = table[table["best"]].set_index("gamma")
    assert best["step"].to_dict() == {0.5: 306, 1.0: 153, 2.0: 306}
    assert best["value"].to_dict() == pytest.approx({0.5: 44.0, 1.0: 45.0, 2.0: 31.0})
    assert set(table.loc[table["chosen"], "gamma"]) == {1.0}
    equal = gamma.choice(found[found["method"] == "F-GRPO"].assign(value=40.0))
    assert set(equal.loc[equal["chosen"], "gamma"]) == {0.5}  # the smallest of a tie


def test_every_printed_exponent_is_of_a_model_and_method():
    known = gamma.printed()
    assert len(known) == 12
    assert known["Llama-3.2-3B-Instruct", "F-DAPO"] == 1.0
