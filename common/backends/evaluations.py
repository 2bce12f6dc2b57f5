"""The evaluations of a run's model, during training and at its end: samples, counts, result rows.

<run>/eval/step-00050.csv, -counts.csv           for each evaluation step
<run>/model, samples/, counts.csv, metrics.csv   for the last step
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from common.backends import snapshots
from common.evaluation import rare_nll, samples
from common.evaluation.samples import Sampled, metric_rows, sample
from common.experiment import Experiment
from common.models.load import load_model
from common.models.store import identity, save
from common.models.teacher_forcing import scores
from common.progress import tracked
from common.results.collect import evaluations
from common.results.columns import COLUMNS, SCORE
from common.results.files import config_hash, read_jsonl, write, write_csv, write_jsonl_gz
from common.types import Prompt, Verify

KL_SAMPLES = 8  # of each problem; precise to a hundredth of a nat over the testbeds' problems


class Evaluations:
    """The evaluations of one run, each of the model as it is at the call. `prompts`: training's."""

    def __init__(
        self,
        x: Experiment,
        folder: Path,
        model,
        tokenizer,
        *,
        prompts: list[Prompt],
        benchmarks: dict[str, list[Prompt]],
        verify: Verify,
    ):
        self.x, self.folder, self.model, self.tokenizer = x, folder, model, tokenizer
        self.prompts, self.benchmarks, self.verify = prompts, benchmarks, verify
        self.warned: set[str] = set()
        self.start = None  # the model that training started from, loaded when it is first needed

    def warn(self, group: str, share: float) -> None:
        """Warn once for each key of many cut-off responses; never for the testbed's own limit."""
        key, limit = f"{group}.max_tokens", getattr(self.x, group).max_tokens
        if self.x.model.path is not None and key not in self.warned and share > samples.CUT_OFF:
            self.warned.add(key)
            samples.warn_cut_off(share, key, limit)

    def on_the_curve(self, step: int) -> dict[str, float]:
        n = self.x.eval.n if step in self.x.eval.full_at else self.x.eval.curve_n
        sampled = [self.sample(one, step, n) for one in self.benchmarks]
        return self.write(step, sampled)

    def keep(self, step: int) -> None:
        """Save the model as it is now, if the run keeps the model of this step."""
        if step in snapshots.steps(self.x):
            save(self.model, self.tokenizer, snapshots.folder(self.folder, step))

    def make_up(self, step: int) -> dict[str, float]:
        """Return the scores at `step` if it was to be the run's last and was not evaluated."""
        missing = not (self.folder / "eval" / f"step-{step:05d}.csv").exists()
        late = step in self.x.eval.curve(self.x.optim.steps) and missing
        return self.on_the_curve(step) if late else {}

    def last(self, step: int, told: bool) -> dict[str, float]:
        """Write the model, the missing samples and all result rows; return the scores."""
        save(self.model, self.tokenizer, self.folder / "model")
        names, sampled = list(self.benchmarks), []
        for name in tracked(names, "last evaluation", total=len(names)) if told else names:
            path = self.folder / "samples" / f"{name}.jsonl.gz"
            if not path.exists():
                drawn = self.sample(name, step, self.x.eval.n)
                write_jsonl_gz(path, drawn.rows.to_dict("records"))
            sampled.append(Sampled(name, pd.DataFrame(read_jsonl(path))))
            self.warn("eval", 1 - sampled[-1].rows["stopped"].mean())
        scores = self.write(step, sampled)
        write_last(self.x, self.folder)
        return scores

    def sample(self, benchmark: str, step: int, n: int) -> Sampled:
        return sample(
            self.model,
            self.tokenizer,
            self.benchmarks[benchmark],
            self.verify,
            benchmark=benchmark,
            n=n,
            settings=self.x.eval,
            seed=(self.x.seed, "eval", step),
        )

    def write(self, step: int, sampled: list[Sampled]) -> dict[str, float]:
        """Write the rows and counts of every benchmark; return {"pass@1/BENCHMARK": percent}."""
        x = self.x
        more = []
        if x.kl_from_start:
            more.append(pd.DataFrame([self.kl_from_start(one) for one in sampled]))
        if step == x.optim.steps and x.eval.rare_nll_samples > 0:
            more.append(self.rare_nll())
        rows = write_evaluation(x, self.folder, step, sampled, more)
        first = rows[rows.metric == "pass@1"]
        values = zip(first.benchmark, first.value, strict=True)
        return {f"{SCORE}{name}": float(value) for name, value in values}

    def kl_from_start(self, sampled: Sampled) -> dict:
        """Return a result row with the KL divergence of whole responses from the start model, in
        nats: log pi(y | x) - log pi_start(y | x), over KL_SAMPLES samples y of each problem x."""
        if self.start is None:
            self.start, _ = load_model(
                self.x.model, Path(self.x.results_dir), str(self.model.device)
            )
        rows = sampled.rows[sampled.rows["sample"] < KL_SAMPLES]
        texts = {prompt.id: prompt.text for prompt in self.benchmarks[sampled.benchmark]}
        pairs = samples.pairs(rows.to_dict("records"), texts, self.tokenizer)
        start = [log_prob.sum().item() for log_prob, _ in scores(self.start, pairs)]
        gap = rows["log_prob"] - start
        by_problem = gap.groupby(rows["problem_id"]).mean()
        drawn = min(KL_SAMPLES, len(rows) // len(by_problem))
        return samples.result_row(
            sampled.benchmark, "kl_from_start", by_problem, "nats", n_samples=drawn
        )

    def rare_nll(self) -> pd.DataFrame:
        """Return Delta NLL on the base model's rare right answers to 256 training prompts."""
        x = self.x
        judged = config_hash(x.data.verifier)  # another verifier accepts other answers
        cache = Path(x.results_dir) / "models" / "rare-correct" / identity(x.model) / judged
        base, _ = load_model(x.model, Path(x.results_dir), str(self.model.device))
        prompts = self.prompts[:256]
        rare = rare_nll.rare_correct(base, self.tokenizer, prompts, self.verify, x.eval, cache)
        return rare_nll.delta_nll(self.model, self.tokenizer, rare)


def write_evaluation(
    x: Experiment, folder: Path, step: int, sampled: list[Sampled], more: Sequence = ()
) -> pd.DataFrame:
    """Write the result rows of all samples and of `more`, and the counts; return the rows."""
    frames = [metric_rows(one, x.eval.k) for one in sampled]
    rows = _named(x, step, pd.concat([*frames, *more], ignore_index=True))
    counts = pd.concat([one.counts() for one in sampled], ignore_index=True)
    write_csv(folder / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(folder / "eval" / f"step-{step:05d}.csv", rows)
    return rows


def write_last(x: Experiment, folder: Path) -> None:
    """Write counts.csv and metrics.csv, with the percentage of mixed groups (F-GRPO Eq. 9)."""
    step = x.optim.steps
    last = folder / "eval" / f"step-{step:05d}-counts.csv"
    write(folder / "counts.csv", last.read_bytes())
    frames = evaluations(folder)
    if step > 0:
        curve = pd.read_json(folder / "metrics.jsonl", lines=True)
        row: dict = {"benchmark": "training", "metric": "active_groups", "unit": "percent"}
        row |= {"value": 100 * curve.active_groups.mean(), "n_samples": x.sampling.group_size}
        row |= {"n_problems": x.sampling.prompts * len(curve)}
        frames.append(_named(x, step, pd.DataFrame([row])))
    write_csv(folder / "metrics.csv", pd.concat(frames, ignore_index=True))


def _named(x: Experiment, step: int, rows: pd.DataFrame) -> pd.DataFrame:
    named = dict(table=x.table, model=x.model.name, method=x.label, seed=x.seed, run_id=x.run_id)
    return rows.assign(**named, step=step).reindex(columns=COLUMNS)
