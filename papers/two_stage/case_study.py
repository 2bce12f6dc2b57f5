"""Fig. 3's case study in our setting: a page with right responses of GRPO and GRPO-N to the same
prompts.

    python -m papers.two_stage.case_study [results_dir=results] [seed=1]

Writes <results_dir>/two_stage/laptop/case_study.md from the stored samples of one seed of table
laptop_strong. `rlvr compare` on cluster runs writes cluster/case_study.md from the samples of Table
1's runs on AMC 2023, with counts of the code in them.

The paper picks one prompt and does not say how. Here a rule picks the prompts. All prompts that
both models solve at least once are ordered by how many more different right answers GRPO-N has
(ties by benchmark and prompt); the first three, the middle three and the last three are shown. So
the page shows where GRPO-N gains most, gains or loses little, and loses most.
"""

from functools import partial
from pathlib import Path

import pandas as pd

from common.cli import run
from common.comparison.gather import CLUSTER, LAPTOP, read
from common.config.words import options
from common.errors import UserError
from common.metrics.samples import answer_entropy
from common.results.files import read_jsonl, write
from papers.two_stage import cluster
from papers.two_stage.cluster import METHODS

SHOWN = 3  # prompts of each kind, and different right answers of each prompt and method
LONGEST = 80  # characters shown of a response, which may be any text


def write_page(root: Path, seed: int = 1) -> None:
    """Write the page of one seed of table laptop_strong (or smoke). Write nothing where one of the
    two runs or its samples are missing."""
    rows, _ = read(root, "two_stage", LAPTOP)
    shown = rows[(rows["table"].isin(["laptop_strong", "smoke"])) & (rows["seed"] == seed)]
    runs = shown.drop_duplicates("run_id").set_index("method")["run_id"]
    folders = [root / "two_stage" / runs[m] / "samples" for m in METHODS if m in runs]
    if len(folders) < len(METHODS) or not all(folder.exists() for folder in folders):
        return
    table = pd.concat([responses(folder, m) for folder, m in zip(folders, METHODS, strict=True)])
    text = page(table, list(runs[list(METHODS)]))
    write(root / "two_stage" / LAPTOP / "case_study.md", text)


def write_cluster_page(root: Path, rows: pd.DataFrame) -> None:
    """Write the page of Table 1's runs; write nothing where the samples of one are missing."""
    drawn = cluster.samples(root, rows[rows["table"] == "table1"])
    if drawn.empty or set(drawn["method"]) != set(METHODS):
        return
    runs = drawn.drop_duplicates("method").set_index("method")["run_id"]
    facts = FACTS | {f"{name} a response": partial(a_response, which=i) for i, name in CODE}
    about = "the paper's Fig. 3 on the prompts of AMC 2023."
    text = page(drawn.assign(benchmark=cluster.CASES), list(runs[list(METHODS)]), facts, about)
    write(root / "two_stage" / CLUSTER / "case_study.md", text)


def a_response(samples: pd.DataFrame, which: int) -> str:
    """Return the mean over responses of one of the two counts of `cluster.pieces`."""
    return f"{samples['response'].map(lambda text: cluster.pieces(text)[which]).mean():.2f}"


def responses(folder: Path, method: str) -> pd.DataFrame:
    """Return all samples of a run, with method and benchmark."""
    frames = [
        pd.DataFrame(read_jsonl(file)).assign(benchmark=file.name.removesuffix(".jsonl.gz"))
        for file in sorted(folder.glob("*.jsonl.gz"))
    ]
    return pd.concat(frames, ignore_index=True).assign(method=method)


