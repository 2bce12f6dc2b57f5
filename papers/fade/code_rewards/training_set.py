"""FADE's training prompts (Sec. 3): several data sets combined."""

from random import Random

from common.config.resolve import resolve
from common.errors import require
from common.types import Prompt


def mixed(*, parts: list[dict], size: int | None, seed: int) -> list[Prompt]:
    """Return the prompts of all `parts` (nodes of common.datasets.load) without repeated texts, or
    `size` of them drawn with `seed`, in order. Raises UserError if there are fewer than `size`.
    Left out: the paper's selection of 25,000, which is not published, and CWM's filter of easy
    problems, which needs CWM's solve rates."""
    by_text: dict[str, Prompt] = {}
    for i, part in enumerate(parts):
        for prompt in resolve(part, f"parts[{i}]")():
            by_text.setdefault(" ".join(prompt.text.split()), prompt)
    prompts = list(by_text.values())
    if size is None:
        return prompts
    require(0 < size <= len(prompts), "size", size, f"the parts have {len(prompts)} prompts")
    return [prompts[i] for i in sorted(Random(seed).sample(range(len(prompts)), size))]
