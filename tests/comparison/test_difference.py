import numpy as np
import pandas as pd
import pytest
from made_up_runs import made_up_counts, made_up_run
from refuses import refuses
from tiny import ROOT

from common.comparison import difference
from common.errors import UserError
from common.metrics.paired import two_way_interval

REFERENCE = ROOT / "results" / "reference"


def shown(capsys, *words) -> list[list[str]]:
    difference.main([*words])
    lines = capsys.readouterr().out.splitlines()
    return [[x.strip() for x in line.split("|")[1:-1]] for line in lines if line[:2] == "| "][2:]


def a_run(root, method, seed, share, config=None):
    rng = np.random.default_rng([seed, *map(ord, method)])
    drawn = made_up_counts({"b": share}, lambda s: rng.binomial(16, s, 30), problems=30, n=16)
    about = {"table": "t", "model": "m", "method": method, "seed": seed}
    return made_up_run(root, "own", f"{method}-s{seed}", about, {5: drawn}, [1, 16], config=config)


def test_two_methods_of_a_paper_differ_as_its_claims_say(capsys):
    methods = ("FADE", "Power (alpha=2)")
    words = ["paper=fade", f"results_dir={REFERENCE}", "table=lr 1e-5", "metrics=pass@64"]
    (line,) = [x for x in shown(capsys, *methods, *words) if x[0] == "rare"]
    claims = pd.read_csv(REFERENCE / "fade" / "gaps.csv").set_index(["claim", "scope"])
    stored = claims.loc[("div_static", "laptop")]
    said = f"{stored['difference']:+.2f} [{stored['low']:.2f}, {stored['high']:.2f}]"
    assert line[4] == said
    assert line[6:] == ["9", "60"]
    assert line in shown(capsys, *methods, *words[:2], words[3])  # no other table has both
    with refuses("diff", "GRPO (N=9)"):
        difference.main([methods[0], "GRPO (N=9)", *words])
    with refuses("table", "base"):
        difference.main([*methods, *words[:2], "table=base"])


def test_two_sets_of_run_folders(tmp_path, capsys):
    root = tmp_path / "mine [1]"
    runs = {m: [a_run(root, m, s, p) for s in (1, 2, 3)] for m, p in (("A", 0.5), ("B", 0.3))}
    globs = [f"{root}/own/{method}-*" for method in runs]
    lines = shown(capsys, *globs)
    assert [line[:2] for line in lines] == [["b", "pass@1"], ["b", "pass@16"]]
    counts = [[pd.read_csv(run / "counts.csv")["c"] / 16 for run in of] for of in runs.values()]
    expected = two_way_interval(100 * (np.array(counts[0]) - np.array(counts[1])))
    low, high = expected.bounds()
    assert lines[0][4] == f"{expected.value:+.2f} [{low:.2f}, {high:.2f}]"
    assert lines[0][6:] == ["3", "30"]


def test_one_set_of_runs_has_means_over_seeds_and_problems(tmp_path, capsys):
    shares = ((1, 0.5), (2, 0.6), (3, 0.4))
    runs = [a_run(tmp_path, "A", seed, share) for seed, share in shares]
    lines = shown(capsys, f"{tmp_path}/own/A-*")
    assert [line[:2] for line in lines] == [["b", "pass@1"], ["b", "pass@16"]]
    expected = two_way_interval(
        100 * np.array([pd.read_csv(run / "counts.csv")["c"] / 16 for run in runs])
    )
    low, high = expected.bounds()
    assert lines[0][2:] == [f"{expected.value:.4g} [{low:.4g}, {high:.4g}]", "3", "30"]
    assert shown(capsys, f"{tmp_path}/own/A-*", "metrics=pass@16") == lines[1:]
    (fewer,) = shown(capsys, f"{tmp_path}/own/A-s[12]", "metrics=pass@1")
    assert "[" not in fewer[2]
    assert fewer[3] == "2"
    with refuses("metrics", "pass@3"):
        difference.main([f"{tmp_path}/own/A-*", "metrics=pass@3"])


def test_the_interval_of_a_share_ends_at_0_and_100_percent(tmp_path, capsys):
    for seed, share in ((1, 0.001), (2, 0.02), (3, 0.001)):
        a_run(tmp_path, "A", seed, share)
    (line,) = shown(capsys, f"{tmp_path}/own/A-*", "metrics=pass@1")
    assert "[0, " in line[2]


def test_the_table_is_headed_by_what_else_differs(tmp_path, capsys):
    def settings(seed, steps, base=0, **method):
        model = {"name": "m", "pretrain": {"seed": base, "layers": 2}}
        return {"seed": seed, "name": str(method), "method": method, "optim": {"steps": steps}} | {
            "model": model
        }

    runs = [("A", 1, 60, 1, 0), ("B", 1, 20, 2, 0), ("B", 2, 20, 2, 5), ("C", 1, 60, 3, 7)]
    for name, seed, steps, gamma, base in runs:
        a_run(tmp_path, name, seed, 0.5, settings(seed, steps, base, gamma=gamma))
    a, b = (f"{tmp_path}/own/{name}-*" for name in "AB")
    assert shown(capsys, a, b)[0][6] == "1, 2"  # seeds: A's mean is over one, B's over two
    sides = {name: sorted((tmp_path / "own").glob(f"{name}-*")) for name in "ABC"}
    assert difference.apart(sides["A"], sides["B"]) == {"optim.steps": "60, 20"}
    assert difference.apart(sides["A"], sides["C"]) == {"model.pretrain.seed": "0, 7"}
    difference.main([a, b])
    assert "optim.steps (60, 20)" in capsys.readouterr().out
    difference.main([a, a])
    assert "optim.steps" not in capsys.readouterr().out


def test_what_cannot_be_compared_is_refused(tmp_path):
    run = a_run(tmp_path, "A", 1, 0.5)
    both = f"{tmp_path}/own/A-*"
    for no_side in ([], ["paper=f_grpo"]):
        with refuses("diff"):
            difference.main(no_side)
    with refuses("diff", f"{tmp_path}/none-*"):
        difference.main([both, f"{tmp_path}/none-*"])
    with refuses("metrics", "pass@3"):
        difference.main([both, both, "metrics=pass@3"])
    (run / "counts.csv").write_text("benchmark,problem_id,n,c\n")
    with pytest.raises(UserError, match=str(run / "counts.csv")):
        difference.main([both, both])