def chosen(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the prompts that the rule picks: benchmark, problem_id, GRPO and GRPO-N (different
    right answers of each), more (their difference), kind."""
    right = samples[samples["outcome"] == "correct"]
    distinct = right.groupby(["benchmark", "problem_id", "method"])["parsed"].nunique()
    wide = distinct.unstack("method").reindex(columns=METHODS).dropna().astype(int)
    wide["more"] = wide[METHODS[1]] - wide[METHODS[0]]
    ordered = wide.reset_index().sort_values(
        ["more", "benchmark", "problem_id"], ascending=[False, True, True], ignore_index=True
    )
    middle = max(0, (len(ordered) - SHOWN) // 2)
    kinds = {"most more": 0, "the middle": middle, "most fewer": max(0, len(ordered) - SHOWN)}
    parts = [ordered[i : i + SHOWN].assign(kind=kind) for kind, i in kinds.items()]
    prompts = pd.concat(parts, ignore_index=True)
    return prompts.drop_duplicates(["benchmark", "problem_id"], ignore_index=True)


def page(
    samples: pd.DataFrame,
    run_ids: list[str],
    facts: dict | None = None,
    about: str = "the counterpart of the paper's Fig. 3 for a model that writes one expression and "
    "no reasoning, so there is no code to be wrong or repaired.",
) -> str:
    """Return the page as markdown. `facts` (default FACTS) maps a title to a function of one
    method's samples of one prompt."""
    prompts = chosen(samples)
    if prompts.empty:
        return "# Right responses of GRPO and GRPO-N\n\nNo prompt is solved by both.\n"
    b = METHODS[1]
    lines = [
        "# Right responses of GRPO and GRPO-N to the same prompts",
        "",
        f"Runs `{run_ids[0]}` and `{run_ids[1]}`; {about}"
        f" {len(solved(samples))} prompts are solved by both; they are ordered by how many more"
        f" different right answers {b} has, and the first, middle and last {SHOWN} are shown."
        " A response stands for all that differ from it in the order of terms and brackets only.",
    ]
    for kind, group in prompts.groupby("kind", sort=False):
        lines += ["", f"## Where {b} has {kind} different right answers"]
        for row in group.itertuples():
            these = samples[
                (samples["benchmark"] == row.benchmark) & (samples["problem_id"] == row.problem_id)
            ]
            lines += ["", f"### {quoted(row.problem_id)} ({row.benchmark})", ""]
            lines += ["| | " + " | ".join(METHODS) + " |", "| --- | --- | --- |"]
            cells = [these[these["method"] == method] for method in METHODS]
            for title, f in (facts or FACTS).items():
                lines.append(f"| {title} | {f(cells[0])} | {f(cells[1])} |")
    return "\n".join(lines) + "\n"


def solved(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the prompts with a right response of each method."""
    right = samples[samples["outcome"] == "correct"]
    methods = right.groupby(["benchmark", "problem_id"])["method"].nunique()
    return methods[methods == len(METHODS)].reset_index()


def right_share(samples: pd.DataFrame) -> str:
    return f"{(samples['outcome'] == 'correct').sum()} of {len(samples)}"


def distinct(samples: pd.DataFrame) -> str:
    return str(samples.loc[samples["outcome"] == "correct", "parsed"].nunique())


def bits(samples: pd.DataFrame) -> str:
    """Return the answer-level entropy over all responses (App. C.5)."""
    answers = samples["parsed"].where(samples["outcome"].isin(["correct", "wrong"]), None).tolist()
    return f"{answer_entropy(samples['problem_id'].tolist(), answers)[0]:.2f}"


def commonest(samples: pd.DataFrame) -> str:
    """Return the SHOWN most frequent right answers with counts, each in its commonest wording."""
    right = samples[samples["outcome"] == "correct"]
    cells = []
    for parsed, count in right["parsed"].value_counts().sort_index().nlargest(SHOWN).items():
        words = right.loc[right["parsed"] == parsed, "response"].value_counts().sort_index()
        cells.append(f"{quoted(words.idxmax())} x {count}")
    return "<br>".join(cells)


FACTS = {
    "right responses": right_share,
    "different right answers": distinct,
    "answer entropy (bits)": bits,
    "most frequent right answers": commonest,
}


CODE = ((0, "pieces of code"), (1, "outputs that name an error"))


def quoted(text: str) -> str:
    """Return a model's text as code in a table: at most LONGEST characters, one line, no markup."""
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    plain = "".join(c if c.isprintable() else "�" for c in short)
    return "`" + plain.replace("`", "'").replace("|", "¦") + "`"


def main(words: list[str]) -> None:
    given = options(words, {"results_dir": "results", "seed": "1"})
    if not given["seed"].isdigit():
        raise UserError(f"seed={given['seed']}: give a whole number")
    write_page(Path(given["results_dir"]), int(given["seed"]))


if __name__ == "__main__":
    run(main, __doc__)
