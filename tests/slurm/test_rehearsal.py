"""What a rehearsal makes of a row, without running it: rlvr rehearse runs it."""

from dataclasses import asdict

import nltk
import pytest
from compositions import PAPERS, asked
from refuses import refuses

from common.datasets.prompts import stated
from common.errors import UserError
from common.sweeps.plan import evaluations_of, runs_of
from common.sweeps.smallest import SMALLEST
from common.verifiers.ifeval.verifier import has_punkt
from slurm.rehearsal import data, rows
from slurm.rehearsal.model import ANSWERS, FAMILIES, HEAD, family, transitions, width
from slurm.rehearsal.stub import (
    CUT,
    EVALUATE,
    STEPS,
    Most,
    differences,
    hollow_evaluations,
    hollow_gate,
    hollow_sweep,
    reason,
    scorable,
    stubbed,
)

LITTLE, MUCH = Most(1000, 1000, 1000), Most(10**9, 10**9, 10**9)


def made(x, most: Most):
    return stubbed(x, model="stand-in", memory="other", results_dir="rehearsed", most=most)


def changed(x, most: Most) -> set[str]:
    return set(differences(asdict(x), asdict(made(x, most))))


def check(x) -> None:
    for key in changed(x, MUCH):
        assert key not in CUT
        reason(key)  # KeyError for one that must not be stubbed
    assert {"model.path", "results_dir", "device"} <= changed(x, MUCH)
    for key in changed(x, LITTLE):
        reason(key)
    little = made(x, LITTLE)
    assert little.sampling.prompts % x.optim.mini_batches == 0
    drawn = little.sampling.group_size * x.sampling.dynamic_batches  # of each prompt's kind
    assert little.sampling.prompts * drawn <= max(1000, x.optim.mini_batches * drawn)
    assert max(little.eval.k) <= max(1, little.eval.n)
    family(x.model.path)
    sampler = x.method.sampler  # DLC's memory network has one head too, and vLLM computes on it
    assert width(x) // (sampler.shrink if sampler else 1) == HEAD


def evaluations(config, sweep):
    return evaluations_of(runs_of(config, sweep), sweep) if sweep.benchmarks else []


def row_of(paper: str):
    sweep = rows.chosen(asked(paper, "scale=cluster"), SMALLEST[paper])
    return rows.true_size(asked(paper, "scale=cluster"), sweep)


