"""The first screen's sentences: made from verdicts and comparisons, and no more than they say."""

import numpy as np
import pandas as pd
from report_sources import cell, comparison, source
from tiny import ROOT

from common.claims.file import read
from common.report import answers, next_steps, page
from common.report.answers import answer, counted, effect
from common.report.reruns import Rerun
from common.sweeps.cost import Range

BUDGET = pd.DataFrame(
    {
        "gpu_hours": [9.0, 5.0, np.nan],
        "power": ["power 81 % or more", "printed +1, power 42 % or more", np.nan],
    }
)
MODELS = {"laptop_strong": "tiny", "maze_strong": "maze model"}


def gap(name: str, scope: str = "laptop", **changed) -> dict:
    row = {"claim": name, "scope": scope, "table": "laptop_strong", "benchmark": "rare"}
    row |= {"metric": "pass@64", "a": "table=laptop_strong, method=F (N=8, gamma=1)"}
    row |= {"b": "table=laptop_strong, method=G", "difference": 10.0, "low": 7.6, "high": 12.4}
    row |= {"n_seeds": 5, "mdd": 3.5, "seed_low": 8.0, "seed_high": 12.0, "verdict": "holds"}
    return row | {"prompt_low": 8.0, "prompt_high": 12.0, "test": "seeds and problems"} | changed


def verdict(name: str, laptop: str, **changed) -> dict:
    row = {"id": name, "claim": f"claim {name}", "source": "Abstract", "laptop": laptop}
    row |= {"published": "not claimed here", "published_numbers": "", "published_state": ""}
    row |= {"cluster": "not run", "cluster_numbers": "", "cluster_state": ""}
    return row | {"laptop_numbers": "1 vs 2", "laptop_state": "reference"} | changed


def made(verdicts: list[dict], gaps: list[dict], **claims) -> answers.Answer:
    stated = {row["id"]: {"headline": f"Head {row['id']}"} for row in verdicts} | claims
    about = {"paper": "F", "arxiv": "1", "brief": "keep more", "says": "F keeps more."}
    return answer("p", about, stated, pd.DataFrame(verdicts), pd.DataFrame(gaps), MODELS, BUDGET)


def test_a_sentence_counts_and_shows_decided_headlines_with_their_intervals():
    unsure = gap("b", difference=-1.65, low=-3.4, high=0.17, metric="pass@1", verdict="open")
    one = made([verdict("a", "holds"), verdict("b", "inconclusive")], [gap("a"), unsure])
    assert [scale.sentence for scale in one.scales] == [
        "Laptop, tiny: of 2 claims 1 holds, 1 is inconclusive; “Head a” holds "
        "(10.0 [7.6, 12.4] points of rare pass@64).",
        "GPU or cluster, the paper's size: not run; a rerun could test 2 of 2 claims, "
        "and 1 with a power of 80 % or more for the printed difference.",
    ]
    said = [
        (head.text, head.findings[0].word, head.findings[0].effect.text) for head in one.headlines
    ]
    assert said[1] == ("Head b", "inconclusive", "-1.6 [-3.4, 0.17] points of rare pass@1")


def test_toys_theory_and_each_testbed_are_scales_of_their_own():
    verdicts = [verdict(name, "holds") for name in ("maze", "laptop", "toy", "exact")]
    gaps = [
        gap("maze", table="maze_strong, at matched pass@1"),
        gap("laptop"),
        gap("toy", table="toy"),
        gap("exact", table="theory", low=np.nan, high=np.nan, n_seeds=np.nan, test="numbers"),
    ]
    one = made(verdicts, gaps, toy={"family": "toy", "headline": "Toys do"})
    assert [scale.name for scale in one.scales[:-1]] == [
        *("Theory and single measurements", "Toy", "Laptop, tiny", "Laptop, maze model"),
    ]


def test_what_is_missing_is_said_and_never_a_number():
    few = gap("a", low=np.nan, high=np.nan, n_seeds=1, test="seeds")
    assert effect(pd.DataFrame([few]), "").text.endswith(
        "rare pass@64 (too few seeds for an interval)"
    )
    many = pd.DataFrame([gap("a"), gap("a", difference=-2.0, verdict="fails")])
    assert (
        effect(many, "").text
        == "1 of 2 comparisons as claimed, 1 against, differences -2.0 to 10.0"
    )
    assert effect(None, "missing: no row; and more").text == "missing: no row"
    one = made([verdict("a", "not claimed here")], [gap("b")])
    assert one.headlines[0].findings[0].scope == "cluster"  # a laptop's is none
    counts = {"holds": 2, "mechanism not engaged": 1, "not run": 1}
    words = "2 hold, 1 has a mechanism that did not engage, 1 was not run"
    assert counted(answers.Counter(counts)) == words


