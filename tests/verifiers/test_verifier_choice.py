"""Multiple choice: nasty answers, the conventions of others pinned to their source, and the shared
MMLU-Pro outputs with the verdicts of the authors' extraction."""

import random
import re
from pathlib import Path

import pytest
from labelled import rows
from timing import cpu_seconds

from common.verifiers.choice import CONVENTIONS, example, reference, verify

OPTIONS = ["12 N", "a rise in pressure", "42 N", "vitamin C"]
REFERENCE = reference({"id": "x", "answer": "C", "options": OPTIONS})


@pytest.fixture(scope="module")
def outputs() -> list[dict]:
    return [row for row in rows("verifier_cases") if row["source"] == "mmlu_pro_outputs"]


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        # boxes
        ("\\boxed{C}", "C"),
        ("\\boxed{\\mathbf{(C)}}", "C"),
        ("\\fbox{C}", "C"),
        ("\\boxed{c}", "C"),
        ("\\boxed{C. 42 N}", "C"),
        ("\\boxed{(C) 42~\\text{N}}", "C"),
        ("\\boxed{D) vitamin C}", "D"),  # the second letter belongs to the option's text
        ("\\boxed{42\\text{ N}}", "C"),
        ("\\boxed{A rise in pressure}", "B"),  # an article, not the letter A
        ("\\boxed{A} no, \\boxed{C}", "C"),  # the last
        ("\\boxed{C}. So the answer is (A).", "C"),  # a letter in a box goes first
        ("\\boxed{7}\nThe answer is (C).", "C"),  # a box without a letter decides nothing
        ("\\boxed{12 N} is one force. The answer is (C).", "C"),
        ("<think>\\boxed{A}</think>\\boxed{C}", "C"),
        ("<think>the answer is (A)</think> The answer is (C).", "C"),
        # statements
        ("The answer is (C).", "C"),
        ("The answer is (C) 42 N. Question: ... The answer is (A).", "C"),  # first, as the authors
        ("Answer: C", "C"),
        ("**Answer:** C", "C"),
        ("The correct answer is: C.", "C"),
        ("The answer is 42 N.", "C"),
        ('answer: "42 N"', "C"),
        ("Answer: **A**, wait. Answer: **C**", "C"),
        ("The answer is Greater; the answer is (C)", "C"),
        # nothing but the answer
        ("C", "C"),
        ("c", "C"),
        ("C. 42 N", "C"),
        # the last statement counts, and the closing line above all
        ("Answer: A seems fine. On reflection, answer: C", "C"),
        ("The answer is B. Sorry, it's C.", "C"),
        ("Answer: A. Actually, (C).", "C"),
        ("The answer is A.\n\n**C**", "C"),
        ("Option A is wrong.\nSo option (C) must be correct.", "C"),
        ("We weigh them.\n\nI would go with C since forces add.", "C"),
        ("We weigh them.\n\nMy answer is option C", "C"),
        ("We weigh them.\n\nThus, (C).", "C"),
        ("We weigh them.\n\n#### C", "C"),
        ("We weigh them.\n\nFinal answer – D", "D"),
        ("We weigh them.\n\n[C]", "C"),
        ("We weigh them.\n\n**C) 42 N**", "C"),
        ("We weigh them.\n\n42 N", "C"),
        ("We weigh them.\n\nThe answer to this is most likely c.", "C"),
        ("The right choice is C, as forces add.", "C"),
        ("The answer is vitamin C, because it is sour.", "D"),
        ("{'choice': 'C'}", "C"),
        ("正确答案是C。", "C"),
        ("故选（Ｃ）", "C"),
        ("Die Antwort lautet C.", "C"),
        ("<answer>A</answer>, or rather <answer>The answer is C.</answer>", "C"),
        ("<answer>\\boxed{C}</answer>", "C"),
        ("The answer is C. Therefore, (A), (B) and (D) are wrong.", "C"),
        ("The answer is C. So A is out.", "C"),
        ("<ANSWER>C</ANSWER>", "C"),
        ("<answer></answer>\nThe answer is C", "C"),
        ("The answer is C<|im_end|>", "C"),
        ("选项C是正确的。", "C"),
        ("答案：【C】", "C"),
        ("Richtig ist C.", "C"),
        ("Also ist Antwort C richtig.", "C"),
        ("Die korrekte Option ist C.", "C"),
        ("The answer is A... let me reconsider. It should be C.", "C"),
        ("The answer is not A but C.", "C"),
        ("The answer, then, is <C>.", "C"),
        ("The right answer would therefore be C.", "C"),
        ("We weigh them.\n\n__C__", "C"),
        ("We weigh them.\n\nSelect C.", "C"),
        ("We weigh them.\n\nThat is 42 N, which is option C.", "C"),
        ("Selected option → C", "C"),
        ("Conclusion: C", "C"),
        ("Options A and B are wrong; option C is correct.", "C"),
        ("Hence (C), which fails.", None),
        # two letters, a denial, a doubt, a condition, and letters that are none
        ("The answer is A. The answer is either A or C.", None),
        ("The answer is (A), (C)", None),
        ("Answer: C/D", None),
        ("Both C and D are correct.", None),
        ("Neither A nor C is correct.", None),
        ("A is correct, but C is also correct.", None),
        ("答案是A或C", None),
        ("C不是正确答案", None),
        ("Antwort A ist falsch.", None),
        ("We choose A and C.", None),
        ("Choose A number.", None),
        ("Either C is correct or D is.", None),
        ("I don't think C is correct.", None),
        ("C is incorrect.", None),
        ("The answer is C. The answer is not C.", None),
        ("The answer is C. Wait, that is wrong.", None),
        ("If the answer is C, the force doubles.", None),
        ("C would be the best choice if it were heavier.", None),
        ("The incorrect option is C.", None),
        ("The answer is C-14.", None),
        ("The answer is C = 3.", None),
        ("Is the answer C?", None),
        ("The answer is A rise in temperature", None),
        ("A. 12 N\nB. a rise in pressure\nC. 42 N\nD. vitamin C", None),
        ("The answer is (C).\n\\boxed{A", None),  # it breaks off in a box
        ("<think>the answer is C", None),
        ("<answer>C, D</answer>", None),
        # no answer
        ("", None),
        ("C\0", None),
        ("I think C", None),
        ("\\boxed{}", None),
        ("\\boxed{A, C}", None),
        ("\\boxed{AC}", None),
        ("\\boxed{C", None),
        ("\\boxed{E}", None),  # beyond the options
        ("\\boxed{ı}", None),  # upper() makes it an ASCII I
        ("\\boxed{Ⅽ}", None),  # the Roman numeral
        ("The answer is Greater", None),
        ("Answer: None of the above", None),
        ("<think>the answer is (C)</think>", None),
        ("\ud800 \\boxed{\ud800}", None),
    ],
)
def test_ours(response, letter):
    verdict = verify(response, REFERENCE)
    assert verdict.parsed == letter
    assert verdict.outcome == {"C": "correct", None: "unparsed"}.get(letter, "wrong")
    assert verdict.reward == (letter == "C")
    assert verify("\\boxed{A}", REFERENCE).outcome == "wrong"


