"""What an edition of the yardstick fixes. configs/<name>.yaml holds the settings of its runs."""

from dataclasses import dataclass, replace

from common.comparison.matched import DIVERSITY as PRIMARY

REFERENCE = "grpo"
BASE = "base"
PLAIN, EQUALISED, LOWER, BOTH = "plain", "equalised", "lower", "both"  # rates: `table` of the rows
LOWER_RATE = 1 / 3  # times the plain rate; our choice
AGAINST_LOWER = "against_lower"  # a ranking: methods at the plain rate, GRPO at the lower
STEPS, COLLAPSE = ("training", "steps"), ("training", "collapse_rate")


@dataclass(frozen=True)
class Protocol:
    name: str  # of its configuration and of its results folder
    model: str
    task: str
    # natural pass@1 (%), or points above a run's own base model where there are several. Chosen on
    # runs of seed 0, which are in no comparison
    levels: tuple[float, float]
    rankings: dict[str, tuple[str, str]]  # name -> (learning rate of the methods, of GRPO)
    measures: dict[tuple[str, str], str]  # (benchmark, metric) -> column title; ranked by the first
    drawn: tuple[str, str]  # the diversity that the figure shows
    bases: int = 1  # how many pretrained base models; the seeds take them in turn

    def base(self, seed: int) -> int:
        """Return the pretraining seed of the base model of a run with this seed."""
        return (seed - 1) % self.bases

    def named(self, level: float) -> str:
        return f"{level:g} %" if self.bases == 1 else f"{level:g} points above its base model"

    @property
    def most_samples(self) -> int:
        """The largest k whose pass@k is compared."""
        return max(int(m.partition("@")[2]) for _, m in self.measures if m.startswith("pass@"))

    @property
    def rates(self) -> set[str]:
        return {rate for pair in self.rankings.values() for rate in pair}


FIRST = Protocol(
    name="yardstick",
    model="one model of 0.4 M parameters",
    task="Subset-Countdown",
    levels=(30.0, 32.0),
    rankings={PLAIN: (PLAIN, PLAIN), EQUALISED: (EQUALISED, EQUALISED)},
    measures={
        PRIMARY: "rare pass@64",
        ("rare", "pass@256"): "rare pass@256",
        ("natural", "pass@64"): "natural pass@64",
        ("natural", "pass@256"): "natural pass@256",
        ("natural", "distinct_correct"): "distinct right",
        ("natural", "token_entropy"): "entropy (nats)",
        STEPS: "steps",
    },
    drawn=("rare", "pass@256"),
)
COUNTDOWN = Protocol(
    name="yardstick_countdown",
    model="three base models of 0.4 M parameters",
    task="Subset-Countdown",
    levels=(3.0, 4.0),
    rankings={AGAINST_LOWER: (PLAIN, LOWER), PLAIN: (PLAIN, PLAIN), LOWER: (LOWER, LOWER)},
    measures={
        PRIMARY: "rare pass@64",
        ("rare", "pass@16"): "rare pass@16",
        ("natural", "pass@64"): "natural pass@64",
        ("natural", "cover@0.5"): "natural cover@0.5",
        ("rare", "cover@0.1"): "rare cover@0.1",
        ("natural", "distinct_correct"): "distinct right",
        ("natural", "token_entropy"): "entropy (nats)",
        COLLAPSE: "groups alike",
        STEPS: "steps",
    },
    drawn=PRIMARY,
    bases=3,
)
MAZE = replace(
    COUNTDOWN,
    name="yardstick_maze",
    model="three base models of 0.2 M parameters",
    task="mazes with loops",
    levels=(9.0, 13.0),
)
PROTOCOLS = {one.name: one for one in (FIRST, COUNTDOWN, MAZE)}
