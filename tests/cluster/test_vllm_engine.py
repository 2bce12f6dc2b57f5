import multiprocessing
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from tiny import speaking

from common.config import compose as compose_module
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.evaluation import workers
from common.evaluation.run import Evaluate, evaluate, evaluate_all
from common.models import pretrain
from common.models import store as store_module
from common.results.files import read_jsonl
from common.rollout import vllm
from common.rollout.local import kept
from common.types import Prompt

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed here: make test-cluster runs these"
)
PROMPTS = [Prompt("a", "3 5 7 12 = 41", ""), Prompt("b", "1 2 3 = 10", "")]
SAMPLING = SimpleNamespace(temperature=0.7, top_p=1.0, max_tokens=24)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """(folder, model, tokenizer) of a random Qwen2; vLLM's CPU kernels need heads of 32."""
    tokenizer = pretrain.tokenizer()
    sizes = dict(hidden_size=64, intermediate_size=64, max_position_embeddings=128)
    model = speaking(tokenizer, **sizes, initializer_range=0.2, tie_word_embeddings=True)
    path = tmp_path_factory.mktemp("vllm") / "model"
    store_module.save(model, tokenizer, path)
    return path, model, tokenizer


@pytest.fixture(scope="module")
def engines(checkpoint):
    """engines(temperature) -> a running vLLM; every one is started once."""
    path, _, _ = checkpoint
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CACHE_ROOT", str(path.parent / "cache"))
        yield cache(
            lambda temperature: vllm.engine(
                str(path), temperature=temperature, device="cpu", threads=1
            )
        )


def tempered(model, tokens: list[int], temperature: float) -> torch.Tensor:
    """Log-probabilities of every next token, from one plain forward pass of transformers."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return torch.log_softmax(logits.double() / temperature, -1)


def test_rows_are_the_samples_their_log_probabilities_and_whether_they_stopped(
    engines, checkpoint, monkeypatch
):
    _, model, tokenizer = checkpoint
    seen, sample = [], vllm._sample
    monkeypatch.setattr(vllm, "_sample", lambda *a, **k: seen.append(sample(*a, **k)) or seen[-1])
    rows = vllm.draw(engines(0.7), tokenizer, PROMPTS, 64, SAMPLING, (0,))
    prompts = [tokenizer(p.text, add_special_tokens=False)["input_ids"] for p in PROMPTS]
    end = tokenizer.eos_token_id
    assert len(rows) == 128
    assert len({row[0] for row in rows}) > 100  # a prompt's samples have different seeds
    for i, (row, one) in enumerate(zip(rows, seen[0], strict=True)):
        text, length, log_prob, stopped, kept_ids = row
        ids, prompt = list(one.token_ids), prompts[i // 64]
        assert list(kept_ids) == ids
        expected = tempered(model, prompt + ids, 0.7)[len(prompt) - 1 : -1]
        expected = expected.gather(1, torch.tensor(ids)[:, None])[:, 0]
        assert vllm.token_log_probs(one) == pytest.approx(expected.tolist(), abs=1e-4)
        assert log_prob == pytest.approx(expected.sum().item(), abs=1e-3)
        assert text == tokenizer.decode(ids, skip_special_tokens=True)
        assert length == len(ids) <= 24
        assert stopped == (ids[-1] == end)
        assert end not in ids[:-1]
        assert stopped or length == 24
    assert 0 < sum(row[3] for row in rows) < 128


def test_a_seed_gives_the_same_samples_whatever_was_drawn_before(engines, checkpoint):
    """One seed a call: the engine's stream and its prompt cache begin anew."""
    _, _, tokenizer = checkpoint
    draw = lambda prompts, n, seed: vllm.draw(  # noqa: E731
        engines(0.7), tokenizer, prompts, n, SAMPLING, seed
    )
    rows = draw(PROMPTS, 8, (0,))
    assert not set(draw(PROMPTS, 8, (1,))) & set(rows)
    draw(PROMPTS[1:], 3, (2,))
    assert draw(PROMPTS, 8, (0,)) == rows
    assert len(set(rows)) == 16


