import pandas as pd
import pytest
from code_cases import isolated
from tiny import MODEL

from common.backends import run_experiment
from common.errors import UserError
from common.experiment import load
from common.results.collect import verify
from common.tasks import expressions

pytestmark = pytest.mark.sandbox

TINY = [
    *MODEL,
    "device=cpu",
    "data.train.size=40",
    "data.benchmarks.functions.size=4",
    "sampling.prompts=4",
    "sampling.group_size=4",
    "optim.steps=2",
    "eval.n=4",
    "eval.k=[1,4]",
    "eval.curve_n=4",
]


@isolated
def test_a_tiny_run_learns_from_the_sandbox(tmp_path):
    x = load(["experiment=code_fade", f"results_dir={tmp_path}", *TINY], "fade")
    folder = run_experiment(x, progress=False)
    assert verify(folder) == []
    curve = pd.read_json(folder / "metrics.jsonl", lines=True)
    assert list(curve.step) == [1, 2]
    assert curve[["timeout", "error"]].eq(0).all(axis=None)
    samples = pd.read_json(folder / "samples" / "functions.jsonl.gz", lines=True)
    assert len(samples) == 4 * 4
    assert set(samples.outcome) <= {"correct", "wrong", "unparsed"}
    programs = samples[samples.outcome != "unparsed"].response
    assert len(programs) > 0
    assert programs.str.startswith(expressions.OPENING).all()


def test_the_task_is_in_the_models_name():
    plain, other = load([], "fade"), load(["+model.pretrain.task=expressions"], "fade")
    assert plain.run_id != other.run_id
    with pytest.raises(UserError, match="task"):
        load(["+model.pretrain.task=other"], "fade")
