"""The status of everything that was submitted: one line per job, and no job is left out."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.errors import UserError
from common.health import findings
from common.results.columns import SCORE
from common.results.files import whole_rows, write
from common.results.longer import finished
from common.sweeps.cost import Range, total
from slurm import plan, queue, records
from slurm.attempts import attempts, progress, run_folder

TAIL = 5  # lines of a failed job's log


@dataclass(frozen=True)
class JobStatus:
    """The present state of one job. `state` is done, running, waiting, unknown (no SLURM to ask),
    or how an unfinished job has ended, mostly in SLURM's words: failed, cancelled, timeout,
    node_fail, gone."""

    key: str
    job_id: str
    state: str
    detail: str  # why it waits; how its last attempt ended
    makes: tuple[str, ...]  # the names of its runs
    line: str  # all of it, as shown
    predicted_gpu_hours: Range | None
    actual_gpu_hours: float
    log: tuple[str, ...]

    @property
    def queued(self) -> bool:
        return self.state in ("running", "waiting")

    @property
    def unfinished(self) -> bool:
        return self.state != "done" and not self.queued


def statuses(root: Path, paper: str) -> list[JobStatus]:
    rows = records.latest(root, paper)
    slurm_ids = [r["job_id"] for r in rows.values() if not r["job_id"].startswith("pid-")]
    known = queue.states(slurm_ids) if queue.available() else {}
    return [_status(root, paper, row, known.get(row["job_id"])) for row in rows.values()]


def made(root: Path, paper: str, job: plan.Job) -> tuple[str, ...]:
    """Return the names of the job's runs whose results exist; a comparison saw all such runs."""
    return tuple(name for name in job.makes if _exists(root, paper, job, name))


def _exists(root: Path, paper: str, job: plan.Job, name: str) -> bool:
    if job.kind == "compare":
        return _compared(root, paper) == _finished(root, paper) != []
    if job.kind == "model":
        return (root / "models" / name.removeprefix("model-") / "DONE").exists()
    if job.kind == "command":
        return Path(job.config.makes).exists()
    run = run_folder(root, paper, job.kind, name)
    if job.kind == "train" and job.config is not None:
        return finished(run, job.config.optim.steps)
    return (run / "DONE").exists()


def record_comparison(root: Path, paper: str) -> None:
    write(records.folder(root, paper) / "compared", "\n".join(_finished(root, paper)) + "\n")


