"""Small SynLogic puzzles with responses judged by hand, one a task, and hostile text."""

SUDOKU = [[(3 * (i % 3) + i // 3 + j) % 9 + 1 for j in range(9)] for i in range(9)]
SUDOKU_CLUES = [["X", 2, *SUDOKU[0][2:]], *SUDOKU[1:]]
LATIN = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
OTHER = [[1, 3, 2], [2, 1, 3], [3, 2, 1]]

CAGES = [
    {"cells": ["(1,1)", "(1,2)"], "target": 2, "operator": "÷"},  # 2 // 1
    {"cells": ["(1,3)", "(2,3)"], "target": 2, "operator": "-"},
    {"cells": ["(2,1)", "(2,2)"], "target": 6, "operator": "*"},
    {"cells": ["(3,1)", "(3,2)", "(3,3)"], "target": 6, "operator": "+"},
]

# One small puzzle a task: (answer, metadata, right responses, {wrong response: part of its reason},
# unparsed responses). Expected verdicts are worked out by hand.
PUZZLES = {
    "sudoku": (
        "", {"original_sudoku": SUDOKU_CLUES, "complete_sudoku": SUDOKU},
        [f"```python\n{tuple(map(tuple, SUDOKU))}\n```", f"```\ngrid = {SUDOKU}\nprint(grid)\n```"],
        {str([SUDOKU[1], SUDOKU[0], *SUDOKU[2:]]): "clue", str(SUDOKU[:8]): "9 x 9",
         str([*SUDOKU, SUDOKU[0]]): "9 x 9", str([[2, 2, *SUDOKU[0][2:]], *SUDOKU[1:]]): "row 1"},
        [str(SUDOKU_CLUES), str(SUDOKU)[:-1]],
    ),
    "futoshiki": (
        LATIN,
        {"grid_size": 3, "prefilled_coords": [[0, 0]], "constraints": [[[0, 1], [0, 2], "<"]]},
        ["[[1 2 3,2 3 1,3 1 2]]", "[[1 2 3],[2 3 1],[3 1 2]]", "[[1 2 3,3 1 2,2 3 1]]", str(LATIN)],
        {str(OTHER): "(1,2) < (1,3)",  # 3 < 2
         "[[2 1 3,1 3 2,3 2 1]]": "clue", "[[1 2 3,1 2 3,1 2 3]]": "column 1",
         "[[1 1 2,2 3 1,3 1 2]]": "row 1"},
        ["[[1 2 3,2 3 1,3 1 2]", "1 2 3\n2 3 1\n3 1 2"],
    ),
    "calcudoko": (
        "[[1 2 3,2 3 1,3 1 2]]",
        {"grid_size": 3, "regions": CAGES},
        ["[[1 2 3,2 3 1,3 1 2]]", "[[2 1 3,3 2 1,1 3 2]]", "[[1, 2, 3], [2, 3, 1], [3, 1, 2]]"],
        {"[[1 3 2,2 1 3,3 2 1]]": "gives 3, not 2", "[[1 2,2 1]]": "3 x 3"},
        ["[[a b c,b c a,c a b]]"],
    ),
    "skyscraper_puzzle": (
        "", {"n": 3, "top": [3, 2, 1], "bottom": [1, 2, 2], "left": [3, 2, 1], "right": [1, 2, 2]},
        [f"```python\n{LATIN}\n```", "[['1', '2', '3'], ['2', '3', '1'], ['3', '1', '2']]"],
        {str(OTHER): "towers", str(LATIN[:2]): "3 x 3"},
        ["no grid", "[[1, 2, 3], [2, 3, X], [3, 1, 2]]"],
    ),
    "survo": (
        "", {"original_matrix": [[0, 2, 3], [0, 0, 7], [4, 6, 10]], "candidate_numbers": [1, 3, 4]},
        ["```python\n[[1, 2, 3],  # row\n [3, 4, 7],\n [4, 6, 10]]\n```"],
        {"[[1, 2, 3], [2, 5, 7], [3, 7, 10]]": "clue",
         "[[2, 2, 3], [2, 4, 7], [4, 6, 10]]": "filled in",
         "[[3, 2, 3], [1, 4, 7], [4, 6, 10]]": "row 1 sums to 5"},
        ["[[1, 2, 3], [3, 4.0, 7], [4, 6, 10]]"],
    ),
    "numbrix": (
        "", {"grid": [[1, "X"], ["X", 3]]},
        ["[[1, 2], [4, 3]]", "[[1, 4], [2, 3]]"],
        {"[[1, 3], [2, 4]]": "2 and 3", "[[2, 1], [3, 4]]": "clue", "[[1, 2], [3, 3]]": "1 to 4"},
        ["[1, 2, 4, 3]"],
    ),
    "kukurasu": (
        "", {"row_sums": [2, 3], "col_sums": [2, 3]},
        ['[["X", "1"], ["1", "1"]]', "[[X, 1], [1, 1]]"],
        {'[["1", "1"], ["1", "1"]]': "row sums", '[["X", "1"], ["1", "0"]]': "neither"},
        ['["X", "1"]'],
    ),
    "campsite": (
        "",
        {"grid": [["X", "T", "X", "T", "X"]], "row_constraints": [2],
         "col_constraints": [0, 0, 1, 0, 1]},
        ["[['X', 'T', 'C', 'T', 'C']]"],  # the first tent stands between two trees
        {"[['C', 'T', 'C', 'T', 'X']]": "in a column", "[['X', 'T', 'C', 'C', 'C']]": "no tent",
         "[['X', 'T', 'C', 'T', 'X']]": "in a row"},
        ["X T C T C"],
    ),
    "number_wall": (
        "", {"grid": [["X", "X", "X"], ["X", "X", 2], ["X", "X", "X"]]},
        ['[["A","A","A"],["A","X",2],["A","A","A"]]'],
        {'[["A","A","A"],["A","A",2],["A","A","A"]]': "1 cells",
         '[["A","A","A"],["A","A",2],["A","A","X"]]': "2 x 2",
         '[[1,"A","A"],["A","X",2],["A","A","A"]]': "not one of A, X",
         '[["A","A","A"],["X","A","X"],["A","A","A"]]': "not one of 2"},
        ['[["A","A","A"],["A","X",2]'],
    ),
    "arrow_maze": (
        "", {"maze": [["2", "X", "X"], ["X", "2", "→"]]},
        ['```python\n[["2", "→", "↗"], ["↓", "2", "→"]]\n```',
         '[["2", "\\u2192", "\\u2192"], ["\\u2190", "2", "\\u2192"]]'],
        {'[["2", "→", "X"], ["←", "2", "→"]]': "no arrow",
         '[["2", "→", "→"], ["←", "2", "↗"]]': "changed clue",
         '[["2", "→", "↗"], ["←", "2", "→"]]': "1 arrows lead from the 2",
         '[["2", "→", "→"], ["↓", "2", "→"]]': "3 arrows lead from the 2"},
        ["→ → ←"],
    ),
    "minesweeper": (
        "", {"current_mines": [[0, 1], [2, 0]]},
        ["[(0, 1), (2, 0)]", "[[2,0],[0,1],[0,1]]", "The mines: ((0,1),(2,0))."],
        {"[(0, 1)]": "mines", "[(0, 1), (2, 0), (1, 1)]": "mines", "[]": "mines"},
        ["(0, 1)", "[(0, 1, 2)]", "[(-1, 0)]"],
    ),
    "mathador": (
        "", {"numbers": [3, 3, 8, 8], "operators": ["+", "-", "*", "/"], "result": 24},
        ["```python\n8/(3-8/3)\n```", "$\\boxed{8 \\div (3 - 8 / 3)}$"],
        {"```python\n3+3+8+8\n```": "equals 22", "```python\n24\n```": "uses the numbers",
         "```python\n3*8\n```": "uses the numbers", "```python\n8%(3-8/3)\n```": "uses ['%']",
         "```python\n8/(3-3)+8\n```": "divides by zero"},
        ["8/(3-8/3)", "```python\n8/(3-8/3) == 24\n```", "```python\n(lambda: 24)()\n```",
         "```python\n3**3+8+8\n```", "```python\n8//3*3+8\n```", "```python\n8/(3-8/3\n```",
         "```python\n" + "(" * 100 + "8" + ")" * 99 + "\n```"],
    ),
    "math_path": (
        "0 -2 /2 = -1", {"query_expr": "?-?/2 = -1", "ref_expr": "0 -2 /2 = -1"},
        ["[[0 -2 /2 = -1]]", "so [[1-4/2=-1]]", "[[2-6÷2 = −1]]", "\\boxed{3-8/2=-1}"],
        {"[[1-2/2 = -1]]": "equals 0", "[[0-3/3 = -1]]": "digit for each ?",
         "[[0-2/2 = -2]]": "digit for each ?", "[[?-?/2 = -1]]": "digit for each ?",
         "[[1-(4/2) = -1]]": "digit for each ?"},
        ["0 -2 /2 = -1", "[[-1]]"],
    ),
    "cryptarithm": (
        "21 + 12 = 33", {"letter_words": ["AB", "BA", "CC"], "operators": ["+"]},
        ["The answer is $21 + 12 = 33$.", "```python\n12+21=33\n```", "答案是 32 + 23 = 55。"],
        {"The answer is 22 + 11 = 33": "does not fit", "The answer is 33 + 33 = 66": "one digit",
         "The answer is 21 + 12 = 44": "equals 33", "The answer is 121 + 12 = 133": "does not fit"},
        ["The answer is AB + BA = CC", "33"],
    ),
    "boolean_expressions": (
        "A,C", {},
        ["\\boxed{A,C}", "\\boxed{C and A}", "\\boxed{\\text{A, C}}", "The answer is **a, c**."],
        {"\\boxed{A}": "stored", "\\boxed{A,B,C}": "stored", "\\boxed{none}": "stored"},
        ["A,C", "\\boxed{}", "\\boxed{A,C"],
    ),
    "object_properties": (
        "4", {},
        ["\\boxed{4}", "\\boxed{\\text{04}}", "\\boxed{3} no: \\boxed{4}", "<answer>4</answer>"],
        {"\\boxed{5}": "stored", "\\boxed{4} or \\boxed{unknown}": "stored"},
        ["4", "I do not know"],
    ),
    "space_reasoning": (
        "ping pong paddle", {},
        ["\\boxed{ping pong paddle}", "\\boxed{\\text{Ping  pong paddle}.}"],
        {"\\boxed{ping pong}": "stored", "\\boxed{pingpongpaddle}": "stored"},
        ["ping pong paddle"],
    ),
    "space_reasoning_tree": (
        "book, oak tree, tofu", {},
        ["\\boxed{book, oak tree, tofu}", "\\boxed{tofu，Book、oak tree}"],
        {"\\boxed{book, oak tree}": "stored", "\\boxed{bookshelf, oak tree, tofu}": "stored",
         "\\boxed{book, oak tree, tofu, pen}": "stored"},
        ["book, oak tree, tofu"],
    ),
    "web_of_lies": (
        "yes, no", {},
        ["The answer is **yes, no**.", "Thus:\n**Yes, No**", "\\boxed{是, 否}", "答案是**是，否**"],
        {"The answer is **no, yes**.": "stored", "The answer is **yes, no, no**.": "stored"},
        ["The answer is **yes, maybe**.", "The answer is **不是, 是**."],
    ),
    "time_sequence": (
        [30, 2], {},
        ["[30, 2]", "\\boxed{[30, 2]}", "$\\left[30, 2\\right]$", "not [45, 3] but [30,2]"],
        {"[30, 3]": "stored", "[2, 30]": "stored"},
        ["30, 2", "[30, 2, 1]", "[30, 2"],
    ),
    "goods_exchange": (
        "(('Ann','red book'),('Bob','blue watch'))", {},
        ["```python\n(('Bob', 'blue watch'), ('Ann', 'red book'))\n```",
         '```python\n[["Ann", "Red book"], ["Bob", "blue watch"]]\n```',
         "((Ann,red book),(Bob,blue watch))"],
        {"(('Ann','blue watch'),('Bob','red book'))": "stored", "(('Ann','red book'),)": "stored",
         "(('Ann','red book'),('Bob','blue watch'),('Bob','blue watch'))": "stored"},
        ["Ann has the red book", "(('Ann','red book','x'),('Bob','blue watch'))"],
    ),
    "dyck_language": (
        "{[<>]}", {},
        ["{[<>]}", "`{ [ < > ] }`", "\\boxed{\\{[<>]\\}}", "The (full) sequence is {[<>]}",
         "After {[] comes {[<>]}"],
        {"{[<>]}()": "stored", "{[<>}]": "stored"},
        ["nothing", ""],
    ),
    "dyck_language_errors": (
        "-1", {},
        ["-1", "\\boxed{-1}", "At once.\nPosition: −1", "```\n-1\n```"],
        {"1": "stored", "21": "stored"},
        ["valid", "7 of 20", "1" * 30],
    ),
    "dyck_language_reasoning_errors": (
        "16,19", {},
        ["16,19", "```python\n16,19\n```", "Errors:\n19, 16", "\\boxed{16，19}"],
        {"16": "stored", "16,19,20": "stored", '""': "stored", "no errors": "stored"},
        ["不确定", ""],
    ),
}  # fmt: skip

HOSTILE = ["", "\0", "\ud800\udfff [[\ud800]] \\boxed{\ud800}", " " * 1_000_000, "9" * 1_000_000]
HOSTILE += [
    "[" * 1_000_000,
    "[[" * 300_000 + "]]" * 200_000,
    "[[1," * 250_000,
    "[[1,2],[3,4]]" * 70_000,
]
HOSTILE += ["(" * 500_000 + ")" * 500_000, "{" * 500_000 + "}" * 500_000, "\\boxed{" * 150_000]
HOSTILE += ["```" * 333_333, "<answer>" * 120_000, "<think></think>" * 60_000, '"' * 1_000_000]
HOSTILE += ["'\\" * 500_000, "[['" + "\\" * 900_000, "[[" + "9" * 900_000 + "]]", "#" * 1_000_000]
HOSTILE += ["1+" * 500_000 + "1=2", "1 +    " * 150_000, "[[9" + "*9" * 80 + "=1]]"]
HOSTILE += [f"```python\n{text}9\n```" for text in ("9*" * 99, "-" * 199, "9**9**9**")]
HOSTILE += [
    "\\boxed{" + "\\text{" * 600 + "}" * 600 + "}",
    "[" + " " * 500_000 + "[" + " " * 400_000,
]
HOSTILE += ["答案" * 300_000, "answer is " * 100_000, "The answer is " + "yes, " * 200_000]
HOSTILE += ["[[" + "\ud800," * 100_000 + "]]", "↑" * 300_000]
