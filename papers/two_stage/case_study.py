"""Fig. 3's case study: a page with right responses of GRPO and GRPO-N to the same prompts.

`rlvr compare` on cluster runs writes cluster/case_study.md from the samples of Table 1's runs on
AMC 2023. The paper picks one prompt and does not say how; here a rule picks them. All prompts that
both models solve are ordered by how many more different right answers GRPO-N has (ties by prompt);
the first three, the middle three and the last three are shown.
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import CLUSTER
from common.metrics.samples import answer_entropy
from common.results.files import write
from papers.two_stage import cluster
from papers.two_stage.cluster import METHODS

SHOWN = 3  # prompts of each kind, and different right answers of each prompt and method
LONGEST = 80  # characters shown of a response, which may be any text


def write_page(root: Path, rows: pd.DataFrame) -> None:
    """Write the page of Table 1's runs; write nothing where the samples of one are missing."""
    drawn = cluster.samples(root, rows[rows["table"] == "table1"])
    if len(drawn) and set(drawn["method"]) == set(METHODS):
        write(root / "two_stage" / CLUSTER / "case_study.md", page(drawn))


def page(samples: pd.DataFrame) -> str:
    ordered, runs = solved(samples), samples.groupby("method")["run_id"].first()
    lines = [
        "# Right responses of GRPO and GRPO-N to the same prompts",
        "",
        f"Runs `{runs[METHODS[0]]}` and `{runs[METHODS[1]]}`; the paper's Fig. 3 on the prompts of"
        f" {cluster.CASES}. {len(ordered)} prompts are solved by both; they are ordered by how many"
        f" more different right answers {METHODS[1]} has, and the first, middle and last {SHOWN}"
        " are shown. A response stands for all that differ from it in the order of terms and"
        " brackets only.",
    ]
    for kind, problems in chosen(ordered).items():
        lines += ["", f"## Where {METHODS[1]} has {kind} different right answers"]
        for problem in problems:
            these = samples[samples["problem_id"] == problem]
            columns = [facts(these[these["method"] == method]) for method in METHODS]
            lines += ["", f"### {quoted(problem)}", ""]
            lines += ["| | " + " | ".join(METHODS) + " |", "| --- | --- | --- |"]
            lines += [f"| {title} | {columns[0][title]} | {columns[1][title]} |"
                      for title in columns[0]]  # fmt: skip
    return "\n".join(lines) + "\n"


def solved(samples: pd.DataFrame) -> list[str]:
    """Return the prompts with a right response of each method, in the order of the page."""
    right = samples[samples["outcome"] == "correct"]
    wide = right.groupby(["problem_id", "method"])["parsed"].nunique().unstack("method")
    wide = wide.reindex(columns=METHODS).dropna()
    more = (wide[METHODS[1]] - wide[METHODS[0]]).rename("more").reset_index()
    return more.sort_values(["more", "problem_id"], ascending=[False, True])["problem_id"].tolist()


def chosen(ordered: list[str]) -> dict[str, list[str]]:
    last = max(0, len(ordered) - SHOWN)
    picked = {}
    for kind, start in (("most more", 0), ("the middle", last // 2), ("most fewer", last)):
        seen = {problem for problems in picked.values() for problem in problems}
        picked[kind] = [p for p in ordered[start : start + SHOWN] if p not in seen]
    return {kind: problems for kind, problems in picked.items() if problems}


def facts(samples: pd.DataFrame) -> dict[str, str]:
    """Return the rows of the table for one method's samples of one prompt: title -> text."""
    right = samples[samples["outcome"] == "correct"]
    answers = samples["parsed"].where(samples["outcome"].isin(["correct", "wrong"]), None).tolist()
    bits = answer_entropy(samples["problem_id"].tolist(), answers)[0]  # over all responses
    code, errors = zip(*map(cluster.pieces, samples["response"]), strict=True)
    commonest = []
    for parsed, count in right["parsed"].value_counts().sort_index().nlargest(SHOWN).items():
        words = right.loc[right["parsed"] == parsed, "response"].value_counts().sort_index()
        commonest.append(f"{quoted(words.idxmax())} x {count}")
    return {
        "right responses": f"{len(right)} of {len(samples)}",
        "different right answers": str(right["parsed"].nunique()),
        "answer entropy (bits)": f"{bits:.2f}",  # App. C.5
        "most frequent right answers": "<br>".join(commonest),
        "pieces of code a response": f"{sum(code) / len(code):.2f}",
        "outputs that name an error a response": f"{sum(errors) / len(errors):.2f}",
    }


def quoted(text: str) -> str:
    """Return a model's text as code in a table: at most LONGEST characters, one line, no markup."""
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in short)
    return "`" + plain.replace("`", "'").replace("|", "¦") + "`"
