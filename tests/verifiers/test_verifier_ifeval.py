"""IFEval through the official checker: the stored verdicts on GPT-4's responses, no network, no
output, the same verdict twice, and clear messages where data are missing."""

import json
import random
import subprocess
import sys

import pytest
from labelled import rows
from tiny import ROOT

from common.errors import UserError
from common.verifiers.ifeval import verifier
from common.verifiers.ifeval.verifier import KNOWN, NEEDS_PUNKT, missing, reference, verify

pytest.importorskip("lm_eval", reason="lm-eval[ifeval] is not installed")

RANDOM = {1122, 1129}  # the official checker draws their letter at random
COMMA = "punctuation:no_comma"
KEYWORD = {"keyword": "cat", "frequency": 2, "relation": "at least"}


def made(*instructions: tuple[str, dict], problem: str = "Write about cats.") -> str:
    ids, arguments = [one[0] for one in instructions], [one[1] for one in instructions]
    row = {"id": "x", "problem": problem, "instruction_id_list": ids, "kwargs": arguments}
    return reference(row)


@pytest.fixture(scope="module")
def stored() -> list[tuple[dict, dict]]:
    problems = {row["id"]: row for row in rows("ifeval")}
    answers = rows("ifeval_gpt4_responses")
    return [({**problems[a["id"]], "response": a["response"]}, a) for a in answers]


@pytest.mark.parametrize("mode", ["strict", "loose"])
@pytest.mark.parametrize("punkt", [False, True])
def test_stored_verdicts(stored, mode, punkt):
    """Of 538 rows, 64 of which need NLTK's sentence model."""
    if punkt and (lacking := missing(list(NEEDS_PUNKT))):
        pytest.skip(lacking)
    needs = lambda row: bool({*row["instruction_id_list"]} & {*NEEDS_PUNKT})  # noqa: E731
    pairs = [pair for pair in stored if pair[0]["key"] not in RANDOM and needs(pair[0]) == punkt]
    assert len(pairs) == (64 if punkt else 474)
    for row, answer in pairs:
        verdict = verify(row["response"], reference(row), mode=mode)
        assert json.loads(verdict.parsed) == answer[mode], row["id"]
        assert verdict.outcome == ("correct" if all(answer[mode]) else "wrong")


@pytest.mark.parametrize(
    ("response", "strict", "loose"),
    [
        ("cat and CAT", "[true,true]", "[true,true]"),
        ("cat, cat", "[true,false]", "[true,false]"),
        ("cat", "[false,true]", "[false,true]"),
        ("Sure, here it is:\ncat cat", "[true,false]", "[true,true]"),  # less its first line
        ("cat cat\nBye, now.", "[true,false]", "[true,true]"),  # less its last line
        ("", "[false,false]", "[false,false]"),
        (" \n", "[false,false]", "[false,false]"),
        ("\0\ud800 cat cat", "[true,true]", "[true,true]"),
    ],
)
def test_instructions(response, strict, loose):
    asked = made(("keywords:frequency", KEYWORD), ("punctuation:no_comma", {}))
    for mode, expected in (("strict", strict), ("loose", loose)):
        verdict = verify(response, asked, mode=mode)
        right = "false" not in expected
        assert (verdict.parsed, verdict.reward) == (expected, float(right))
        assert verdict.outcome == ("correct" if right else "wrong")
        assert ("punctuation:no_comma" in verdict.reason) == expected.endswith("false]")
        assert ("keywords:frequency" in verdict.reason) == expected.startswith("[false")


def test_googles_own_rows_are_read():
    row = {"key": 1, "instruction_id_list": [COMMA], "kwargs": [{}], "prompt": "No commas."}
    assert reference(row) == KNOWN[1]
    assert reference({**row, "problem": "No commas.", "prompt": "Other."}) == KNOWN[1]


def test_arguments_that_are_none_are_left_out():
    filled = dict.fromkeys(("num_words", "letter", "relation"))  # as the hub's rows come
    asked = made(
        ("keywords:frequency", KEYWORD | {"num_words": None}), ("startend:quotation", filled)
    )
    assert json.loads(asked)["kwargs"] == [KEYWORD, {}]
    assert verify('"cat cat"', asked).outcome == "correct"
    assert made(("startend:quotation", None)) == made(("startend:quotation", {}))


def test_verdicts_repeat_and_leave_the_random_state_alone():
    hashes = {"letter": "#", "let_frequency": 4, "let_relation": "at least"}
    letter = made(("keywords:letter_frequency", hashes))
    english = made(("language:response_language", {"language": "en"}))
    both = "the house is big la maison est grande"  # unseeded, langdetect says fr one time in six
    for asked, text in ((letter, "aaaa bbb cccc d eeee ffff #"), (english, both)):
        random.seed(1)
        state = random.getstate()
        first = verify(text, asked)
        assert random.getstate() == state
        for seed in range(30):
            random.seed(seed)
            assert verify(text, asked) == first


