"""Experiments of a paper on a cluster.

    rlvr submit paper=f_grpo profile=h100-2x8 [scale=cluster] [dry_run=true]
    rlvr status paper=f_grpo
    rlvr cancel paper=f_grpo
    srun --gpus-per-node=8 rlvr preflight [device=auto|cpu] [backend=verl|local]
    rlvr rehearse paper=f_grpo [row=qwen15b_math_grpo] [samples=2048] [nodes=1]

submit sends what is neither done nor queued: the same command again sends the rest. dry_run=true
prints jobs, a script of each kind and costs instead, and needs no SLURM; dry_run=full all scripts
and configurations. budget=200 takes the rows that decide the most claims within so many GPU-hours
(slurm/budget.py); without=ROW,ROW leaves rows out, such as those that do not fit. profile names a
file of configs/slurm/. All take results_dir=FOLDER (results); verl.KEY=VALUE sets, for all
trainings, a key of verl's own that changes memory and speed alone; other key=value pairs go to the
paper's reproduce.yaml, whose sweeps say what is trained and evaluated. preflight looks at the node
that it runs on as a job does before it computes: driver, GPUs and their free memory, flash-attn,
shared memory, TMPDIR, a sum over all GPUs.

rehearse runs one row with its own numbers on a hollow model, without a GPU
(tests/slurm/one_machine.py starts a SLURM for it); a step and an evaluation draw `samples` at most,
a curve point a quarter of them, and what that cuts is said. With nodes=2 the training is on a Ray
cluster of two.
"""

import os
from dataclasses import replace
from pathlib import Path

from common.cli import run
from common.config.compose import compose, value
from common.config.files import known_paper
from common.config.strict import strict
from common.config.words import pairs, split
from common.errors import require
from common.sweeps.plan import Reproduce, evaluations, experiments, without

OPTIONS = {
    "submit": {
        "paper": "",
        "profile": "",
        "scale": "cluster",
        "dry_run": "false",
        "budget": "all",
        "without": "",
    },
    "status": {"paper": "", "scale": "cluster"},
    "cancel": {"paper": "", "scale": "cluster"},
    "preflight": {"device": "auto", "backend": "verl", "folder": "."},
    "rehearse": {
        "paper": "",
        "profile": "rehearsal",
        "scale": "cluster",
        "row": "",
        "samples": "2048",
        "nodes": "1",
    },
}


def main(words: list[str]) -> None:
    verb, *arguments = words or [""]
    require(verb in OPTIONS, "command", verb, f"use one of {', '.join(OPTIONS)}")
    given, others = split(arguments, OPTIONS[verb])
    if verb == "preflight":
        require(not others, "preflight", " ".join(others), f"takes {', '.join(given)}")
        _preflight(**given)
        return
    for key in ("paper", "profile"):
        require(key not in given or given[key] != "", key, "", f"{verb} needs {key}=NAME")
    paper = known_paper(given["paper"])
    tuning = [word.removeprefix("verl.") for word in others if word.startswith("verl.")]
    others = [word for word in others if not word.startswith("verl.")]
    asked = asked_for(paper, given["scale"], others)
    root = Path(asked.root)
    if verb == "submit":
        _submit(given, asked, {key: value(key, text) for key, text in pairs(tuning).items()})
    elif verb == "rehearse":
        _rehearse(given, asked)
    elif verb == "status":
        from slurm import status

        print(status.show(root, paper))
    else:
        from slurm import status

        cancelled = status.cancel(root, paper)
        print(f"{len(cancelled)} jobs cancelled; finished runs and checkpoints are kept")


def _preflight(device: str, backend: str, folder: str) -> None:
    """On every node that srun starts it on, one task a node; they tell each other what they see in
    `folder`/preflight-JOB-STEP."""
    require(device in ("auto", "cpu", "cuda"), "device", device, "use auto, cpu or cuda")
    require(backend in ("verl", "local"), "backend", backend, "use verl or local")
    from slurm import node

    words = {key: os.environ.get(f"SLURM_{key}", "0") for key in ("PROCID", "NNODES", "STEP_ID")}
    need = node.by_hand(device, backend == "verl", int(words["NNODES"]) or 1)
    name = f"preflight-{os.environ.get('SLURM_JOB_ID', '')}-{words['STEP_ID']}"
    node.ready(need, Path(folder).resolve() / name, int(words["PROCID"]))


def asked_for(paper: str, scale: str, others: list[str]) -> Reproduce:
    """The paper's checked `reproduce.yaml` with a scale and other overrides; its results folder
    absolute, for jobs may start in another one."""
    asked = strict(Reproduce, compose(paper, [f"scale={scale}", *others], "reproduce"))
    return replace(asked, results_dir=str(Path(asked.results_dir).resolve()))


def _submit(given: dict[str, str], asked: Reproduce, tuning: dict) -> None:
    from common.sweeps.profiles import load_profile, on
    from slurm import dry_run, plan, submit

    word = given["dry_run"].lower()
    answers = {"true": True, "1": True, "full": True, "false": False, "0": False}
    require(word in answers, "dry_run", word, "use true, full or false")
    asked = without(asked, [name for name in given["without"].split(",") if name])
    profile, wanted = load_profile(given["profile"]), evaluations(asked)
    runs = [on(x, profile, tuning) for x in experiments(asked)]
    where: dict = {"paper": given["paper"], "profile": profile, "root": Path(asked.root)}
    if given["budget"] != "all":
        runs, wanted = _within(given["budget"], runs, wanted, **where)
    if answers[word]:
        dry_run.show(plan.plan(runs, wanted), **where, full=word == "full")
    else:
        submit.submit(runs, wanted, **where)


def _rehearse(given: dict[str, str], asked: Reproduce) -> None:
    from common.sweeps.profiles import load_profile
    from slurm.rehearsal.hollow import Most
    from slurm.rehearsal.run import rehearse

    for key in ("samples", "nodes"):
        fits = given[key].isdecimal() and int(given[key]) > 0
        require(fits, key, given[key], "a whole number above 0")
    samples, profile = int(given["samples"]), load_profile(given["profile"])
    profile = replace(profile, nodes=int(given["nodes"]))
    most = Most(step=samples, curve=max(1, samples // 4), job=samples)
    rehearse(asked, given["row"], profile=profile, most=most)


def _within(word: str, runs: list, wanted: list, *, paper: str, profile, root: Path) -> tuple:
    """The runs and evaluations that BUDGET leaves; says which, and what they decide."""
    from common.comparison.spec import spec_of
    from slurm import budget, cost, plan, status

    hours = budget.given(word)
    jobs = plan.plan(runs, wanted)
    outlook = cost.outlook(jobs, profile)
    done = {job.key for job in jobs if status.is_done(root, paper, job)}
    choice = budget.choose(budget.claims_of(spec_of(paper), jobs), jobs, outlook, done, hours)
    print("\n".join(budget.text(choice, hours, outlook, jobs)))
    kept = budget.keep(jobs, choice.rows)
    return [x for x in runs if x.run_id in kept], [e for e in wanted if e.path.name in kept]


if __name__ == "__main__":
    run(main, __doc__)
