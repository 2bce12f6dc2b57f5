import json
import shutil

import pandas as pd
import pytest
from made_up_runs import cell, cluster_run, few_cells

from common.comparison import compare, text
from common.comparison.spec import spec_of
from common.results.collect import verify
from common.results.files import sha256
from common.results.provenance import GREY

SPEC = spec_of("f_grpo")

pytestmark = pytest.mark.sweep


@pytest.fixture(autouse=True)
def few_claims(monkeypatch):
    few_cells(monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    cluster_run(root)
    return root


@pytest.fixture
def root(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "results")
    return tmp_path / "results"


def test_a_number_leads_to_its_run(root):
    result = compare.assess(SPEC, root)
    one = cell(result)
    assert one["state"] == "ok"
    (row,) = result.runs.to_dict("records")
    assert row["run_id"] == one["run_ids"] == "GRPO-s1"
    run = root / "f_grpo" / "GRPO-s1"
    meta = json.loads((run / "meta.json").read_text())
    assert row["commit"] == (meta["commit"] or "")
    assert f"numpy {meta['packages']['numpy']}" in row["versions"]
    assert (root / row["config"]).read_bytes() == (run / "config.yaml").read_bytes()
    assert row["config_sha256"] == sha256((root / row["config"]).read_bytes())
    assert row["samples_sha256"] == sha256((root / row["samples"]).read_bytes())
    assert (row["seed"], row["imported"], result.left_out) == (1, "", [])


def test_deleting_a_sample_file_turns_its_cells_grey(root):
    number = cell(compare.assess(SPEC, root))["rerun"]
    (root / "f_grpo" / "GRPO-s1" / "samples" / "AIME24.jsonl.gz").unlink()
    result = compare.assess(SPEC, root)
    assert (cell(result)["state"], cell(result)["rerun"]) == ("missing", number)
    assert set(result.summary.query("scope == 'cluster'")["state"]) == {"missing"}
    assert "GRPO-s1/samples/AIME24.jsonl.gz" in result.left_out[0]
    assert "(missing files)" in text.markdown(result)
    assert cell(result)["state"] in GREY
    # a cell that rests on no run of it is as before
    assert cell(result, "DAPO")["state"] == ""


def test_changed_numbers_are_not_shown_and_said_to_be_left_out(root):
    with open(root / "f_grpo" / "GRPO-s1" / "metrics.csv", "a") as file:
        file.write("\n")
    result = compare.assess(SPEC, root)
    assert cell(result)["verdict"] == "not run"
    assert pd.isna(cell(result)["rerun"])
    assert "GRPO-s1" in result.left_out[0]


def test_tables_without_their_runs_are_reference_and_remember_them(root, tmp_path, monkeypatch):
    compare.compare(SPEC, root)
    before = compare.assess(SPEC, root).runs.iloc[0]
    committed = shutil.copytree(root, tmp_path / "committed")
    monkeypatch.setattr("common.comparison.gather.REFERENCE", committed)
    shutil.rmtree(root / "f_grpo" / "GRPO-s1")
    result = compare.assess(SPEC, root)
    after = result.runs.iloc[0]
    assert (cell(result)["state"], after["state"]) == ("reference", "reference")
    kept = ["run_id", "commit", "config_sha256", "samples", "samples_sha256", "versions"]
    assert after[kept].tolist() == before[kept].tolist()
    digest = sha256((root / "f_grpo" / "cluster" / "metrics.csv.gz").read_bytes())
    assert digest in after["detail"]


def test_a_run_that_is_gone_is_named_while_others_stay(root):
    cluster_run(root, "DAPO")
    compare.compare(SPEC, root)
    shutil.rmtree(root / "f_grpo" / "GRPO-s1")
    result = compare.assess(SPEC, root)
    assert any("GRPO-s1" in x for x in result.left_out)
    assert cell(result)["verdict"] == "not run"
    assert verify(root / "f_grpo" / "DAPO-s1") == []


def test_a_set_that_two_runs_read_from_two_commits_is_named_and_none_counts(finished, root):
    cluster_run(root, "DAPO")
    for name, commit in (("GRPO-s1", "c"), ("DAPO-s1", "d")):
        found = json.dumps({"amc23": f"knoveleng/AMC-23@{commit}"})
        (root / "f_grpo" / name / "sets.json").write_text(found)
    result = compare.assess(SPEC, root)
    (said,) = result.left_out
    assert "set amc23" in said
    assert "AMC-23@c: GRPO-s1" in said
    assert "AMC-23@d: DAPO-s1" in said
    assert {cell(result)["verdict"], cell(result, "DAPO")["verdict"]} == {"not run"}