@pytest.mark.parametrize("paper", ["two_stage", pytest.param("f_grpo", marks=pytest.mark.sweep)])
def test_only_the_named_keys_are_hollow(paper):
    (x,), evaluations, gates = row_of(paper)
    assert not gates
    check(x)
    sweep = rows.chosen(asked(paper, "scale=cluster"), SMALLEST[paper])
    own = evaluations_of([made(x, LITTLE)], sweep)
    cuts = hollow_evaluations(own, most=LITTLE)
    drawn = {cut.path.name for cut in cuts}
    for true, e, cut in zip(evaluations, own, cuts, strict=True):
        assert (cut.scores is None) == (e.scores is None)
        assert cut.scores is None or cut.scores in drawn
        assert scorable(cut, most=LITTLE) == (not cut.scores or "greedy" not in cut.row.benchmark)
        different = set(differences(true.benchmark(), cut.benchmark()))
        different |= set(differences(true.sampling(), cut.sampling()))
        assert different <= set(EVALUATE)
        assert cut.n == min(true.n, max(1, 1000 // (stated(e.eval.prompts) or 500)))


@pytest.mark.sweep
def test_a_gate_lets_any_number_pass_that_was_measured():
    config = asked("fade", "scale=cluster")
    runs, _, gates = rows.true_size(config, rows.chosen(config, "qwen7b_fade_h1"))
    assert {name for one in gates for name in one.rows} >= {runs[0].name}
    for true in gates:
        x = made(true.of, LITTLE)
        cut = hollow_gate(true, x, most=LITTLE)
        gate = cut.gate
        assert gate.prompts == cut.samples.path.name != true.gate.prompts
        assert [*gate.benchmarks.values()] == [e.path.name for e in cut.evaluations]
        assert gate.above.keys() == true.gate.above.keys()
        lost = true.gate.near.keys() - gate.near.keys()
        assert lost == (
            {f"LiveCodeBench v6 pass@{k}" for k in (10, 100)} if cut.evaluations else set()
        )
        for e in (cut.samples, *cut.evaluations):
            assert (e.device, e.model.path, e.results_dir) == ("cpu", "stand-in", x.results_dir)
            assert e.n * (stated(e.eval.prompts) or 500) <= 1000
        assert "qwen25_7b" not in str(cut.samples.eval.prompts)  # whose tokenizer is not there
    whole = hollow_gate(gates[0], made(gates[0].of, MUCH), most=MUCH)
    assert whole.gate.near.keys() == gates[0].gate.near.keys()


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_of_every_paper_can_be_made_hollow(paper):
    config = asked(paper, "scale=cluster")
    sweeps = config.scales["cluster"].sweeps
    runs = [x for sweep in sweeps for x in runs_of(config, sweep)]
    assert len(runs) >= 5
    for x in runs:
        check(x)
    steps = {e.row.checkpoint for one in sweeps for e in evaluations(config, hollow_sweep(one))}
    assert {step for step in steps if isinstance(step, int)} <= {0, STEPS - 1, STEPS}
    assert SMALLEST[paper] in [x.name for x in runs]


@pytest.mark.sweep
def test_a_row_comes_with_the_one_that_limits_its_checkpoint():
    config = asked("f_grpo", "scale=cluster")
    sweep = rows.chosen(config, "qwen15b_math_f_grpo")
    assert sweep.rows == ["cluster/qwen15b_math_grpo", "cluster/qwen15b_math_f_grpo"]
    assert sweep.baselines == {"F-GRPO": "GRPO"}
    alone = rows.chosen(config, "qwen15b_math_grpo")
    assert alone.rows == ["cluster/qwen15b_math_grpo"]
    with refuses("row", "grpo"):
        rows.chosen(config, "grpo")


def test_a_set_without_a_copy_has_its_true_count():
    node = {"name": "own", "rows": 7, "kept": 3, "gold": "tests", "window": ["2024-01-01", "b"]}
    source = [{"id": "a", "problem": "p", "tests": ["1"]}, {"id": "b", "problem": "q", "tests": []}]
    found = data.made(node, source)
    assert len({row["id"] for row in found}) == 7
    texts = {row["problem"] for row in found}  # the source's other row has nothing to be scored by
    assert texts == {"p", *(f"p (own {i})" for i in range(2, 8))}
    twice = data.made(node, [source[0], source[0] | {"id": "c", "problem": "p "}])
    assert len({" ".join(row["problem"].split()) for row in twice}) == 7
    assert sum(row["date"] >= "2024-01-01" for row in found) == 3
    empty = data.made({"name": "own", "rows": None}, [{"id": "a", "answer": "1", "problem": "p"}])
    assert [row["id"] for row in empty] == ["own-0"]
    trained_on = data.made({"name": "own", "rows": 4, "gold": "tests"}, source, answers="123")
    assert [row["tests"] for row in trained_on] == ["1", "2", "3", "1"]
    some = data.made({"name": "own", "rows": 4, "kept": [2, 3], "gold": "tests"}, source)
    assert [row["tests"] for row in some] == [["1"], ["1"], "", ""]


@pytest.mark.skipif(has_punkt(), reason="NLTK's sentence model is here already")
def test_empty_sentences_stand_in_for_nltks(tmp_path, monkeypatch):
    monkeypatch.setattr("nltk.data.path", list(nltk.data.path))
    assert not has_punkt()
    assert data.sentences(tmp_path)
    assert has_punkt()
    assert not data.sentences(tmp_path)
    has_punkt.cache_clear()


def test_the_stand_in_says_one_of_its_answers_or_nothing():
    """Characters for tokens; every state's shares are 1, and each way through ends."""

    def tokenizer(text, add_special_tokens):
        return {"input_ids": [ord(letter) for letter in text]}

    tokenizer.eos_token_id = 0
    shares, words = {}, {}
    for state, token, share, following in transitions(tokenizer):
        shares[state] = shares.get(state, 0) + share
        words.setdefault(state, []).append((token, following))
    assert shares == pytest.approx(dict.fromkeys(shares, 1.0))

    def ends(state: int) -> list[str]:
        return [
            chr(token) + rest if token else ""
            for token, following in words[state]
            for rest in (ends(following) if token else [""])
        ]

    said = [f"{a}{digit}{b}" for _, a, digits, b in ANSWERS for digit in digits]
    assert sorted(ends(0)) == sorted(["", *said])


def test_families_are_told_apart_by_the_path():
    assert family("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B") is FAMILIES[0]
    assert family("Qwen/Qwen3-4B").kind == "qwen3"
    assert family("results/fade/sft/qwen25_7b").kind == "qwen2"
    assert family("meta-llama/Llama-3.2-3B-Instruct").end == "<|eot_id|>"
    with pytest.raises(UserError, match="facebook/cwm-sft: no tokenizer of it is known"):
        family("facebook/cwm-sft")