def replace_tokens(max_tokens: int, **changes) -> SimpleNamespace:
    return SimpleNamespace(**vars(SAMPLING) | {"max_tokens": max_tokens} | changes)


def test_top_p_draws_from_the_nucleus_and_log_probs_are_of_the_whole(engines, checkpoint):
    """At another temperature than 1 they are the model's own, of temperature 1."""
    (_, model, tokenizer), temperature = checkpoint, 0.7
    settings = replace_tokens(1, temperature=temperature, top_p=0.5)
    assert kept(temperature=temperature, top_p=1.0) == temperature
    reported = kept(temperature=temperature, top_p=0.5)
    rows = vllm.draw(engines(reported), tokenizer, PROMPTS[:1], 500, settings, (0,))
    ids = tokenizer(PROMPTS[0].text, add_special_tokens=False)["input_ids"]
    exact = tempered(model, ids, temperature)[-1]
    order = exact.argsort(descending=True)
    inside = int((exact[order].exp().cumsum(0) < 0.5).sum()) + 1
    whole = tempered(model, ids, 1.0)[-1]
    nucleus = {tokenizer.decode([i]): whole[i].item() for i in order[:inside]}
    assert {row[0] for row in rows} == set(nucleus)
    for text, _, log_prob, *_ in rows:
        assert log_prob == pytest.approx(nucleus[text], abs=1e-3)


def test_disagreement_with_the_trainer_is_refused(engines, checkpoint):
    _, model, tokenizer = checkpoint
    check = lambda llm, model, temperature: vllm.check_agreement(  # noqa: E731
        llm, model, tokenizer, PROMPTS, temperature, (0,)
    )
    assert check(engines(0.7), model, 0.7) < 1e-5
    # This engine reports what it had before the temperature.
    with pytest.raises(UserError, match="usual cause is another temperature or top-p"):
        check(engines(1.0), model, 0.7)
    other = type(model)(model.config)
    with pytest.raises(UserError, match="nats a token"):
        check(engines(0.7), other, 0.7)


@pytest.fixture
def evaluation(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(checkpoint[0].parent / "cache"))
    words = ["model=huggingface", f"model.path={checkpoint[0]}", "model.name=random", "workers=1"]
    words += ["engine=vllm", "eval.prompts.size=3", "n=8", "batch=8", "device=cpu"]
    words += ["eval.temperature=1.0", "eval.top_p=1.0", f"results_dir={tmp_path}"]
    return strict(Evaluate, compose(compose_module.CONFIGS, words, "evaluate"))


def test_two_evaluations_of_one_engine_resume_on_more_engines_with_the_same_samples(
    evaluation, monkeypatch
):
    both = [evaluation, replace(evaluation, seed=evaluation.seed + 1)]
    starts, start = [], workers._start
    monkeypatch.setattr(workers, "_start", lambda *given: starts.append(given) or start(*given))
    monkeypatch.setattr(workers, "gpus", lambda device: [None])
    assert evaluate_all(both) == [x.path for x in both]
    assert len(starts) == 1
    first, files = (sorted((x.path / "samples").iterdir()) for x in both)
    whole = [file.read_bytes() for file in files]
    assert not set(whole) & {file.read_bytes() for file in first}
    assert [len(read_jsonl(file)) for file in files] == [8, 8, 8]
    assert all(row["log_prob"] < 0 for file in files for row in read_jsonl(file))
    assert (both[1].path / "metrics.csv").exists()
    (both[1].path / "DONE").unlink()
    for file in files[1:]:
        file.unlink()
    kept = files[0].stat().st_mtime_ns
    monkeypatch.setattr(workers, "gpus", lambda device: [None, None])
    assert evaluate(both[1]) == both[1].path
    assert len(starts) == 3
    assert [file.read_bytes() for file in files] == whole
    assert files[0].stat().st_mtime_ns == kept
    assert multiprocessing.active_children() == []