def test_a_text_names_an_option_only_if_it_is_the_only_one_of_that_text():
    twice = reference({"id": "x", "answer": "A", "options": ["Two", "two.", "three"]})
    assert verify("\\boxed{two}", twice).outcome == "unparsed"
    assert verify("\\boxed{three}", twice).parsed == "C"
    assert verify("\\boxed{A}", twice).outcome == "correct"
    elements = reference({"id": "x", "answer": "D", "options": ["Al", "Tl", "C", "B"]})
    assert verify("\\boxed{B}", elements).parsed == "B"  # a capital is a letter before it is a text


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_hostile_responses(convention):
    big = 250_000  # what is quadratic takes minutes
    texts = ["answer: ", "answer is (", "\\boxed{", "(", "A ", " ", "a\n", "The answer is ", "\0"]
    texts += ["\ud800", ": \t", "answer:A", "answer:\n", "\\boxed{C} ", "<think>", "**"]
    for text in texts:
        text *= big // len(text)
        seconds, verdict = cpu_seconds(verify, text, REFERENCE, convention=convention)
        assert seconds < 1, text[:20]
        assert verdict.parsed is None or verdict.parsed in "ABCD"
        assert len(verdict.reason) < 300
    text = "x" + " " * big + "answer is\n" + "answer" + " " * big
    assert cpu_seconds(verify, text, REFERENCE, convention=convention)[0] < 1


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_example_is_correct_and_for_its_own_letter_only(convention):
    for letter in "ABCD":
        other = reference({"id": "x", "answer": letter, "options": OPTIONS})
        assert verify(example(other), other, convention=convention).outcome == "correct"
        verdict = verify(example(other), REFERENCE, convention=convention)
        assert verdict.outcome == ("correct" if letter == "C" else "wrong")
        assert verify("", other, convention=convention).outcome == "unparsed"


