"""One gather: of two evaluations the fuller counts."""

from dataclasses import asdict

import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run

from common.comparison.gather import gather
from common.experiment import load
from common.results.run import Run


def finished(root, x, *, step: int = 200):
    """A finished run of an experiment, with made-up counts, as its training would leave it."""
    counts = made_up_counts({"natural": 3, "rare": 1}, lambda c: c, problems=4, n=8)
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": x.seed}
    return made_up_run(root, x.paper, x.run_id, about, {step: counts}, [1, 8], config=asdict(x))


@pytest.mark.parametrize(
    ("fewer", "more"), [((1, 6), (64, 6)), ((64, 3), (64, 6)), ((64, 3), (1, 6))]
)
def test_of_two_evaluations_of_one_model_the_fuller_counts(fewer, more, tmp_path):
    """One sample a problem for a quick look, 64 for the table; or after a training went on."""
    x = load(["experiment=f_grpo_gamma1", "seed=1"], "f_grpo")
    folder, names = finished(tmp_path, x), []
    others = [(more[0], more[1], {"benchmark": "Rare"}), (1, 6, {"temperature": 0.0})]
    for i, (n, steps, change) in enumerate([(*fewer, {}), (*more, {}), *others]):
        row = {"trained": x.run_id, "benchmark": change.get("benchmark", "Natural"), "steps": steps}
        sampling = {"n": n, "batch": 2048 // n, "temperature": change.get("temperature", 1.0)}
        config = {"scope": "laptop", "label": x.model.name, "row": row, "sampling": sampling}
        run = Run(tmp_path, "f_grpo", f"{x.run_id}-{row['benchmark']}-0123456{i}", config)
        rows = pd.read_csv(folder / "metrics.csv")
        rows.assign(benchmark=row["benchmark"], run_id=run.run_id).to_csv(
            run.path / "metrics.csv", index=False
        )
        run.finish()
        names.append(run.run_id)
    found = gather(tmp_path, "f_grpo")
    assert set(found.scopes["laptop"].rows["run_id"]) == {x.run_id, *names[1:]}
    assert any(names[0] in said and names[1] in said for said in found.left_out)