def cancel(root: Path, paper: str) -> list[JobStatus]:
    found = [job for job in statuses(root, paper) if job.queued]
    pids = {job.job_id for job in found if job.job_id.startswith("pid-")}
    ids = [job.job_id for job in found if job.job_id not in pids]
    if ids:
        queue.cancel(ids)
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(int(pid.removeprefix("pid-")))
            for process in [parent, *parent.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()  # safe: what a run has stored is whole at any moment
    return found


def show(root: Path, paper: str) -> str:
    """Return the status as text: counts, a line per job, and failures with the end of their
    logs."""
    found = statuses(root, paper)
    if not found:
        raise UserError(f"{records.folder(root, paper)}: nothing was submitted from here")
    counts = Counter(job.state for job in found)
    lines = [f"{paper}: {len(found)} jobs; " + ", ".join(f"{n} {s}" for s, n in counts.items())]
    lines += [job.line for job in found]
    if both := [c for c in found if c.state == "done" and c.predicted_gpu_hours]:
        said = total(c.predicted_gpu_hours for c in both)
        was = sum(c.actual_gpu_hours for c in both)
        lines.append(f"GPU-hours of the {len(both)} done: predicted {said}, actual {was:.3g}")
    lost = [job for job in found if job.unfinished]
    for job in lost:
        lines += ["", f"{job.state.upper()}  {job.key}  (job {job.job_id}) {job.detail}"]
        lines += [f"    {line}" for line in job.log]
    if lost:
        lines += ["", f"{len(lost)} job(s) without a result; submit again to resume them"]
    return "\n".join(lines)


def _status(root: Path, paper: str, row: dict, known: queue.State | None) -> JobStatus:
    job = plan.Job(row["kind"], row["key"], None, makes=tuple(row.get("makes", ())))
    run, *more = (run_folder(root, paper, row["kind"], name) for name in job.makes)
    tries = attempts(Path(row["submission"]) / "runs" / row["key"])
    there = 0
    if row["kind"] in ("compare", "command"):  # whether it ran; submit looks at its result
        done = bool(tries) and tries[-1].get("how") == "done"
    else:
        there = len(made(root, paper, job))
        done = there == len(job.makes)
        done = done and (row["kind"] != "train" or finished(run, row["steps"] or 0))
    state, detail = _state(row, known, tries, done)
    rows = whole_rows(run / "metrics.jsonl") if row["kind"] == "train" else []
    step, predicted = sum(progress(one, row["kind"]) for one in (run, *more)), row["predicted"]
    hours = _hours(tries, state) * predicted["gpus"] if predicted and tries else 0.0
    gpu_hours = Range(**predicted["gpu_hours"]) if predicted else None
    line = [f"{state:9} {row['kind']:8} {row['key']}"]
    if row["kind"] in plan.EVALUATED:
        line.append(f"benchmark {there}/{len(job.makes)}")
    if row["steps"]:
        what = {"train": "step", "command": "step", "measure": "model"}.get(row["kind"], "chunk")
        line.append(f"{what} {step}/{row['steps']}")
    if rows:
        line += [f"reward {rows[-1]['reward']:.3f}"] if "reward" in rows[-1] else []
        line += _score(rows)
    if rows and not done:
        wrong = "; ".join(map(str, findings(rows)))
        line.append(f"UNWELL {wrong}" if wrong else "well")
    if state == "running":
        line += _eta(step, row["steps"], tries)
    if (count := sum("start" in t for t in tries)) > 1:
        line.append(f"attempt {count}")
    if predicted:
        line.append(f"GPU-h {f'{hours:.2g}' if tries else '-'} of {gpu_hours} predicted")
    if state in ("done", "running", "waiting") and detail not in ("", "None"):
        line.append(f"({detail})")
    log = () if done or state in ("running", "waiting") else tail(Path(row["log"]))
    said, key, job_id = "  ".join(line), row["key"], row["job_id"]
    return JobStatus(key, job_id, state, detail, job.makes, said, gpu_hours, hours, log)


def _state(row: dict, known: queue.State | None, tries: list[dict], done: bool) -> tuple[str, str]:
    ended = tries[-1].get("how", "") if tries else ""
    if row["job_id"].startswith("pid-"):
        known = _local_state(row["job_id"], tries)
    if known and known.queued and not done:
        if tries and tries[-1].get("again"):
            return "waiting", _plain(f"{known.reason}; put back after {ended}")
        return ("running" if known.name in queue.RUNNING else "waiting"), known.reason
    if done:
        return "done", ""
    if known is None:
        return "unknown", "no SLURM on this machine to ask"
    if known.name not in ("GONE", "COMPLETED"):
        return known.name.lower(), " ".join(_plain(x) for x in (ended, f"({known.reason})") if x)
    if known.name == "COMPLETED" or ended == "done":
        return "failed", "ended without a result"
    # it has left the queue, and accounting does not know it or cannot tell, for this reason
    silent = f" ({_plain(known.reason)})" if known.reason else ""
    if not tries:  # sacct never shows an element cancelled while it waited
        return "gone", f"left the queue before it started: cancelled, or forgotten since{silent}"
    if not ended:
        return "gone", f"killed, or its node was lost: its last attempt never ended{silent}"
    return ended.split(":")[0], _plain(ended)


def _local_state(job_id: str, tries: list[dict]) -> queue.State:
    try:
        command = psutil.Process(int(job_id.removeprefix("pid-"))).cmdline()
    except psutil.Error:
        command = []
    if tries and "end" in tries[-1] and not tries[-1].get("again"):
        return queue.State("FAILED", "")
    if not any("slurm.local_gpus" in word for word in command):
        return queue.State("FAILED" if tries else "CANCELLED", "its process is gone")
    return queue.State("RUNNING" if tries else "PENDING")


def _eta(step: int, steps: int | None, tries: list[dict]) -> list[str]:
    """Return the hours left at this attempt's mean pace, its start included; none before a step."""
    starts = [t for t in tries if "start" in t]
    if not starts or not steps or step <= starts[-1]["step"]:
        return []
    pace = (time.time() - starts[-1]["start"]) / (step - starts[-1]["step"])
    return [f"ETA {max(0.0, (steps - step) * pace / 3600):.2g} h"]


def _hours(tries: list[dict], state: str) -> float:
    ends = [*tries[1:], {"end": time.time()} if state == "running" else {}]
    both = zip(tries, ends, strict=True)
    return sum(b["end"] - a["start"] for a, b in both if "start" in a and "end" in b) / 3600


def _score(rows: list[dict]) -> list[str]:
    for row in reversed(rows):
        if values := [value for key, value in row.items() if key.startswith(SCORE)]:
            return [f"pass@1 {sum(values) / len(values):.2f}"]
    return []


def tail(log: Path) -> tuple[str, ...]:
    if not log.exists():
        return (f"no log: {log} was never written",)
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        text = file.read().decode(errors="replace")
    return (str(log), *(_plain(line)[:200] for line in text.splitlines()[-TAIL:]))


def _plain(text: str) -> str:
    """Replace control characters by spaces: logs may hold what a model wrote."""
    return "".join(c if c.isprintable() else " " for c in text)


def _finished(root: Path, paper: str) -> list[str]:
    return sorted(path.parent.name for path in (root / paper).glob("*/DONE"))


def _compared(root: Path, paper: str) -> list[str]:
    file = records.folder(root, paper) / "compared"
    return file.read_text().split("\n")[:-1] if file.exists() else []
