from dataclasses import replace

import pandas as pd
import pytest
from refuses import refuses
from tiny import ROOT

from common.results.columns import COLUMNS
from common.results.files import write_csv
from common.sweeps.gates import Gate, gates
from common.sweeps.plan import scales_of
from common.sweeps.profiles import load_profile
from papers.fade.gate import judge
from papers.fade.launch import TABLES
from slurm import cost
from slurm.tables import Wanted, chosen

LARGE = ("grpo", "power_2", "power_asym", "fade_h1", "asym_05")
PRINTED = {"pass@1": (15.2, 1.2), "pass@10": (42.3, 2.0), "pass@100": (52.2, 2.2)}


def measured(gate: Gate, *, solve_rate=30.0, entropy=2.0, off=0.0) -> Gate:
    """What the gate reads; its benchmark is `off` by so many standard errors."""
    rows = [("pass@1", solve_rate, 1.3), ("token_entropy_per_response", entropy, None)]
    places = {f"evaluations/{gate.prompts}": rows}
    for run in gate.benchmarks.values():
        rows = [(metric, value + off * error, error) for metric, (value, error) in PRINTED.items()]
        places[f"fade/{run}"] = rows
    for place, rows in places.items():
        frame = pd.DataFrame(rows, columns=["metric", "value", "stderr"])
        path = f"{gate.results_dir}/{place}/metrics.csv"
        write_csv(ROOT / path, frame.reindex(columns=COLUMNS))
    return gate


@pytest.fixture(scope="module")
def found():
    return {one.gate.name: one.gate for one in gates(scales_of("fade", "scale=cluster"))}


@pytest.fixture
def start(found, tmp_path):
    return replace(found["gate-sft_qwen25_7b"], results_dir=str(tmp_path))


def test_a_model_as_printed_passes_and_two_standard_errors_are_noise(start):
    folder = judge(measured(start, off=2.0))
    assert (folder / "DONE").exists()
    table = pd.read_csv(folder / "measured.csv").set_index("number")
    assert set(table.index) == {"solve_rate", *(f"LiveCodeBench v6 {k}" for k in PRINTED)}
    assert table["passes"].all()
    assert judge(start) == folder  # found


@pytest.mark.parametrize(
    ("changes", "number", "value", "expected"),
    [
        ({"off": -4.0}, "LiveCodeBench v6 pass@100", "43.4", "52.2 ± 6.1"),
        ({"solve_rate": 20.0}, "solve_rate", "20", "30 ± 8.6"),
    ],
)
def test_another_model_is_refused_with_both_numbers_and_the_remedy(
    start, changes, number, value, expected
):
    with refuses(number, value) as caught:
        judge(measured(start, **changes))
    assert expected in str(caught.value)
    assert start.remedy in str(caught.value)
    assert (start.path / "measured.csv").exists()
    assert not (start.path / "DONE").exists()
    assert judge(measured(start))  # after the remedy


@pytest.mark.parametrize(("H_0", "passes"), [(1.05, True), (1.0, False), (0.4, False)])
def test_a_target_entropy_must_be_below_the_initial_one(found, tmp_path, H_0, passes):
    gate = replace(found["gate-entropy_1"], results_dir=str(tmp_path))
    measured(gate, entropy=H_0)
    if passes:
        assert judge(gate)
    else:
        with refuses("entropy", f"{H_0:.4g}"):
            judge(gate)


@pytest.mark.sweep
def test_trainings_wait_for_their_gates_and_these_for_what_they_read():
    listed = chosen("fade", TABLES, Wanted(table="fig8_table")).jobs()
    jobs = {name: job for job in listed for name in job.makes}
    assert len({job.key for job in listed}) == len(listed)
    assert len(jobs) == sum(len(job.makes) for job in listed)
    trained = {job.config.name: job for job in listed if job.kind == "train"}
    of = {
        name: {key.rpartition("-")[0].removeprefix("gate-") for key in job.needs[1:]}
        for name, job in trained.items()
    }
    assert of["qwen7b_grpo"] == {"sft_qwen25_7b"}
    assert of["qwen7b_fade_h13"] == {"sft_qwen25_7b", "entropy_13"}
    assert of["qwen7b_fade_h05"] == {"sft_qwen25_7b", "entropy_05"}
    (whole,) = (job for job in listed if job.key.startswith("gate-sft"))
    kinds = [jobs[key].kind for key in whole.needs]
    assert kinds == ["rates", "evaluate"]
    assert all(jobs[key].needs == ("sft_qwen25_7b",) for key in whole.needs)
    (samples,) = jobs[whole.needs[0]].config.evaluations
    assert (samples.n, samples.eval.prompts["size"]) == (8, 1000)
    assert samples.eval.verifier["strict"]
    priced = [job.key for job in cost.predictions(listed, load_profile("h100-2x8")) if job.cost]
    assert {jobs[name].key for name in whole.needs} <= {*priced}
    large = chosen("fade", TABLES, Wanted(table="table5")).gates
    assert {one.gate.name: one.rows for one in large} == {
        "gate-sft_cwm32b": {f"cwm32b_{name}" for name in LARGE},
        "gate-entropy_1_cwm32b": {"cwm32b_fade_h1"},
    }
