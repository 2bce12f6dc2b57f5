"""What runs inside a job: one task of the plan, from its frozen configuration (slurm/start.py).
Repeating it is safe: a finished run is found, an unfinished one resumes."""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.backends import run_experiment
from common.config.files import read
from common.config.resolve import import_target, resolve
from common.config.strict import strict
from common.errors import UserError
from common.evaluation.config import Suite
from common.experiment import Experiment
from common.models import store
from common.results.run import lock
from common.sweeps.gates import Gate
from common.sweeps.measures import Measure
from common.sweeps.plan import Command
from slurm import environment, node, ray_cluster, status
from slurm.attempts import attempts, began, ended, job_id, progress, run_folder, saved
from slurm.plan import SAMPLED
from slurm.retry import STUCK, after
from slurm.stop import Stop, Stopped, deadline, node_name, preempted, requeue

SCHEMAS: dict[str, type] = {kind: Suite for kind in SAMPLED}  # other kinds: Experiment
SCHEMAS |= {"command": Command, "measure": Measure, "gate": Gate}
AGAIN = 75  # exit code: without SLURM, start the task again; EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True)
class Task:
    """One job, of plain strings and numbers only."""

    kind: str  # one of slurm.plan.Kind
    key: str
    paper: str
    root: str  # the results folder, absolute
    config: str | None  # YAML file of its frozen Experiment, Suite, Command, Measure or Gate
    folder: str  # this job's own files: attempts.jsonl, the Ray address
    time_min: int
    signal_lead_s: int
    nodes: int
    gpus: int
    makes: tuple[str, ...] = ()  # names of its runs; empty: its key

    def __call__(self) -> str:
        """Run the job. Raises what the run raises, so that SLURM reports the job as failed."""
        with environment.prepared():
            return self._attempt()

    def _attempt(self) -> str:
        rank, this = int(os.environ.get("SLURM_PROCID", "0")), job_id()
        attempt = f"{this}-{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        ray, looks = folder / f"ray-{attempt}", folder / f"preflight-{attempt}"
        x: Any = None
        if self.config:
            x = strict(SCHEMAS.get(self.kind, Experiment), read(Path(self.config)))
        need = node.need_of(self.kind, x, self.nodes, self.gpus)
        if rank > 0:
            # its signals stay withheld (slurm/start.py): Ray must live until the trainer has saved
            if need is not None and not node.ready(need, looks, rank):
                return "worker: see the first task"
            if self.kind == "command":
                try:
                    return self._command(x, looks, rank)
                except UserError as error:  # failing would end the first task before it reports
                    return f"worker: {error}; see the first task"
            return ray_cluster.work(ray, self.gpus)
        stop = Stop(deadline(self.time_min) if this else None, self.signal_lead_s)
        began(self._record, self._reached(saved))
        try:
            stop.listen(polled=self.kind in ("train", *SAMPLED))
            if need:
                node.ready(need, looks)
            if self.kind == "command":
                done = self._command(x, looks)
            else:
                with ray_cluster.head(ray, self.nodes, self.gpus):
                    done = self._run(x, stop)
        except BaseException as error:
            stop.settle()
            lost = (ray / "lost").read_text() if (ray / "lost").exists() else ""
            self._ended(error, stop, lost=lost, this=this)
            raise
        finally:
            stop.close()
        ended(self._record, "done")
        return done

    def _ended(self, error: BaseException, stop: Stop, *, lost: str, this: str) -> None:
        """Record how this attempt ended, and requeue the job if retry.py says so. Raises SystemExit
        where the end is no error, or the task must start again."""
        stopped, rows = isinstance(error, Stopped), attempts(Path(self.folder))
        reason = str(error) if stopped else stop.reason
        taken = bool(this and reason) and preempted(this)
        then = after(
            error,
            rows,
            saved=self._reached(saved),
            reached=self._reached(progress),
            node=node_name() if self.nodes == 1 else "",
            stopped=reason is not None,
            returns=bool(this) and (stop.requeue or taken),
            preempted=taken,
            lost=lost,
        )
        how = "failed" if reason is None else f"stopped: {reason}"
        told = how if stopped else f"{how}: {str(error)[:300]}"
        ended(self._record, told, again=then.again, idle=then.idle)
        if stopped:
            print(how, file=sys.stderr, flush=True)
        if then.stuck and (lost or reason is not None):
            raise UserError(
                f"{self.key}: the last {STUCK} attempts saved nothing; raise "
                f"time_min={self.time_min} of the profile"
            ) from error
        if then.back and not this:
            traceback.print_exc()
            raise SystemExit(AGAIN) from error
        if then.back:
            requeue(Path(self.folder).parent, this, then.avoid)
        if stopped:
            raise SystemExit(1) from error  # no traceback

    def _run(self, x: Any, stop: Stop) -> str:
        root = Path(self.root)
        if self.kind == "model":
            from common.models.load import load_model

            load_model(x.model, root, "cpu")
            return store.folder(x.model, root)
        if self.kind == "compare":
            from common.comparison.compare import compare
            from common.comparison.spec import spec_of

            status.record_comparison(root, self.paper)
            compare(spec_of(self.paper), root)
            return str(root / self.paper)
        for run in self._results:
            _wait_for_lock(run / ".lock")
        if self.kind in ("gate", "measure"):
            import_target(x.run, f"{self.kind}s.{self.key}.run")(x)
            return str(x.path)
        if self.kind in SAMPLED:
            from common.evaluation.run import evaluate_all

            return "\n".join(map(str, evaluate_all(x.evaluations, stop.between_steps)))
        return str(run_experiment(x, False, stop.between_steps))

    def _command(self, x: Command, meeting: Path, rank: int = 0) -> str:
        """Run this node's part of a command of the paper and return the path of its model. All
        nodes exchange their addresses in `meeting`, a folder of this attempt."""
        every = node.gather(meeting, "address", rank, self.nodes, {"host": node.node_address()})
        (folder,) = self._results
        folder.mkdir(parents=True, exist_ok=True)
        supplied = {"gpus": self.gpus, "nodes": self.nodes, "rank": rank, "model": Path(x.makes)}
        supplied |= {"folder": folder, "address": every[0]["host"]}
        resolve(x.run, f"commands.{self.key}.run", tuple(supplied))(**supplied)
        if rank == 0 and not Path(x.makes).exists():
            raise UserError(f"commands.{self.key}.makes={x.makes}: its run made no such file")
        return x.makes

    @property
    def _record(self) -> Path:
        return Path(self.folder) / "attempts.jsonl"

    @property
    def _results(self) -> list[Path]:
        names = self.makes or (self.key,)
        return [run_folder(Path(self.root), self.paper, self.kind, name) for name in names]

    def _reached(self, how_far: Callable[[Path, str], int]) -> int:
        return sum(how_far(run, self.kind) for run in self._results)


def _wait_for_lock(path: Path, seconds: float = 900) -> None:
    """Wait while another process holds the run folder: a node that SLURM calls lost may still run
    the job that SLURM has requeued elsewhere."""
    if not path.exists():
        return
    with open(path, "w") as file, suppress(OSError):  # no locks there: the run itself will say so
        lock(file, seconds=seconds)
