import pytest
from compositions import PAPERS, asked, runs
from refuses import refuses
from tiny import ROOT

from common.comparison.published import published, reruns_of
from common.errors import UserError
from slurm import prefetch
from slurm.dry_run import TITLES
from slurm.launch import main as launch
from slurm.launch import tables_of
from slurm.tables import PRINTED, Wanted, chosen


def names(found) -> tuple[set[str], set[str]]:
    """(what is trained or evaluated as it is, what is evaluated), by the rows' names."""
    known = {x.run_id: x.name for x in found.runs}
    return set(known.values()), {known[e.row.trained] for e in found.evaluations}


def keys(paper: str, scale: str) -> set[tuple[str, str]]:
    return {(x.table, x.name) for x in runs(paper, scale)}


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_a_launcher_names_every_printed_table_that_rows_stand_for(paper):
    tables = tables_of(paper)
    scales = [s for s in asked(paper).scales if s.startswith("cluster") or s == "gpu"]
    there = set().union(*(keys(paper, scale) for scale in scales))
    for table, statuses in published(ROOT / "papers" / paper / "published").groupby("table"):
        wanted = reruns_of(paper, statuses)
        assert wanted <= there
        assert (table in tables) == bool(wanted), table
        if wanted:
            assert tables[table].rows == PRINTED
            own = set().union(*(keys(paper, scale) for scale in tables[table].scales))
            assert wanted <= own, table
    assert {scale for one in tables.values() for scale in one.scales} == {*scales}


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_every_launcher_shows_its_tables_and_dry_runs_one(paper, tmp_path, capsys):
    tables = tables_of(paper)
    launch([f"paper={paper}"])
    shown = capsys.readouterr().out
    for name, table in tables.items():
        assert f"table={name}  profile={table.profile}" in shown
    some = min(tables, key=lambda name: len(tables[name].scales))
    words = [f"paper={paper}", f"table={some}", f"profile={tables[some].profile}"]
    words += [f"results_dir={tmp_path}"]
    launch([*words, "dry_run=true"])
    out = capsys.readouterr().out
    assert "nothing was submitted" in out
    assert "REFUSED" not in out
    assert not [*tmp_path.iterdir()]


def test_a_table_has_its_rows_and_what_their_evaluations_wait_for():
    tables = tables_of("f_grpo")
    trained, evaluated = names(chosen("f_grpo", tables, Wanted(table="table2")))
    rows = {"qwen7b_grpo", "qwen7b_grpo_n2", "qwen7b_grpo_n32", "qwen7b_f_grpo"}
    assert trained == evaluated == rows | {"qwen7b_base"}  # which draws what the rows score
    trained, evaluated = names(chosen("f_grpo", tables, Wanted(row="qwen15b_math_f_grpo")))
    assert trained == {"qwen15b_math_f_grpo", "qwen15b_math_grpo"}  # its baseline is trained too
    assert evaluated == {"qwen15b_math_f_grpo"}
    both = Wanted(table="table1_v2", row="llama3b_grpo,qwen3_4b_grpo")
    assert names(chosen("f_grpo", tables, both))[0] == {"llama3b_grpo", "qwen3_4b_grpo"}
    less = Wanted(table="table4", without="qwen7b_grpo_kl")
    assert names(chosen("f_grpo", tables, less))[1] == {
        "qwen7b_f_grpo",
        "qwen7b_grpo_entropy",
        "qwen7b_base",
    }