# ---- the conventions of others


# What "ours" reads where the authors read another letter or none: several letters, the last of
# several statements, and two statements in other words.
OTHERWISE = {"mmlu_pro-4783#0": None, "mmlu_pro-5886#0": None, "mmlu_pro-6718#0": None}
OTHERWISE |= {"mmlu_pro-6197#0": "B", "mmlu_pro-8977#0": "B", "mmlu_pro-9151#0": "I"}


def test_mmlu_pro_outputs_have_the_authors_verdicts(outputs):
    assert len(outputs) > 400
    for row in outputs:
        gold = reference(row)
        for convention in ("mmlu_pro", "ours"):
            verdict = verify(row["response"], gold, convention=convention)
            assert (verdict.outcome == "correct") == row["correct"], (row["id"], convention)
            read = OTHERWISE if convention == "ours" else {}
            assert verdict.parsed == read.get(row["id"], row["extracted_2level"]), row["id"]
        if len(row["options"]) > 1:  # and of no other letter
            other = next(letter for letter in "AB" if letter != row["extracted_2level"])
            assert verify(row["response"], reference({**row, "gold": other})).outcome != "correct"


TEXTS = ["answer: ", "Answer:", "answer is ", "answer is (", "B", "(D) ", "J)", "\n", " ", "C1"]
TEXTS += ["Bo", ".", "The answer is ", ": ", "42 n", "Vitamin C!", "\n\n", "no", "A"]
TEXTS += ["The best answer is "]


def random_texts(n: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(TEXTS, k=rng.randint(1, 9))) for _ in range(n)]


def test_levels_of_mmlu_pro_equal_the_authors_quadratic_patterns():
    """compute_accuracy.py and evaluate_from_local.py of TIGER-AI-Lab/MMLU-Pro."""
    ten = reference({"id": "x", "answer": "A", "options": [f"text {i}" for i in range(10)]})
    answered = 0
    for text in random_texts(5000):
        two = re.search(r"answer is \(?([A-J])\)?", text)
        two = two or re.search(r".*[aA]nswer:\s*([A-J])", text)
        assert verify(text, ten, convention="mmlu_pro").parsed == (two and two[1]), text
        answered += two is not None
    assert answered > 1000


def test_the_convention_of_lm_eval_equals_its_own_filter(outputs):
    """Its filter and pattern as the task file of the installed version gives them."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.metrics import exact_match_fn
    from lm_eval.filters.extraction import RegexFilter
    from lm_eval.tasks import __file__ as tasks
    from lm_eval.tasks._yaml_loader import load_yaml

    file = Path(tasks).parent / "mmlu_pro/_default_template_yaml"
    task = load_yaml(file, resolve_func=False)
    arguments = dict(task["filter_list"][0]["filter"][0])
    assert arguments.pop("function") == "regex"
    (metric,) = task["metric_list"]
    ignored = {key: metric[key] for key in ("ignore_case", "ignore_punctuation")}
    cases = [(row["response"], row) for row in outputs]
    for i, text in enumerate(random_texts(1000)):
        cases.append(("The answer is (C)." * (i % 2) + text, {"gold": "C", "options": OPTIONS}))
    answers = RegexFilter(**arguments).apply([[text] for text, _ in cases], [{}] * len(cases))
    right = 0
    for (text, row), (answer,) in zip(cases, answers, strict=True):
        theirs = exact_match_fn(predictions=[answer], references=[row["gold"]], **ignored)
        verdict = verify(text, reference({"id": "x", **row}), convention="lm_eval")
        assert (verdict.outcome == "correct") == bool(theirs["exact_match"]), (text[-200:], row)
        right += verdict.outcome == "correct"
    assert 5 < right < len(cases)
