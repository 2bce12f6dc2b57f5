"""The math verifier: equal answers in other notations, words and units that change a number, closed
forms that agree in many digits, and answers that no box holds."""

import time

import pytest
from math_cases import outcome

# gold -> (right answers, wrong answers)
BOXED = {
    "\\mathbb{R}": (["(-\\infty,\\infty)", "\\text{all real numbers}", "ℝ"], []),
    "\\varnothing": (["∅", "\\emptyset", "\\{\\}"], []),
    "(-3,3)": (["|x|<3", "]-3,3[", "\\{x : |x| < 3\\}"], []),
    "(2,3)": (["]2,3[", "\\langle 2,3\\rangle", "P(2,3)"], []),
    "[0,1)": (["[0,1[", "[0,\\frac12]\\cup(\\frac12,1)"], []),
    "\\begin{pmatrix}2\\\\4\\end{pmatrix}": (
        [
            "2\\begin{pmatrix}1\\\\2\\end{pmatrix}",
            "\\langle2,4\\rangle",
            "\\begin{pmatrix}2\\\\[2pt]4\\end{pmatrix}",
        ],
        [],
    ),
    "\\begin{pmatrix}2&0\\\\0&2\\end{pmatrix}": (
        ["[[2,0],[0,2]]", "[[2, 0], [0, 2]]", "\\begin{bmatrix}2&0\\\\\\\\0&2\\end{bmatrix}"],
        [],
    ),
    "\\binom{7}{2}": (["{7 \\choose 2}", "{7\\choose 2}"], []),
    "x\\equiv 3 \\pmod{8}": (
        ["x\\equiv 3\\mod 8", "x\\equiv3\\bmod 8", "x \\equiv 3 (\\text{mod } 8)"],
        [],
    ),
    "21": (["21^{\\text{st}}", "21st", "21^{st}"], ["21\\text{ hundred}"]),
    "12": (
        [
            "\\text{twelve}",
            "twelve",
            "12=x",
            "\\text{Twelve}",
            "\\text{one dozen}",
            "\\text{a dozen}",
            "12 \\frac{\\text{m}}{\\text{s}}",
            "12\\ \\frac{\\mathrm{N}}{\\mathrm{m}^2}",
            "12个",
            "\\text{twelve days}",
            "\\text{Area} = 12",
            "\\text{Total cost} = 12 \\text{ dollars}",
            "\\mathrm{Volume}=12\\text{ cm}^3",
            "20\\text{ km}-8\\text{ km}=12\\text{ km}",
            "\\approx 12",
        ],
        [
            "\\text{minus } 12",
            "12\\text{ thousand}",
            "\\text{more than } 12",
            "\\text{at most } 12",
            "12 \\text{ or fewer}",
            "\\text{not } 12",
            "\\text{no more than }12",
            "12\\text{ squared}",
            "12\\text{ dozen}",
            "\\text{half of } 12",
            "\\text{twice } 12",
            "12\\text{ tenths}",
            "12\\text{ cubed}",
            "\\text{double }12",
            "\\text{one third of } 12",
            "\\text{the square root of } 12",
        ],
    ),
    "-5": (["\\text{negative } 5", "\\text{minus }5", "\\text{negative five}"], []),
    "3\\text{ million}": (["3000000", "3,000,000"], ["3", "3\\text{ thousand}"]),
    "7 \\text{ km}": ([], ["7 \\text{ m}", "7\\text{ miles}"]),
    "\\$50": ([], ["50\\text{ cents}"]),
    "5\\text{ m/s}": (["5 \\frac{\\text{m}}{\\text{s}}", "5\\ \\mathrm{m/s}"], ["5\\text{ km/h}"]),
    "60\\text{ mph}": ([], ["60\\text{ km/h}"]),
    "1011_2": (["1011_{\\text{two}}", "1011_{two}", "1011\\text{ base }2"], []),
    "9": (["9=x", "9 = n"], []),
    "\\frac{1}{6}": (["0.1666...", "0.16666\\ldots", "0.1\\dot{6}"], []),
    "10^{50}": ([], ["10^{50}-1", "10^{50}+1"]),
    "500!": ([], ["500!+1", "500!-1"]),
    "\\frac{3^{200}-1}{2}": ([], ["\\frac{3^{200}}{2}", "\\frac{3^{200}+1}{2}"]),
    "\\sqrt{2^{400}+1}": ([], ["2^{200}"]),
    "\\text{two}": (["2"], []),
    "0": (["\\text{zero}", "zero"], []),
    "\\frac12": (["\\text{half}", "\\text{one half}", "\\text{one-half}"], []),
    "0.25": (["\\text{25 percent}"], []),
    "250000": (
        ["250 \\text{ thousand}", "0.25\\text{ million}", "\\frac{1}{4}\\text{ million}"],
        [],
    ),
    "2 \\text{ or more}": ([], ["2"]),
    "[2,\\infty)": (["[2,\\infty[", "[2,+\\infty["], []),
    "(-\\infty,1]\\cup[3,\\infty)": (["|x-2|\\ge1", "]-\\infty,1]\\cup[3,\\infty["], []),
    "(1,4)": (["|2x-5|<3", "(1,2]\\cup[2,4)", "(1,2)\\cup[2,3]\\cup(3,4)"], []),
    "A(0,0),B(1,2)": (["(0,0),(1,2)", "A=(0,0),B=(1,2)"], []),
    "\\frac{1}{2^{150}}": ([], ["\\frac{1}{2^{150}+1}"]),
    "e^{100}": ([], ["e^{100}+1", "e^{100}-\\frac{1}{10}"]),
    "10^{60}+x": ([], ["10^{60}+x+1"]),
    "11": (
        ["\\text{eleven}", "11\\text{ cm}\\cdot\\text{s}^{-1}"],
        [
            "\\text{the square of }11",
            "\\text{any number but }11",
            "11\\text{ lakh}",
            "11=x+y",
            "至少11",
        ],
    ),
    "-9": (["\\text{negative 9}", "\\text{minus 9 degrees}"], ["9"]),
    "2:3:4": (["4:6:8"], ["2:12", "4:3:2", "\\frac{1}{6}"]),
    "7\\text{ m}^3": (
        ["7\\text{ cubic meters}", "7"],
        ["7\\text{ m}^2", "7\\text{ square meters}", "7\\text{ m}"],
    ),
    "\\frac{1}{5}": (["20\\%"], ["0.2\\%"]),
    "\\text{3:45 p.m.}": (["15:45"], ["3:45\\text{ a.m.}"]),
    "x+y=8": (["8=x+y"], ["8"]),
    "(2,\\infty)": (["2<x", "x>2"], ["2>x", "2<x<2"]),
    "[-4,4]": (["4\\ge|x|"], ["4>|x|", "4\\le|x|"]),
    "56": (["\\binom83"], []),
    "42\\text{ square feet}": ([], ["42\\text{ square inches}"]),
    "\\text{1A}_{16}": (["1A_{16}"], []),
    "4\\text{th}": (["4th", "4^{\\text{th}}"], []),
}
# gold -> (right responses, wrong responses)
RESPONSES = {
    "14": (
        [
            "It takes 14 hours.",
            "So, 14.",
            "x is 14",
            "Bob earns \\$14 weekly.",
            "We get $x=3$.\n\nIn all, they sold 14 of them.",
            "<answer>14</answer>",
            "<think>a</think><answer> $14$ </answer>",
            "<answer>The answer is 14.</answer>",
            "所以答案是14。",
            "答案：14",
            "答案为 $14$。",
            "The answer is fourteen.",
            "\\[ 20 \\text{ kg} - 6 \\text{ kg} = 14 \\text{ kg} \\]\n\nSo that is what remains.",
            "<answer>3</answer> no, <answer>14</answer>",
            "Hence, 14.",
            "<answer>x = 14</answer>",
        ],
        [
            "The point is (3, 14)",
            "The sum is 3√14",
            "The value is sqrt(14)",
            "She has at least 14 left.",
            "The answer is 14 thousand.",
            "the final form is therefore 2x - 14",
            "the final value is negative 14",
            "We thus find half of 14",
            "this is then 14π",
            "It all comes down to log 14",
            "So the answer we want is not 14",
            "He has fewer than 14 of them.",
            "there are 14 dozen eggs in it",
            "The number is 14 squared of course",
        ],
    ),
    "(4, 7)": (
        [
            "Hence the point lies at (4, 7)",
            "So the vertex of the graph is (4, 7).",
            "<answer>(4,7)</answer>",
        ],
        [],
    ),
    "x + 2": (["Final Answer\n\nx + 2", "After some work we get to this:\n\nx + 2"], []),
    "\\frac{2}{5}": (["<answer>2/5</answer>", "<answer>\\frac25</answer>"], []),
    "\\text{Paris}": (["So the city must be **Paris**.", "<answer>Paris</answer>"], []),
    "23": (
        [
            "Somit beträgt die Summe 23.",
            "The result: **23 apples**",
            "结果是23。",
            "一共有23个苹果。",
        ],
        [
            "The result is 23 x",
            "The product is 23 times x.",
            "Thus it is 23 pi",
            "23 is not the answer",
            "它不是23。",
            "答案至少是23",
            "答案大于23",
            "答案是负23",
            "Die Summe ist höchstens 23.",
        ],
    ),
    "[3,8)": (["So the domain is [3, 8)."], ["So the domain is (3, 8]."]),
    "8": ([], ["So the domain is [3, 8)."]),
    "5000": (["She earns 5 thousand dollars a year.", "The answer is 5 thousand."], []),
    "-6": (["The final value is negative 6", "The answer is minus 6."], []),
    "30": (["so $x = 10$ boxes. With three in each, she needs 30 of them in all."], []),
    "10": ([], ["so $x = 10$ boxes. With three in each, she needs 30 of them in all."]),
    "16": (
        [
            "She pays 16.",
            "They need 16 more boxes.",
            "Die Lösung ist 16.",
            "因此，答案是 $16$",
            "最终答案为：16",
            "故答案为：16.",
            "答：16",
            "所以，一共有16个苹果。",
            "<answer>16.</answer>",
            "<answer> \\( 16 \\) </answer>",
            "<answer>16 apples</answer>",
            "<answer>**16**</answer>",
            "<ANSWER>16</ANSWER>",
            "<think>x <answer>3</answer></think>\n<answer>16</answer>",
            "= 16",
            "Sixteen",
        ],
        [
            "The total cost is \\$16 million.",
            "Therefore, the point is (5, 16).",
            "we get the product 3·16",
            "The length is 4√16",
            "So the total is 16 - x",
            "It is between 15 and 16",
            "At most 16 are left over.",
            "So exactly half of 16 is right",
            "It is not 16.",
            "There are over 16 of those",
            "so we see that it is 16n",
            "the ratio is 3:16",
            "the value is f(16)",
        ],
    ),
    "\\frac{5}{6}": (["<answer>5/6</answer>", "The probability is \\frac{5}{6}."], []),
    "2\\sqrt{3}": (
        ["<answer>2√3</answer>", "<answer>$2\\sqrt{3}$</answer>", "So the length must be 2√3"],
        [],
    ),
    "x^2-1": (["So the polynomial is x^2 - 1", "<answer>x^2-1</answer>"], []),
    "\\text{blue}": (["<answer>blue</answer>", "So the ball must be **blue**."], []),
    "1": ([], ["So the result is x - 1", "The set is {0, 1}"]),
    "y = 2x + 1": (["we find that here y = 2x + 1"], []),
    "[0, 1]": (["So the wanted interval is [0, 1]"], []),
    "12": (
        [
            "Tom had 20 - 8 = 12 left.",
            "20 apples - 8 apples = 12 apples",
            "\\[20\\text{ m} - 8\\text{ m} = 12\\text{ m}\\]",
        ],
        [],
    ),
}


