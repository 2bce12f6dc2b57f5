"""A cluster profile, which states where jobs go and what each may take. `configs/slurm/<name>.yaml`
holds it, and unknown keys are refused."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from common.backends.verl.tuning import tuned
from common.config.compose import merged
from common.config.files import ROOT
from common.config.strict import strict
from common.errors import UserError, one_of, require

FOLDER = ROOT / "configs" / "slurm"
TAKEN = {  # options of sbatch that follow from other keys, or that resuming depends on
    *("partition", "account", "qos", "constraint", "nodes", "ntasks-per-node", "cpus-per-task"),
    *("mem", "time", "gpus-per-node", "gres", "signal", "array", "dependency", "requeue"),
    *("job-name", "output", "error", "open-mode", "wckey", "kill-on-invalid-dep", "gpus"),
}


@dataclass(frozen=True)
class Small:
    """The part of a node that a training of a small model takes. More GPUs would wait for each
    other."""

    billions: PositiveFloat  # of parameters, at most
    gpus: PositiveInt


@dataclass(frozen=True)
class Profile:
    """A kind of node and how much of it a training job takes; other jobs: slurm/plan.py, `ask`."""

    name: str
    executor: Literal["slurm", "local"]  # local: all jobs on this machine (slurm/local_gpus.py)
    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None  # node features, as sbatch --constraint takes them
    accelerator: str  # key of `accelerators` in configs/cost.yaml
    nodes: PositiveInt
    gpus_per_node: NonNegativeInt
    cpus_per_node: PositiveInt
    memory_gb: PositiveInt | None  # main memory per node; null: sbatch gets no --mem
    time_min: PositiveInt  # time limit of one attempt; longer runs are requeued
    signal_lead_s: PositiveInt  # how long before the end a job saves and requeues itself
    # trainings on all GPUs of the profile that run at once, or as many GPUs of other jobs; and jobs
    # of an array without a GPU
    array_parallelism: PositiveInt
    light_partition: str | None  # for jobs without a GPU; null: `partition`
    light_cpus: PositiveInt
    light_memory_gb: PositiveInt | None
    light_time_min: PositiveInt
    setup: list[str]  # shell lines before Python starts
    container: str | None  # prefix of the Python command: apptainer exec --nv --bind ... FILE.sif
    python: str | None  # inside the container or on the nodes; null: the submitter's
    gpu_type: str | None = None  # where GPUs are asked for by type: h100 for --gpus-per-node=h100:8
    # further options of sbatch for all jobs: {reservation: NAME, exclusive: true}
    sbatch: dict[str, str | int | bool] = field(default_factory=dict)
    # further options of srun for all jobs, such as pyxis' --container-image=FILE.sqsh
    srun: list[str] = field(default_factory=list)
    # verl's own keys for memory and speed, for every training with backend=verl
    verl: dict[str, Any] = field(default_factory=dict)
    small: Small | None = None  # null: every training takes all of the profile

    def __post_init__(self):
        slurm, lead, small = self.executor == "slurm", self.signal_lead_s, self.small
        remedy = f"must be less than the time limit, time_min={self.time_min}"
        require(lead < 60 * self.time_min, "signal_lead_s", lead, remedy)
        require(slurm or self.nodes == 1, "nodes", self.nodes, "executor=local has one node")
        for key in ("container", "python"):
            fits = slurm or getattr(self, key) is None
            remedy = "executor=local runs in this environment; set it to null"
            require(fits, key, getattr(self, key), remedy)
        shares = slurm and self.nodes == 1
        fits = small is None or (shares and self.gpus_per_node % small.gpus == 0)
        remedy = "shares out one node of executor=slurm: nodes=1, and gpus divides gpus_per_node"
        require(fits, "small", small, f"{remedy}; or set it to null")
        taken = TAKEN & {key.replace("_", "-") for key in self.sbatch}
        tuned(self.verl)
        require(not taken, "sbatch", sorted(taken), "these have keys of their own in a profile")

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def most_gpus(self) -> int:
        """The GPUs that the jobs of one submission take at once, at most."""
        return self.array_parallelism * max(1, self.gpus)

    def of(self, parameters: float) -> "Profile":
        """Return what a training takes of this profile: all of it, or `small` for a small model."""
        if self.small is None or parameters > 1e9 * self.small.billions:
            return self
        return self.share(self.small.gpus)

    def share(self, gpus: int) -> "Profile":
        """Return `gpus` GPUs of one node, with their share of the rest."""
        node, memory = max(1, self.gpus_per_node), self.memory_gb
        return replace(
            self,
            nodes=1,
            gpus_per_node=min(gpus, self.gpus_per_node),
            cpus_per_node=max(1, gpus * self.cpus_per_node // node),
            memory_gb=memory and max(1, gpus * memory // node),
            small=None,
        )


def load_profile(name: str, folder: Path = FOLDER) -> Profile:
    """Return the profile of that name. Raises UserError for an unknown name, listing the known
    ones, and for a bad key or value, naming the file."""
    path = folder / f"{name}.yaml"
    known = sorted(file.stem for file in folder.glob("[!_]*.yaml"))
    one_of("profile", name, known, f"write {path.name} there")
    try:
        return strict(Profile, {"name": name, **merged("slurm", path)})
    except (UserError, TypeError) as error:
        raise UserError(f"{path}: {error}") from error
