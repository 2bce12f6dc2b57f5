"""What a rehearsal changes in an experiment, its evaluations and its gates: only the keys that are
named here."""

from dataclasses import dataclass, replace

from common.config.schema import Sampler
from common.datasets.prompts import stated
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.gates import Gated
from common.sweeps.plan import Sweep

STEPS = 3  # two at the start, and the last
MICRO = 32  # responses per pass: their logits are 32 x 6 x 150,000 numbers, some copies of 115 MB
ANY = 1000.0  # half the width of the interval that a gate lets pass, in percent or nats
UNKNOWN = 500  # number of problems assumed for a set whose size is not stated
EXPERIMENT = {
    "model.path": "a stand-in: class, vocabulary, context and tokenizer its own, two narrow layers",
    "method.sampler.path": "a stand-in: vocabulary and tokenizer its own, logits of zero",
    "data.train.tokenizer": "the stand-in's: the same tokens",
    "data.train.solve_rate.n": "one sample a prompt",
    "optim.steps": "two at the start and the last",
    "optim.micro_batch": "memory only",
    "eval.every": "the second step and the last",
    "checkpoint_every": "as the curve",
    "keep_at": "the second step",
    "device": "the CPU",
    "threads": "the cores of this machine",
    "results_dir": "the rehearsal's",
}
CUT = {  # where there are more samples than `samples` allows
    "sampling.prompts": "cut to the samples allowed",
    "eval.n": "cut to the samples allowed",
    "eval.curve_n": "cut to the samples allowed",
    "eval.k": "up to n",
}
EVALUATE = {
    "device": "the CPU",
    "results_dir": "the rehearsal's",
    "n": "cut to the samples allowed",
}


@dataclass(frozen=True)
class Most:
    """The most samples that are drawn at once: in a step, in one evaluation on the curve, and in an
    evaluation job."""

    step: int
    curve: int
    job: int


