from dataclasses import replace

import pytest
from refuses import refuses

from common.errors import UserError
from common.sweeps.profiles import load_profile
from papers.fade.launch import TABLES
from papers.fade.sft import train
from slurm import dry_run
from slurm.tables import Wanted, chosen

SFT = "sft_qwen25_7b"
ROW = Wanted(table="table4", row="qwen7b_grpo")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, where nothing is prepared."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_dry_run_has_it_with_its_hours_and_every_7b_row_waits_for_it(here, capsys):
    found = replace(chosen("fade", TABLES, ROW), gates=())
    jobs = found.jobs()
    assert [job.kind for job in jobs[:2]] == ["command", "train"]
    assert jobs[1].needs == (SFT,)
    assert found.commands[SFT].makes == found.runs[0].model.path == train.MODEL
    dry_run.show(jobs, paper="fade", profile=load_profile("h100-2x8"), root=here)
    lines = capsys.readouterr().out.splitlines()
    (own,) = [line for line in lines if line.startswith(f"  {SFT}")]
    # rows x share x R1's 3,500 to 5,500 tokens; 8 x 7.62e9 operations each; 16 x 989e12 x 0.23
    # operations a second at best, 0.16 at worst; 300 s to start
    chains = 1398166 * 0.15 + 3201061 * 0.0625
    ends = [chains * mean * 8 * 7.62e9 / (989e12 * share) / 3600 + 16 / 12
            for mean, share in ((3500, 0.23), (5500, 0.16))]  # fmt: skip
    assert ": {:.0f} to {:.0f} GPU-h on ".format(*(round(end, -1) for end in ends)) in own


def test_rows_that_are_not_trained_wait_for_it_too_and_no_32b_row_does(here):
    jobs = replace(chosen("fade", TABLES, replace(ROW, row="qwen7b_sft")), gates=()).jobs()
    assert {job.needs for job in jobs if job.kind == "evaluate"} == {(SFT,)}
    found = chosen("fade", TABLES, Wanted(table="table5"))
    kinds = [job.kind for job in replace(found, gates=()).jobs()]
    assert kinds[:25] == ["rates"] * 24 + ["train"]  # the filter's solve rates, for all rows
    assert (kinds.count("rates"), kinds.count("train")) == (24, 4)


def test_a_gpu_that_is_too_small_is_refused_with_the_key():
    with refuses("accelerator"):
        train.takes(load_profile("local-1x24"))


def test_what_fails_in_verl_is_an_error_and_leaves_no_process(here, monkeypatch):
    monkeypatch.setattr(train.sys, "executable", "false")
    where = {"gpus": 1, "nodes": 1, "rank": 0, "address": "localhost"}
    with pytest.raises(UserError, match=r"sft_trainer=exit code 1"):
        train.node(**where, folder=here / "run", model=here / "model")