@pytest.mark.parametrize(("cases", "frame"), [(BOXED, "\\boxed{%s}"), (RESPONSES, "%s")])
def test_cases_by_hand(cases, frame):
    for gold, (right, wrong) in cases.items():
        for text in [*right, *wrong]:
            got = outcome(frame.replace("%s", text), gold)
            assert (got == "correct") == (text in right), (gold, text, got)


def test_algebraic_constants_are_decided_exactly():
    nested = "\\sqrt{5+2\\sqrt{6}}"
    assert outcome(f"\\boxed{{{nested}}}", "\\sqrt{2}+\\sqrt{3}") == "correct"
    assert outcome(f"\\boxed{{{nested}+10^{{-90}}}}", "\\sqrt{2}+\\sqrt{3}") == "wrong"
    assert outcome("\\boxed{\\frac{2^{200}x+1}{2^{200}}}", "x+2^{-200}") == "correct"
    assert outcome("\\boxed{x}", "x+2^{-200}") == "wrong"
    assert outcome("\\boxed{(2^{200}+1)x=1}", "2^{200}x=1") == "wrong"
    assert outcome("\\boxed{1+e^{-200}}", "1") == "wrong"
    assert outcome(f"\\boxed{{{nested}-\\sqrt{{2}}-\\sqrt{{3}}}}", "0") == "correct"
    assert outcome("\\boxed{\\csc x}", "\\frac{1}{\\sin x}") == "correct"