def test_an_inconclusive_effect_says_what_corrected_it():
    row = gap("a", low=-3.4, high=-0.2, verdict="inconclusive", p_holm=np.nan, p_bh=0.067)
    said = effect(pd.DataFrame([row]), "").text
    assert "p = 0.067" in said
    assert "Benjamini-Hochberg" in said
    assert "p =" not in effect(pd.DataFrame([row | {"verdict": "holds"}]), "").text


def test_seeds_that_would_show_a_difference_come_from_what_was_detectable():
    row = gap("a", difference=3.0, mdd=4.0, n_seeds=5, prompt_low=0.0, prompt_high=0.0)
    assert next_steps.seeds_needed(row) == 9  # 5 (4 / 3)^2
    assert next_steps.seeds_needed(row | {"difference": -1.0}, null=-4.0) == 9  # from the margin
    assert next_steps.seeds_needed(row | {"difference": 0.5}) is None  # more than MOST
    half = gap("a", difference=3.0, mdd=4.0)  # half of the variance is the problems'
    assert next_steps.seeds_needed(half) == 40
    assert next_steps.seeds_needed(half | {"difference": 2.8}) is None  # no number of seeds
    assert next_steps.seeds_needed(half | {"mdd": np.nan}) is None
    assert next_steps.null({"laptop": {"order": [], "relation": "<", "margin": 1}}) == -1


def test_the_next_command_settles_what_seeds_can_and_else_is_the_papers_own():
    cost = Range(0.5, 1)  # of five seeds
    rows = [
        Rerun("laptop", "laptop_strong", "tiny", name, 5, "", cost, experiment, ("lr=1",), (1, 2))
        for name, experiment in (("F (N=8, gamma=1)", "f"), ("G", "g"), ("other", "o"))
    ]
    prices = pd.DataFrame({"scope": ["cluster", "laptop"], "low": [80, 1], "high": [160, 1]})
    prices = prices.assign(disk_gb=[7, 1], where="h100-2x8")
    unsure = gap("a", difference=3.0, mdd=4.0, prompt_low=0.0, prompt_high=0.0)
    one = made([verdict("a", "inconclusive")], [unsure])
    step = next_steps.next_step(one, {}, pd.DataFrame([unsure]), rows, prices)
    assert step.command == (
        ".venv/bin/python -m papers.p --multirun experiment=f,g table=laptop_strong lr=1 "
        "seed=1,2,3,4,5,6,7,8,9"
    )
    assert step.cost.startswith("at most 1.8 to 3.6 hours of one core, predicted, not measured")
    small = gap("a", difference=0.1, mdd=4.0)
    step = next_steps.next_step(one, {}, pd.DataFrame([small]), rows, prices)
    assert (step.command, step.cost) == (
        "make reproduce-p SCALE=cluster CLUSTER=h100-2x8",
        "80 to 160 GPU-hours and 7 GB of disk, predicted, not measured",
    )


def test_the_page_begins_with_the_answers(tmp_path):
    one = made([verdict("focal", "holds")], [gap("focal")], focal={"headline": "Head <b>"})
    step = next_steps.Step("would settle it", "run --it", "an hour, predicted, not measured")
    shown = source(comparison([cell("F", "AIME", "not run", "")]), answer=one, step=step)
    text, _ = page.render([shown], [], [], tmp_path)
    first = text[: text.index('id="filters"')]
    for words in (
        "F keeps more.",
        "Laptop, tiny: of 1 claim 1 holds",
        "Head &lt;b&gt;",
        "run --it",
    ):
        assert words in first, words
    assert 'href="#claim-paper_a-focal"' in first
    assert "[7.6, 12.4]" in first
    assert first.count("<details") == 1  # the glossary
    assert "<details" in text
    assert "<details open" not in text


def test_every_paper_says_what_it_claims_and_has_three_to_six_headlines():
    for home in sorted((ROOT / "papers").glob("*/claims.yaml")):
        about, claims = read(home)
        assert about["says"].endswith("."), home
        assert 3 <= len(about["brief"].split()) <= 8, home
        assert 3 <= sum("headline" in claim for claim in claims) <= 6, home
        assert all(claim["section"] for claim in claims), home
