"""Predicts what it takes to run stored samples through a model (evaluation/scoring.py): one forward
pass in float32 on one GPU, one chunk of samples after another."""

from common.backends.verl import layout
from common.datasets.prompts import stated
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.models.teacher_forcing import LOGITS, TOKENS
from common.sweeps.assumptions import Assumptions, accelerator, model_size
from common.sweeps.cost import Estimate, priced
from common.sweeps.profiles import Profile


def estimate_scoring(
    e: Evaluate, trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """Return the predicted cost of one scoring job. For rare answers (Delta NLL), the base model
    and the trained model each score a share of the samples. Raises UserError where the weights,
    the keys and values of TOKENS tokens and three times LOGITS logits do not fit."""
    size, unit = model_size(trained, a), accelerator(profile, a)
    memory = 4 * size.parameters + 2 * TOKENS * layout.token_bytes(size) + 3 * 4 * LOGITS
    if profile.accelerator == "cpu":
        memory = 4 * size.parameters
    require(
        memory / 1e9 <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"{e.model.name} in float32 takes {memory / 1e9:.0f} GB where samples are scored, and one "
        f"GPU has {unit.memory_gb:g}: choose a profile with more memory",
    )
    asked = (stated(e.eval.prompts) or a.benchmark_problems) * e.n
    share = e.eval.rare_share or 1
    models = 2 if e.eval.rare_share else 1
    prompt = a.prompts(e.eval.name, trained.data.name).typical
    ends = a.responses(trained.model, e.eval.name, e.max_tokens)
    tokens = [models * share * asked * (prompt + mean) for mean in ends]
    rates = [unit.float32_tflops * 1e12 * eff for eff in reversed(a.scoring_efficiency)]
    seconds = [2 * size.parameters * n / rate for n, rate in zip(tokens, rates, strict=True)]
    stored = share * asked * a.scored_bytes
    return priced(seconds, 1, stored, memory / 1e9, [0.0, 0.0], profile, a)
