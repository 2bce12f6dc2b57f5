"""Cheap checks that refuse answers on which a computer algebra system could work for ever. The
workers' deadline is the real limit; these only keep obvious cases from costing a worker each."""

import re
from itertools import accumulate

LONGEST = 1000  # characters of an answer, without spaces, that is parsed
DEEPEST = 16  # nested brackets of all kinds
LONGEST_NUMBER = 400  # digits
LARGEST = 20_000  # in a binomial
MOST_CELLS = 64
MOST_OPERATORS = 100
MOST_SUMS = 4  # with integrals and products: the parser's time grows fast with their number

INTEGER = re.compile(r"\d+")
COMPUTED = re.compile(r"\\(?:[dt]?binom|choose|gcd|lcm)(?![a-z])")  # by the parser itself
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]")


def refusal(text: str) -> str | None:
    """Return why `text` must not be parsed, or None."""
    if CONTROL.search(text):
        return "control characters or unpaired surrogates"
    if len(text) > LONGEST:
        return f"longer than {LONGEST} characters"
    if max(depths(text)) > DEEPEST or text.count("|") > DEEPEST:  # bars open and close brackets
        return f"brackets nested deeper than {DEEPEST}"
    if any(len(number) > LONGEST_NUMBER for number in INTEGER.findall(text)):
        return f"a number of more than {LONGEST_NUMBER} digits"
    if text.count("&") + text.count("\\\\") > MOST_CELLS:
        return f"a matrix of more than {MOST_CELLS} cells"
    if len(re.findall("[,;]", text)) > MOST_CELLS:
        return f"a list of more than {MOST_CELLS} parts"
    if len(re.findall(r"[-+/^_=]|\\[a-zA-Z]+", text)) > MOST_OPERATORS:
        return f"more than {MOST_OPERATORS} operators"
    if len(re.findall(r"\\(?:int|sum|prod)(?![a-z])", text)) > MOST_SUMS:
        return f"more than {MOST_SUMS} sums, products or integrals"
    if COMPUTED.search(text) and (
        re.search(r"\\(?:gcd|lcm).*[\^!]", text)
        or any(int(number) > LARGEST for number in INTEGER.findall(text))
    ):
        return f"a binomial or divisor of numbers beyond {LARGEST}"
    return None


def depths(text: str) -> list[int]:
    """Return how many brackets are open before and after each character of `text`."""
    steps = ((character in "([{") - (character in ")]}") for character in text)
    return list(accumulate(steps, initial=0))
