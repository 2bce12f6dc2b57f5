import pytest
from compositions import PAPERS, asked, runs
from lab import dry

from common.sweeps.cost import on
from common.sweeps.plan import evaluations
from common.sweeps.profiles import load_profile
from slurm import cost, plan

SCALES = [
    (paper, scale)
    for paper in PAPERS
    for scale in asked(paper).scales
    if scale.startswith("cluster")
]


def jobs_of(paper: str, scale: str) -> list[plan.Job]:
    return plan.plan(runs(paper, scale), evaluations(asked(paper, f"scale={scale}")))


@pytest.mark.sweep
@pytest.mark.parametrize(("paper", "scale"), SCALES)
def test_every_row_is_estimated_or_refused_with_the_reason(paper, scale, tmp_path):
    jobs = jobs_of(paper, scale)
    heavy = {job.key for job in jobs if job.kind in (*plan.WHOLE, *plan.SAMPLED)}
    for name in ("h100-1x8", "h100-2x8", "h200-4", "debug"):
        profile = load_profile(name)
        seen = {job.key: job for job in cost.outlook(jobs, profile)}
        refused = [job for job in seen.values() if job.refused]
        assert {key for key, job in seen.items() if bool(job.refused) != bool(job.cost)} == heavy
        assert all("=" in job.refused or "cannot run" in job.refused for job in refused)
        lines = dry(jobs, profile, tmp_path, paper)
        assert ("REFUSED" in "\n".join(lines)) == bool(refused)
        if not scale.endswith("_32b"):
            assert name == "debug" or not refused
        if name == "h100-1x8" and "32b" not in scale:  # no chunk of an evaluation above an hour
            sampled = [job.cost for job in seen.values() if job.kind in ("evaluate", "rates")]
            assert all(e.step_s.high <= 3600 for e in sampled if e.tensor_parallel == 1)
    assert all(len(group) <= plan.MOST for group in plan.arrays(jobs))


def test_every_paper_has_a_cluster_scale():
    assert [paper for paper, scale in SCALES if scale == "cluster"] == PAPERS


@pytest.mark.sweep
def test_a_row_that_does_not_fit_is_named_and_submit_refuses_all(tmp_path):
    jobs = jobs_of("fade", "cluster_32b")
    profile = load_profile("h200-4")
    lines = dry(jobs, profile, tmp_path, "fade")
    assert any("REFUSED: memory_gb=500: weights, gradients" in line for line in lines)
    names = "cwm32b_grpo,cwm32b_power_2,cwm32b_power_asym,cwm32b_fade_h1,cwm32b_asym_05"
    with pytest.raises(cost.UserError, match=f"without={names} sends the other rows"):
        cost.predictions(jobs, profile)
    assert f"without={names} leaves their rows out" in lines


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["h100-1x8", "h100-2x8", "local-8x80"])
def test_32_billion_weights_fit_eight_large_gpus(name):
    """In evaluation two of them: one has no room for the cache of more than a few responses, and
    a chunk of 16,384 would not end within an attempt."""
    jobs = cost.predictions(jobs_of("fade", "cluster_32b"), load_profile(name))
    found = [job.cost for job in jobs if job.cost]
    assert {one.tensor_parallel for one in found if one.memory_gb < 40} == {2}


@pytest.mark.sweep
def test_a_chunk_above_an_hour_is_said(tmp_path):
    lines = dry(jobs_of("fade", "cluster_32b"), load_profile("h100-2x8"), tmp_path, "fade")
    said = [line for line in lines if " minutes a chunk" in line]
    whole = [line for line in said if "(above an hour, since a problem has one chunk)" in line]
    assert [line.split(",")[0].strip() for line in whole] == ["cwm32b_grpo"]
    assert len([line for line in said if "(above an hour)" in line]) == len(said) - len(whole) > 0


@pytest.mark.sweep
def test_the_nodes_of_the_paper_hold_its_32_billion_weights():
    """On twelve nodes or all thirty-two, 8 GPUs share each sequence."""
    rows = runs("fade", "cluster_32b")
    for name in ("h100-12x8", "h100-32x8"):
        profile = load_profile(name)
        jobs = plan.plan([on(x, profile, {}) for x in rows], [])
        assert cost.predictions(jobs, profile)
    without_sharing = cost.outlook(plan.plan(rows, []), profile)
    refused = [job.refused for job in without_sharing if job.refused]
    assert all("sampling.prompts=" in why for why in refused)
    assert len(refused) == len(rows) == 5


@pytest.mark.sweep
def test_maze_rows_are_jobs_of_one_gpu(tmp_path):
    jobs, profile = jobs_of("f_grpo", "gpu"), load_profile("h100-1x8")
    trained = [job for job in cost.predictions(jobs, profile) if job.kind == "train"]
    assert [job.gpus for job in trained] == [1] * 19
    asked_for = "\n".join(dry(jobs, profile, tmp_path)).split("== training")[1]
    for line in ("--array=0-15%16", "--gpus-per-node=1", "--cpus-per-task=12", "--mem=125GB"):
        assert f" {line} " in asked_for