def test_the_last_closed_tag_counts():
    assert outcome("<answer>3</answer> no: <answer>4</answer>", "4") == "correct"
    assert outcome("<answer>3</answer> no: <answer>4", "4") == "wrong"
    assert outcome("<answer>4", "4") == "unparsed"
    assert outcome("<answer>3</answer>\n\\boxed{4}", "4") == "correct"
    assert outcome("\\boxed{3}\n<answer>4</answer>", "4") == "correct"


@pytest.mark.parametrize(
    "text",
    [
        "\\int_0^1\\int_0^1 \\frac{1}{1-xy}\\,dx\\,dy",
        "\\int_0^1 \\frac{\\cos(x^3)}{\\sqrt{2+x^5}}dx",
        "\\sum_{k=1}^\\infty \\frac{\\sin k}{k^2+1}",
        "\\sum_{j=1}^\\infty\\sum_{k=1}^\\infty\\frac{1}{j^3+k^3}",
        "\\gcd(2^{9^9}, 3)",
        "|x" * 400 + "<2",
        "\\binom{4000000}{1000000}",
        "\\int_0^1 x dx\\sin x3.5R3.5++" * 6,
        ",".join(f"x^{{{power}}}" for power in range(2, 82)),
    ],
)
def test_what_may_take_long_is_refused(text):
    start = time.process_time()
    assert outcome(f"\\boxed{{{text}}}", "\\sqrt{2}+1") == "unparsed"
    assert time.process_time() - start < 3


def test_units_are_dropped_only_by_the_option():
    for unit, other in (("km", "m"), ("hours", "minutes")):
        text = f"\\boxed{{6 \\text{{ {other}}}}}"
        assert outcome(text, f"6\\text{{ {unit}}}") == "wrong"
        assert outcome(text, f"6\\text{{ {unit}}}", drop_units=True) == "correct"
        assert outcome(text, "6") == "correct"