def stubbed(
    x: Experiment,
    *,
    model: str,
    memory: str | None,
    results_dir: str,
    most: Most,
    threads: int = 1,
) -> Experiment:
    """Return `x` on the stand-in in the folder `model`. If DLC's memory network starts from a
    checkpoint, it uses the stand-in in `memory`. The keys of EXPERIMENT are changed, and those of
    CUT where they ask for more samples than `most`. A trainer and its vLLM may use `threads`
    threads."""
    fits = max(1, most.curve // problems(x))
    n = min(x.eval.n, fits)
    return replace(
        x,
        device="cpu",
        threads=threads,
        results_dir=results_dir,
        checkpoint_every=STEPS - 1,
        keep_at=[STEPS - 1] if x.keep_at else [],
        model=replace(x.model, path=model),
        method=replace(x.method, sampler=_remembering(x.method.sampler, memory)),
        data=replace(x.data, train=_counted_by(x.data.train, model)),
        sampling=replace(x.sampling, prompts=_prompts(x, most.step)),
        optim=replace(x.optim, steps=min(STEPS, x.optim.steps), micro_batch=MICRO),
        eval=replace(
            x.eval,
            every=STEPS - 1,
            n=n,
            curve_n=min(x.eval.curve_n, fits),
            k=[k for k in x.eval.k if k <= n] or [1],
        ),
    )


def _remembering(sampler: Sampler | None, memory: str | None) -> Sampler | None:
    return replace(sampler, path=memory) if sampler is not None and sampler.path else sampler


def problems(x: Experiment) -> int:
    """Return the number of problems that a point on the training curve evaluates."""
    return sum(stated(node) or UNKNOWN for node in x.data.benchmarks.values())


def _counted_by(node: dict, tokenizer: str) -> dict:
    """Return the configuration of a set, and of the parts of a mixture, with this tokenizer where
    prompt tokens are counted, and with one sample per prompt for solve rates."""
    changed: dict = {"tokenizer": tokenizer} if node.get("tokenizer") else {}
    if node.get("solve_rate"):
        changed["solve_rate"] = node["solve_rate"] | {"n": 1}
    if "parts" in node:
        changed["parts"] = [_counted_by(part, tokenizer) for part in node["parts"]]
    return node | changed


def _prompts(x: Experiment, most: int) -> int:
    """Return the number of prompts per step, cut to `most` samples. It is a multiple of the
    mini-batches, because groups are never split. Dynamic sampling draws more than it trains on, so
    `dynamic_batches` batches count against `most`."""
    drawn = x.sampling.group_size * x.sampling.dynamic_batches  # responses per trained prompt
    if x.sampling.prompts * drawn <= most:
        return x.sampling.prompts
    mini = x.optim.mini_batches
    return max(1, most // drawn // mini) * mini


def hollow_sweep(sweep: Sweep) -> Sweep:
    """Return the sweep with the steps that it evaluates and measures set to those of a stubbed run:
    the second and the last."""
    stated = isinstance(sweep.checkpoint, int)  # other choices find their step from the curve
    return replace(
        sweep,
        checkpoint=STEPS - 1 if stated else sweep.checkpoint,
        also_at={name: [STEPS if stated else STEPS - 1] for name in sweep.also_at},
        measures={
            name: {row: [STEPS - 1, STEPS] for row in measured}
            for name, measured in sweep.measures.items()
        },
    )


def hollow_evaluations(made: list[Evaluate], *, most: Most) -> list[Evaluate]:
    """Return the evaluations of a stubbed run with a smaller n where all problems together would
    have more samples than `most.job`. `evaluations_of` has already replaced their folders and
    device. In `made`, an evaluation that scores samples must come after the one that draws them."""
    found, names = [], dict[str | None, str]()
    for e in made:
        n = min(e.n, max(1, most.job // (stated(e.eval.prompts) or UNKNOWN)))
        found.append(replace(e, n=n, scores=names.get(e.scores, e.scores)))
        names[e.path.name] = found[-1].path.name
    return found


def scorable(e: Evaluate, *, most: Most) -> bool:
    """Return whether an evaluation scores at most `most.job` samples (also if it scores none). For
    a set with more problems even one sample each is too many, at a third of a second of a core per
    sample."""
    return not e.scores or (stated(e.eval.prompts) or UNKNOWN) * e.n <= most.job


def hollow_gate(one: Gated, x: Experiment, *, most: Most) -> Gated:
    """Return the gate for the stand-in `x`, which no paper describes: each number has to be
    measured, and may have any value. Numbers that need more samples than are drawn are left out."""
    path = str(x.model.path)
    like = {"model": x.model, "device": x.device, "threads": x.threads}
    like |= {"results_dir": x.results_dir}
    samples, *evaluations = hollow_evaluations(
        [
            replace(
                e,
                **like,
                row=e.row and replace(e.row, trained=x.run_id),
                eval=replace(e.eval, prompts=_counted_by(e.eval.prompts, path)),
            )
            for e in (one.samples, *one.evaluations)
        ],
        most=most,
    )
    drawn = {e.row.benchmark: e.n for e in evaluations}

    def there(number: str) -> bool:
        benchmark, found, k = number.rpartition(" pass@")
        return not found or int(k) <= drawn[benchmark]

    gate = replace(
        one.gate,
        results_dir=x.results_dir,
        model=path,
        prompts=samples.path.name,
        benchmarks={e.row.benchmark: e.path.name for e in evaluations},
        near={name: [at, ANY] for name, (at, _) in one.gate.near.items() if there(name)},
        above={name: -ANY for name in one.gate.above},
    )
    return Gated(gate, samples, evaluations, x, one.rows)


def differences(true: dict, stubbed: dict, prefix: str = "") -> dict[str, tuple]:
    """Return dotted key -> (true, stubbed) for all that differs in two configurations."""
    found = {}
    for key in true.keys() | stubbed.keys():
        a, b = (_indexed(one.get(key)) for one in (true, stubbed))
        if isinstance(a, dict) and isinstance(b, dict):
            found |= differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found[prefix + key] = (a, b)
    return found


def _indexed(value):
    """Return a list of dicts as a dict, so that a difference inside one of them has a key."""
    nested = isinstance(value, list) and value and isinstance(value[0], dict)
    return {str(i): one for i, one in enumerate(value)} if nested else value


def reason(key: str) -> str:
    """Return why a key is stubbed. Raises KeyError for a key that must not be stubbed."""
    parts = key.split(".")
    of_train = key.startswith("data.train.") and parts[-1] == "tokenizer"
    return (EXPERIMENT | CUT)["data.train.tokenizer" if of_train else key]
