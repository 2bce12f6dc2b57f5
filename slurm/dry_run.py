"""Print what would be submitted and what it would take, without SLURM, GPU or network."""

import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import yaml

from common.config.files import ROOT
from common.errors import UserError
from common.results.longer import finished, steps_of
from common.sweeps.assumptions import FILE
from common.sweeps.cost import Estimate, Held, Network, Range
from common.sweeps.profiles import Profile
from slurm import cost, plan, preflight, records
from slurm.ask import ask
from slurm.prefetch import count
from slurm.script import Offline, dependency, slurm_executor
from slurm.submitit_inside import sbatch_text

TITLES = {
    "model": "models made here",
    "command": "models that commands of the paper make, before their rows",
    "rates": "solve rates of training prompts, before the trainings that they choose prompts for",
    "gate": "what a start model must measure, before the trainings from it, without a GPU",
    "train": "training",
    "evaluate": "evaluation, each after its training",
    "score": "stored samples through the model, each after they are drawn",
    "measure": "measures of kept models, each after its training, without a GPU",
    "compare": "comparison, after the end of all",
}


def show(
    jobs: list[plan.Job],
    *,
    paper: str,
    profile: Profile,
    root: Path,
    full: bool = False,
    say: Callable = print,
) -> None:
    """Print the jobs of each kind with what they take, and one sbatch script per kind. With `full`,
    print the resolved configuration of every job and the script of every array. A job that cannot
    run on the profile is shown with the reason; `submit` would then submit nothing. Writes no
    files."""
    tell = partial(_told, say=say)
    outlook = cost.outlook(jobs, profile)
    estimates, refused = outlook.estimates, outlook.refused
    path = records.folder(root, paper) / "SUBMISSION"
    gpus = cost.gpus(jobs, estimates)
    arrays = plan.arrays(jobs, gpus)
    for kind, title in TITLES.items():
        own = [job for job in jobs if job.kind == kind]
        if not own:
            continue
        found = [estimates[job.key] for job in own if job.key in estimates]
        tell(f"\n== {title}: {len(own)} job(s){_sums(found)}")
        for line in _evaluated(own, outlook) if kind in plan.EVALUATED and not full else []:
            tell(line)
        for job in own if kind not in plan.EVALUATED or full else []:
            said = refused.get(job.key)
            tell(f"  {job.key}{f'  REFUSED: {said}' if said else _each(estimates.get(job.key))}")
            if not said and job.kind == "train":
                for line in _left(
                    root / paper / job.key, job.config.optim.steps, estimates[job.key]
                ):
                    say(line)
            if full and job.config is not None:
                say(_indented(yaml.safe_dump(asdict(job.config), sort_keys=False)))
        groups = [group for group in arrays if group[0].kind == kind]
        for group in groups[: None if full else 1]:
            if profile.executor == "slurm":
                needs, wanted = _symbolic(group[0]), gpus.get(group[0].key, max(1, profile.gpus))
                executor = slurm_executor(group, path, profile, needs, Offline, wanted)
                say(sbatch_text(executor, len(group)).rstrip())
        if len(groups) > 1 and not full:
            say(f"# ... and {len(groups) - 1} more array(s) like it")
    sums = cost.total(list(estimates.values()))
    tokens = f"{Range(sums.tokens.low / 1e9, sums.tokens.high / 1e9)} billion sampled tokens"
    tell(f"\n{len(jobs)} jobs{_sums(list(estimates.values()))}, {tokens}")
    kept = sum(e.kept_gb for e in estimates.values())
    disk = f"{_gb(sums.disk_gb)} at most, {_gb(kept)} of it models kept along training"
    tell(f"disk: {disk}; {preflight.free_gb(root):,.0f} GB are free here, at {root}")
    tell(queue_shape(jobs, estimates, profile))
    commands = [job.config for job in jobs if job.kind == "command"]
    for check in (partial(preflight.inputs, commands), partial(preflight.room, sums.disk_gb, root)):
        try:
            check()
        except UserError as error:
            say(f"submit will refuse on this machine: {error}")
    for one in count((job.config for job in jobs), say):
        say(f"REFUSED: {one}; submit refuses all")
    if refused:
        say(f"{len(refused)} job(s) cannot run on {profile.name}, see REFUSED; submit refuses all")
        say(f"{cost.leaves_out(jobs, outlook)} leaves their rows out")
    more = "" if full else "; dry_run=full prints all scripts and configurations"
    tell(f"assumptions: {FILE.relative_to(ROOT)}; nothing was submitted{more}")


def _told(text: str, say: Callable, width: int = 100) -> None:
    """Say `text`, with long lines broken after a comma, a colon or a semicolon. A refusal is not
    broken."""
    for line in text.split("\n"):
        start, *rest = re.split(r"(?<=[,;:]) ", line)
        for part in rest:
            if len(start) + 1 + len(part) <= width or "REFUSED" in line:
                start += f" {part}"
            else:
                say(start)
                start = f"      {part}"
        say(start)


def _sums(estimates: list[Estimate]) -> str:
    if not estimates:
        return ""
    sums = cost.total(estimates)
    return f", {sums.gpu_hours} GPU-hours, {sums.usd} USD, {_gb(sums.disk_gb)} disk"