def test_json_that_nests_too_deep_is_none_and_a_checker_that_fails_is_an_error(monkeypatch):
    from common.verifiers.ifeval.checker import CHECKS

    asked = made(("detectable_format:json_format", {}), (COMMA, {}))
    assert verify('{"a": 1}', asked).outcome == "correct"
    for deep in ("[" * 100_000, '{"a":' * 100_000):
        for mode in ("strict", "loose"):
            assert verify(deep, asked, mode=mode).parsed == "[false,true]"
    monkeypatch.setitem(CHECKS, "strict", lambda *_: 1 / 0)
    verdict = verify('{"a": 1}', asked)
    assert verdict.outcome == "error"
    assert "ZeroDivisionError" in verdict.reason


def test_what_follows_the_thought_is_judged():
    """The thought breaks both rules, and has other paragraphs."""
    first = {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "cat"}
    asked = made((COMMA, {}), ("length_constraints:nth_paragraph_first_word", first))
    thought = "<think>One, two, three.\n\nSo.\n</think>"
    for text in ("Cat one\n\ntwo", "\n\nCat one\n\ntwo"):
        for mode in ("strict", "loose"):
            assert verify(thought + text, asked, mode=mode).outcome == "correct"
            assert verify(thought[7:] + text, asked, mode=mode).outcome == "correct"  # opened
    assert verify(thought + "Cat, one\n\ntwo", asked).parsed == "[false,true]"
    assert verify(thought, made((COMMA, {}))).outcome == "wrong"  # nothing follows it
    verdict = verify("\n<think>cat", made((COMMA, {})))
    assert (verdict.outcome, verdict.reward) == ("unparsed", 0.0)
    assert verify("The tag <think> opens a thought", made((COMMA, {}))).outcome == "correct"


def test_unknown_instructions_and_arguments_are_refused():
    short = ("length_constraints:number_words", {"num_words": 5})
    for instruction in (("keywords:nothing", {}), (COMMA, {"commas": 1}), short):
        with pytest.raises(UserError, match=instruction[0]):
            verify("x", made(instruction))


# ---- NLTK's data


@pytest.fixture
def nltk_folder(monkeypatch, tmp_path):
    """An empty folder, the only one in which NLTK looks for data during the test."""
    import nltk
    from lm_eval.tasks.ifeval import instructions_util

    def forget():
        verifier.has_punkt.cache_clear()
        instructions_util._get_sentence_tokenizer.cache_clear()

    forget()
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    yield tmp_path
    forget()


SENTENCES = ("length_constraints:number_sentences", {"relation": "at least", "num_sentences": 3})
CAPITALS = (
    "change_case:capital_word_frequency",
    {"capital_relation": "at least", "capital_frequency": 2},
)


def test_missing_punkt_is_named_before_anything_is_judged(nltk_folder):
    for one in (SENTENCES, CAPITALS):
        assert "nltk.downloader punkt_tab" in missing([one[0], COMMA])
        with pytest.raises(UserError, match=r"row x: .* punkt_tab"):
            made((COMMA, {}), one)
        other = {"instruction_id_list": [one[0]], "kwargs": [one[1]], "prompt": "Write."}
        with pytest.raises(UserError, match="punkt_tab"):
            verify("One. Two. Three.", json.dumps(other))
    assert missing([COMMA]) is None
    assert verify(*KNOWN).outcome == "correct"


def test_sentences_and_capitals_are_judged_where_punkt_is(nltk_folder):
    folder = nltk_folder / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (folder / name).write_text("")
    assert missing(list(NEEDS_PUNKT)) is None
    assert verify("One. Two. Three.", made(SENTENCES)).outcome == "correct"
    assert verify("One. Two.", made(SENTENCES)).outcome == "wrong"
    assert verify("THE CAT sat.", made(CAPITALS)).outcome == "correct"
    assert verify("The CAT sat.", made(CAPITALS)).outcome == "wrong"


@pytest.mark.process
def test_no_network_is_tried_and_nothing_is_printed(tmp_path):
    """In a fresh process without NLTK data: lm-eval would fetch them, and log what it cannot tell
    the language of."""
    english = ("language:response_language", {"language": "en"})
    asked = made(("change_case:english_lowercase", {}), english)
    program = (
        "import socket, sys\n"
        "tried = []\n"
        "def refuse(*arguments, **named):\n"
        "    tried.append(arguments)\n"
        "    raise OSError('no network in this test')\n"
        "socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse\n"
        "from common.verifiers.ifeval import verifier as ifeval\n"
        "assert not {'nltk', 'lm_eval', 'torch', 'datasets'} & set(sys.modules)\n"
        "import os\n"
        "rank = os.environ.get('LOCAL_RANK')\n"
        "assert ifeval.verify(*ifeval.KNOWN).outcome == 'correct'\n"
        f"asked = {asked!r}\n"
        "ifeval.verify('12345 67 ... !?' * 9, asked)\n"
        "assert ifeval.missing(list(ifeval.NEEDS_PUNKT))\n"
        "assert not tried and os.environ.get('LOCAL_RANK') == rank\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
