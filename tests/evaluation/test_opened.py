import json

import pandas as pd
from evaluations import MODEL, strict_evaluate

from common.backends.local import train
from common.evaluation.rescore import main as rescore
from common.evaluation.run import evaluate
from common.experiment import load
from common.results.files import read_jsonl

JUDGE = """
def judge(response, reference, *, opened=False):
    return opened and bool(response)
"""


def test_opened_is_set_by_an_evaluation_a_new_scoring_and_a_training(results, tmp_path):
    (tmp_path / "judge.py").write_text(JUDGE)
    judge, file = f"_target_={tmp_path}/judge.py:judge", tmp_path / "own.jsonl"
    rows = [{"id": str(i), "problem": f"1 2 3 4 = {i} <think>\n", "answer": "1"} for i in range(4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = [*MODEL, "device=cpu", f"results_dir={results}"]
    words = ["eval=jsonl", f"eval.prompts.path={file}", "n=2", "max_tokens=4", "workers=1"]
    ran = evaluate(strict_evaluate(*common, *words, f"eval.verifier.{judge}"))
    for run in (ran, rescore([f"run={ran}"])):
        assert pd.read_csv(run / "counts.csv")["c"].tolist() == [2] * 4
    words = ["data=jsonl", f"data.train.path={file}", f"data.benchmarks.test.path={file}"]
    words += ["sampling.prompts=4", "sampling.group_size=2", "sampling.max_tokens=4"]
    words += ["optim.steps=1", "eval.n=1", "eval.curve_n=1", "eval.k=[1]", f"data.verifier.{judge}"]
    run = train(load([*common, *words], "f_grpo"), progress=False)
    assert read_jsonl(run / "metrics.jsonl")[0]["reward"] == 1
