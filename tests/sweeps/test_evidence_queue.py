"""`rlvr evidence`: more seeds of the laptop scales' rows, in an order that a stop leaves whole."""

import subprocess
import sys
from pathlib import Path

import pytest
from compositions import composed, runs
from tiny import TINY

from common.errors import UserError
from common.sweeps import evidence
from common.sweeps.plan import makers


@pytest.mark.sweep
def test_the_runs_are_the_scales_own_with_more_seeds():
    found = evidence.runs(["cov_grpo"], ["full", "laptop_maze"], range(1, 8))
    ids = [x.run_id for x in found]
    ours = runs("cov_grpo", "full") + runs("cov_grpo", "laptop_maze")
    assert len(set(ids)) == len(ids)
    assert {x.run_id for x in ours} <= set(ids)
    assert [x.seed for x in found] == sorted(x.seed for x in found)
    by_seed = [[x for x in found if x.seed == seed] for seed in range(1, 8)]
    assert {len(group) for group in by_seed} == {len(found) / 7}
    for group in by_seed:
        assert [x.table for x in group] == [x.table for x in by_seed[0]]
        trained = [x.optim.steps > 0 for x in group]
        assert trained == sorted(trained)  # the base models first
    bases = {x.seed: x.model.pretrain.seed for x in found}
    assert bases == dict.fromkeys(range(1, 6), 0) | {6: 1, 7: 2}
    made = [(x.model.name, x.seed) for x in makers(found)]
    assert made == [(name, seed) for seed in (1, 6, 7) for name in ("tiny-qwen2", "maze-qwen2")]


def test_seeds_that_are_not_stored_have_base_models_of_their_own():
    bases = [evidence.base_seed(seed) for seed in range(1, 20)]
    assert bases[:9] == [0, 0, 0, 0, 0, 1, 2, 1, 2]
    assert len(set(bases[9:])) == 10
    assert not set(bases[9:]) & set(bases[:9])


@pytest.mark.sweep
def test_a_budget_stops_it_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    where = (*TINY, f"results_dir={tmp_path}")
    once = composed((*where, "experiment=base"), "f_grpo"), composed(where, "f_grpo")
    monkeypatch.setattr(evidence, "runs", lambda *_: list(once))
    monkeypatch.setattr(evidence, "give_way", lambda: None)
    words = [f"results_dir={tmp_path}"]
    evidence.main([*words, "budget=0.0001m"])
    said = capsys.readouterr()
    assert "2 runs, 0 done\n" in said.out
    assert "budget=0.0001m: 2 of 2 runs are left; again to go on" in said.out
    assert said.err.count("out of time") == 2
    evidence.main(words)
    assert "left" not in capsys.readouterr().out
    assert all((tmp_path / "f_grpo" / x.run_id / "DONE").exists() for x in once)
    evidence.main(words)
    assert "2 runs, 2 done\n" in capsys.readouterr().out


WRONG = ["papers=nothing", "seeds=0", "seeds=6-5", "rows=no_such", "workers=two", "budget=8"]


@pytest.mark.parametrize("word", WRONG)
def test_what_cannot_be_meant_is_refused(word):
    name, value = word.split("=")
    with pytest.raises(UserError, match=f"{name}={value}"):
        evidence.main(["papers=cov_grpo", f"{name}={value}"])


def test_it_gives_way():
    code = "import os; from common.sweeps.evidence import give_way; give_way(); print(os.nice(0))"
    group = Path("/proc/self/autogroup")
    code += f"; print(open({str(group)!r}).read())" if group.exists() else ""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True
    )
    assert done.stdout.startswith("19\n"), done.stderr
    assert not group.exists() or "nice 19" in done.stdout