def _gb(size: float) -> str:
    return f"{Range(size, size)} GB"


def _each(e: Estimate | None) -> str:
    if e is None:
        return ""
    tries = f"at most {e.attempts} attempt(s)" if e.attempts > 1 else "one attempt"
    took = f"{e.gpu_hours} GPU-h" if e.gpus else f"{e.hours} hours, {e.memory_gb:.2g} GB of memory"
    took += f" ({e.at_middle_lengths} at middle lengths)" if e.at_middle_lengths else ""
    said = f"  {took}, {tries}, {_gb(e.disk_gb)} disk"
    said += f" (kept models {_gb(e.kept_gb)})" if e.kept_gb else ""
    if not e.gpus:
        return said
    return f"{said}, {e.memory_gb:.2g} GB a GPU{_cache(e.cache)}{_beside(e.network)}"


def _cache(held: Held | None) -> str:
    """Return the line about vLLM's cache in a training's output."""
    if held is None:
        return ""
    return (
        f"\n    vLLM's cache: {held.tokens:,} tokens, {held.whole:.0f} whole responses at once, "
        f"{held.preemptions} preemptions a step"
    )


def _left(run: Path, steps: int, e: Estimate) -> list[str]:
    """Return a line on what is left of a training that is finished with fewer steps; an empty list
    for any other training."""
    if not (run / "DONE").exists() or finished(run, steps):
        return []
    before = steps_of(run) or 0
    share = 1 - before / steps
    left = Range(e.gpu_hours.low * share, e.gpu_hours.high * share)
    return [f"    goes on from step {before}: {left} GPU-h are left; all sums are of whole runs"]


def _beside(n: Network | None) -> str:
    """Return the memory network's part of a training's output; "" without a memory network."""
    if n is None:
        return ""
    share = Range(100 * n.sampling.low, 100 * n.sampling.high)
    held = f"{n.training_gb:.2g} GB a GPU in training, {n.sampler_gb:.2g} in the sampler"
    return (
        f"\n    of it the memory network's ({n.parameters / 1e9:.3g} billion): {held} and "
        f"{100 * n.cache_share:.0f} % of its cache, {n.gpu_hours} GPU-h, {share} % of the time of "
        "rollouts"
    )


def _evaluated(jobs: list[plan.Job], outlook: cost.Outlook) -> list[str]:
    """Return one line per trained model, with what it is evaluated on, and one line for each
    evaluation that cannot run."""
    by_model: dict[str, list[plan.Job]] = {}
    for job in jobs:
        by_model.setdefault(job.config.row.trained, []).append(job)
    lines = []
    for key, own in by_model.items():
        row = own[0].config.row
        names = ", ".join(dict.fromkeys(job.config.row.benchmark for job in own))
        known = [outlook.estimates[job.key] for job in own if job.key in outlook.estimates]
        hours = cost.total(known).gpu_hours
        samples = "/".join(str(n) for n in sorted({job.config.n for job in own}))
        said = f"{row.checkpoint} checkpoint, n={samples}, {hours} GPU-h"
        lines.append(f"  {key}: {said}: {names}")
        lost = [job for job in own if job.key in outlook.refused]
        lines += [f"    {j.config.row.benchmark} REFUSED: {outlook.refused[j.key]}" for j in lost]
    return lines


def queue_shape(jobs: list[plan.Job], estimates: dict, profile: Profile) -> str:
    """Return how many jobs run at once on what, and how long all take if no job waits in the
    queue."""
    known = [(job.kind, estimates[job.key]) for job in jobs if job.key in estimates]
    evaluated = [e for kind, e in known if kind in plan.EVALUATED]
    before = [[e.hours for one, e in known if one == kind] for kind in ("command", "rates")]
    trained = [e for kind, e in known if kind == "train"]
    each = max((e.gpus for e in trained), default=1)
    wide = ask(profile, "train", each).parallel
    gpus = min(ask(profile, "evaluate", 1).parallel, sum(e.gpus for e in evaluated))
    ends = []
    for end in ("low", "high"):
        waves = sorted((getattr(e.hours, end) for e in trained), reverse=True)
        hours = sum(waves[::wide])  # each wave lasts as long as its longest job
        hours += sum(max((getattr(h, end) for h in some), default=0) for some in before)
        if evaluated:
            longest = max(getattr(e.hours, end) for e in evaluated)
            hours += max(longest, sum(getattr(e.gpu_hours, end) for e in evaluated) / gpus)
        ends.append(hours)
    then = f", then {len(evaluated)} evaluations on {gpus} GPUs" if evaluated else ""
    return (
        f"queue: at most {min(wide, len(trained))} training jobs at once, on at "
        f"most {each} GPU(s) each{then}; {Range(*ends)} hours from the first start"
    )


def _symbolic(job: plan.Job) -> str | None:
    """Return the job's dependency with names in place of job ids: the keys of the jobs that it
    needs, and EVERY_JOB_ABOVE for all that it follows."""
    names = {key: key for key in job.needs} | {key: "EVERY_JOB_ABOVE" for key in job.follows}
    return dependency(job, {key: name.replace("_", "-") for key, name in names.items()})


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines()).rstrip()
