"""Verifier of IFEval: lm-eval's official checker tells whether the instructions are followed.

The reference is JSON {"instruction_id_list", "kwargs", "prompt"}. `mode` is "strict" (the response
as it is) or "loose" (any of eight versions: without asterisks, first line, last line). `parsed` is
the list of verdicts for the single instructions, from which the instruction level is counted. The
checker sees what users would see: what follows the last </think>, less the white space before it.

The checker's random numbers, used for language detection, are seeded, so the same response always
gets the same verdict. In the prompts with keys 1122 and 1129 the required letter is "#" or "!", for
which the checker takes a random letter: those two verdicts mean nothing.
"""

import json
import random
from functools import lru_cache

from common.errors import UserError, require
from common.types import Verdict

PRELOAD = ("common.verifiers.ifeval.checker",)  # takes 4-6 s, in the workers' mother process
# Sentence counting and capital words need NLTK's "punkt_tab" on disk; nothing is downloaded.
NEEDS_PUNKT = ("length_constraints:number_sentences", "change_case:capital_word_frequency")
FIELDS = ("instruction_id_list", "kwargs", "prompt")
LONGEST = 300  # characters of a reason
# A right response and its reference, to test the verifier with: no reference determines one.
KNOWN = (
    "None of these words is set apart from another.",
    '{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "prompt": "No commas."}',
)


def verify(response: str, reference: str, *, mode: str = "strict", opened: bool = False) -> Verdict:
    """Return the verdict on all instructions of the reference, "correct" or "wrong"; "error" where
    the checker itself fails. `opened`: the prompt ends in <think>. Raises UserError for a bad
    reference or mode, and where lm-eval or NLTK's data are missing."""
    require(mode in ("strict", "loose"), "mode", mode, "strict or loose")
    from common.verifiers.ifeval.checker import CHECKS

    _, ended, said = response.rpartition("</think>")
    if ended:
        response = said.lstrip()
    elif opened or response.lstrip().startswith("<think>"):
        return Verdict("unparsed", 0.0, reason="the thought never ends")
    prompt = _parse(reference)
    lacking = missing(prompt.instruction_id_list)
    require(lacking is None, "instruction_id_list", prompt.instruction_id_list, str(lacking))
    before = random.getstate()
    random.seed(0)
    try:
        followed = CHECKS[mode](prompt, response).follow_instruction_list
    except Exception as error:
        return Verdict("error", 0.0, reason=f"the official checker raised {type(error).__name__}")
    finally:
        random.setstate(before)
    failed = [n for n, ok in zip(prompt.instruction_id_list, followed, strict=True) if not ok]
    parsed = json.dumps([bool(ok) for ok in followed], separators=(",", ":"))
    if failed:
        return Verdict("wrong", 0.0, parsed, f"not followed: {', '.join(failed)}"[:LONGEST])
    return Verdict("correct", 1.0, parsed)


def missing(instruction_ids: list[str]) -> str | None:
    """Return what must be installed before these instructions can be judged, or None."""
    needs = sorted(set(instruction_ids) & set(NEEDS_PUNKT))
    if not needs or has_punkt():
        return None
    return (
        f"{' and '.join(needs)} need NLTK's sentence model: python -m nltk.downloader punkt_tab "
        "(or copy it to a folder named in NLTK_DATA)"
    )


def reference(row: dict) -> str:
    """Return the reference of a row, from `problem` or `prompt`, `instruction_id_list` and
    `kwargs`. Arguments that are None are left out: the hub's rows give every argument to every
    instruction. Raises UserError for a bad row, and where NLTK's data are missing, before any
    response is sampled."""
    name, row = f"row {row.get('id')}: ", {"problem": row.get("prompt"), **row}
    ids, arguments = row.get("instruction_id_list"), row.get("kwargs")
    require(isinstance(row.get("problem"), str), name + "problem", row.get("problem"), "is missing")
    listed = isinstance(ids, list) and len(ids) > 0
    require(listed, name + "instruction_id_list", ids, "is missing or empty")
    fits = isinstance(arguments, list) and len(arguments) == len(ids)
    fits = fits and all(isinstance(one, dict | None) for one in arguments)
    said = "must have one object, or null, for each instruction"
    require(fits, name + "kwargs", arguments, said)
    lacking = missing(ids)
    require(lacking is None, name + "instruction_id_list", ids, str(lacking))
    given = [{k: v for k, v in (one or {}).items() if v is not None} for one in arguments]
    return json.dumps(dict(zip(FIELDS, (ids, given, row["problem"]), strict=True)), sort_keys=True)


@lru_cache(maxsize=4096)
def _parse(reference: str):
    """Return the checker's own form of a prompt, after trying every instruction once."""
    from common.verifiers.ifeval.checker import INSTRUCTION_DICT, Example

    try:
        fields = json.loads(reference)
        ids, arguments, prompt = (fields[name] for name in FIELDS)
        pairs = list(zip(ids, arguments, strict=True))
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"reference={reference[:80]}: must be JSON with {FIELDS}") from error
    require(len(pairs) > 0, "instruction_id_list", ids, "must not be empty")
    before = random.getstate()
    for name, given in pairs:
        require(name in INSTRUCTION_DICT, "instruction_id_list", name, "is no IFEval instruction")
        instruction = INSTRUCTION_DICT[name](name)
        try:
            instruction.build_description(**given)
        except (TypeError, ValueError, AttributeError) as error:
            raise UserError(f"kwargs of {name}={given}: {error}") from error
        unset = sorted(set(instruction.get_instruction_args_keys()) - set(given))
        require(not unset, f"kwargs of {name}", given, f"needs {unset}, or they would be random")
    random.setstate(before)
    return Example(key=0, instruction_id_list=ids, prompt=prompt, kwargs=arguments)


@lru_cache(maxsize=1)
def has_punkt() -> bool:
    try:
        import nltk
    except ImportError as error:
        raise UserError("verifier=ifeval: needs pip install 'lm-eval[ifeval]'") from error
    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True
