"""Why do two scores of one model differ?

    rlvr explain-gap a=A b=B [format=text|json|markdown] [key=value ...]

A and B are each an evaluation folder (results/evaluations/...), also a rescored or imported one; a
log of verl, TRL, lm-eval, lighteval or inspect (a file, or a quoted glob); or a counts.csv. The
difference B - A is split into parts for problem set, extraction, grader, truncation, template,
sampling settings and chance: the problems are matched, and all stored responses are judged by one
verifier. docs/evaluating.md says how to read the parts, and which logs hold what.

  judge=b              whose verifier judges both sides: a or b (default: B's, where it has one)
  eval=NAME            instead: the verifier and references of configs/eval/NAME.yaml
  a.score=, b.score=   which score of a log with several: lm-eval's filter, inspect's scorer,
                       lighteval's metric, TRL's reward function, a field of verl's dump
  benchmark=NAME       which one of a counts.csv with several
  same_model=true      the two names of the model mean the same weights
  workers=2            processes that judge
  memory_gb=4.0        address space of each of them, GiB
"""

from common.config.compose import value
from common.config.words import options
from common.errors import UserError, require

KEYS = {
    "a": "",
    "b": "",
    "format": "text",
    "judge": "",
    "eval": "",
    "a.score": "",
    "b.score": "",
    "benchmark": "",
    "same_model": "false",
    "workers": "2",
    "memory_gb": "4.0",
}
FORMATS = ("text", "json", "markdown")


def main(words: list[str]) -> None:
    given = options(words, KEYS)
    for side in ("a", "b"):
        require(given[side] != "", side, "", f"is missing; give {side}=EVALUATION (see --help)")
    require(given["format"] in FORMATS, "format", given["format"], f"one of {FORMATS}")
    same = value("same_model", given["same_model"])
    require(isinstance(same, bool), "same_model", given["same_model"], "true or false")

    from common.evaluation.gap import text
    from common.evaluation.gap.explain import Options, explain

    gap = explain(
        given["a"],
        given["b"],
        Options(
            judge=given["judge"],
            eval=given["eval"],
            a_score=given["a.score"] or None,
            b_score=given["b.score"] or None,
            benchmark=given["benchmark"] or None,
            same_model=same,
            workers=_number("workers", given["workers"], int),
            memory_gb=_number("memory_gb", given["memory_gb"], float),
        ),
    )
    shown = {"text": text.to_text, "json": text.to_json, "markdown": text.to_markdown}
    print(shown[given["format"]](gap))


def _number(key: str, given: str, kind: type):
    try:
        return kind(given)
    except ValueError:
        raise UserError(f"{key}={given}: must be a number") from None