def test_a_trial_is_the_row_in_few_steps_and_apart():
    words = {"row": "qwen15b_math_f_grpo", "steps": "3"}
    true, tried = (
        chosen("f_grpo", {}, Wanted(row=words["row"])),
        chosen("f_grpo", {}, Wanted(**words)),
    )
    assert tried.root == true.root / "trial"
    (x,), whole = tried.runs, next(x for x in true.runs if x.name == words["row"])
    assert (x.optim.steps, x.eval.every, x.checkpoint_every, x.eval.n) == (3, 3, 1, 1)
    assert (x.sampling, x.model, x.data, x.method) == (
        whole.sampling, whole.model, whole.data, whole.method,
    )  # fmt: skip
    assert {(e.n, e.row.checkpoint, e.row.baseline) for e in tried.evaluations} == {
        (1, "last", None)
    }
    assert {e.row.benchmark for e in tried.evaluations} == {
        e.row.benchmark for e in true.evaluations if e.row.trained == whole.run_id
    }
    measured = chosen("fade", {}, Wanted(row="qwen7b_grpo", steps="3"))
    assert (measured.measures, measured.gates) == ([], [])  # they are of steps far beyond
    for refused in ({"steps": "3"}, {"steps": "0", "row": words["row"]}):
        with refuses("optim.steps", refused["steps"]):
            chosen("f_grpo", {}, Wanted(**refused))


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_asked_seeds_are_those_of_every_row_and_evaluation(paper):
    own = chosen(paper, {}, Wanted(scale="cluster"))
    found = chosen(paper, {}, Wanted(scale="cluster", seeds="1,3"))
    wanted = {(x.name, seed) for x in own.runs for seed in (1, 3)}
    assert {(x.name, x.seed) for x in found.runs} == wanted
    assert {x.run_id for x in own.runs} <= {x.run_id for x in found.runs}
    of = {x.run_id: x.seed for x in found.runs}
    assert all(of[e.row.trained] == e.row.seed == e.seed for e in found.evaluations)
    assert len(found.evaluations) == 2 * len(own.evaluations)
    assert len(found.measures) == 2 * len(own.measures)
    assert found.gates == own.gates  # a start model is judged once


def test_seeds_and_samples_are_taken():
    found = chosen("cov_grpo", {}, Wanted(seeds="2", n="64"))
    assert {e.n for e in found.evaluations} == {64}
    aime = chosen("fade", {}, Wanted(row="qwen7b_grpo", n="8"))
    assert {e.n for e in aime.evaluations} == {8}  # also of sets with a number of their own
    words = {"row": "qwen7b_grpo", "seeds": "4-5", "steps": "3"}
    (x,) = chosen("cov_grpo", {}, Wanted(**words)).runs
    assert x.seed == 4  # a trial takes the first


def test_the_tiny_jobs_are_of_every_kind_and_wait_for_their_model():
    found = chosen("fade", {}, Wanted(scale="jobs_smoke"))
    jobs = found.jobs()
    assert {job.kind for job in jobs} == {*TITLES} - {"command"}
    (model,) = [job.key for job in jobs if job.kind == "model"]
    assert [job.needs for job in jobs if job.kind == "rates"] == [(model,)] * 2  # a gate's too


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "table9"}, "table=table9: use one or several of table1, table2"),
        ({"table": "table4", "row": "qwen7b_dapo"}, "row=qwen7b_dapo: use one or several of"),
        ({"without": "nobody"}, "without=nobody: use one or several of"),
        ({"table": "table4", "scale": "cluster_sweeps"}, "table=table4: has no row"),
        ({"seeds": "5-3"}, "seeds=5-3: give some"),  # tests/sweeps/test_reproduce.py has more
        ({"n": "none"}, "n=none: a whole number"),
    ],
)
def test_what_there_is_not_is_refused(given, said):
    with pytest.raises(UserError, match=said):
        chosen("f_grpo", tables_of("f_grpo"), Wanted(**given))


def test_prefetch_downloads_what_the_rows_need_and_names_what_it_could_not(monkeypatch, capsys):
    words = ["paper=two_stage", "table=table2", "row=llama3b_grpo", "prefetch=true"]
    with pytest.raises(UserError, match=r"failed to prefetch: model meta-llama/.*, .*, set amc23"):
        launch(words)  # HF_HUB_OFFLINE=1
    assert "not in the cache" in capsys.readouterr().err
    asked_for = []
    monkeypatch.setattr(prefetch, "download", lambda *model: asked_for.append(model) or "there")
    monkeypatch.setattr(prefetch, "read_whole", lambda node: asked_for.append(node) or "there")
    launch(words)
    (x,) = chosen("two_stage", {}, Wanted(row="llama3b_grpo")).runs
    assert asked_for[0] == (x.model.path, x.model.revision)
    assert len(asked_for) == 1 + 6
    assert "set math_train: there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("qwen3_4b_grpo", {"qwen3_4b_grpo"}),  # of scale=cluster_v2 only
        ("qwen7b_grpo", {"qwen7b_grpo"}),
        ("qwen3_4b_f_grpo,qwen7b_grpo", {"qwen3_4b_f_grpo", "qwen3_4b_grpo", "qwen7b_grpo"}),
    ],
)
def test_a_row_finds_its_scale_as_a_table_does(row, found):
    made = chosen("f_grpo", tables_of("f_grpo"), Wanted(row=row))
    assert found <= {x.name for x in made.runs}
    with refuses("row", "qwen3_4b"):
        chosen("f_grpo", tables_of("f_grpo"), Wanted(row="qwen3_4b"))
