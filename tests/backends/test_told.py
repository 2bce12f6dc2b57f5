from pathlib import Path

import pandas as pd
import pytest
from interrupted import Stopped, interrupted
from late import Late
from refuses import refuses
from tiny import MODEL

from common.backends import evaluations, local
from common.backends.local import train
from common.config.compose import CONFIGS, compose
from common.config.strict import strict
from common.errors import UserError
from common.evaluation.config import Evaluate
from common.evaluation.run import evaluate
from common.experiment import load
from common.models import load as load_module
from common.rollout import samplers

sizes = Late("common.backends.sizes")


def test_a_kill_in_the_last_evaluation_costs_neither_training_nor_samples(tiny, monkeypatch):
    x = tiny("eval.rare_nll_samples=0")
    write = evaluations.write_jsonl_gz

    def killed(path, rows):
        if path.name.startswith("rare"):
            raise Stopped
        write(path, rows)

    monkeypatch.setattr(evaluations, "write_jsonl_gz", killed)
    interrupted(train, x, progress=False)
    monkeypatch.undo()
    (run,) = [path.parent for path in (Path(x.results_dir) / x.paper).glob("*/checkpoint.pt")]
    assert (run / "model" / "model.safetensors").exists()
    kept = (run / "samples" / "natural.jsonl.gz").stat().st_mtime_ns
    monkeypatch.setattr(local.Loop, "one_step", None)  # no step is made again
    assert train(x, progress=False) == run
    assert (run / "samples" / "natural.jsonl.gz").stat().st_mtime_ns == kept
    rows = pd.read_csv(run / "metrics.csv")
    assert set(rows.benchmark) >= {"natural", "rare"}


def test_responses_longer_than_the_context_are_refused_before_any(tiny, monkeypatch):
    monkeypatch.setattr(samplers, "generate", None)
    for key in ("sampling", "eval"):
        with pytest.raises(UserError, match=rf"{key}\.max_tokens=300: .* context is 256"):
            train(tiny(f"{key}.max_tokens=300"), progress=False)


def test_an_evaluation_beyond_the_context_is_refused(results):
    words = [*tiny_words(results), "max_tokens=300"]
    with refuses("max_tokens", "300"):
        evaluate(strict(Evaluate, compose(CONFIGS, words, "evaluate")))


def tiny_words(results) -> list[str]:
    return [*MODEL, f"results_dir={results}", "eval.prompts.size=2", "n=2", "workers=1"]


@pytest.mark.skipif(load_module.torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_before_anything_is_made(tmp_path):
    words = ["device=cuda", f"results_dir={tmp_path}"]
    with refuses("device", "cuda"):
        evaluate(strict(Evaluate, compose(CONFIGS, words, "evaluate")))
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_without_an_end_token_is_refused(tiny, results, monkeypatch):
    from transformers import AutoTokenizer

    x, real = tiny(), AutoTokenizer.from_pretrained

    def endless(*arguments, **more):
        tokenizer = real(*arguments, **more)
        tokenizer.eos_token = None
        return tokenizer

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", endless)
    with pytest.raises(UserError, match="its tokenizer has no end token; set eos_token"):
        load_module.load_model(x.model, results, "cpu")


@pytest.mark.parametrize("cached", [True, False])
def test_a_hub_id_is_asked_for_once(monkeypatch, cached):
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    def asked(self, path, timeout):
        assert timeout <= 10
        raise OSError("no network") if cached else HFValidationError("no such model")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", asked)
    if cached:
        assert load_module.only_cached("a/b", "model.path")
    else:
        with refuses("model.path", "a/b"):
            load_module.only_cached("a/b", "model.path")


def test_an_empty_results_folder_is_refused(tiny):
    with refuses("results_dir"):
        tiny("results_dir=")


def test_the_hub_is_asked_once_for_a_model_that_is_not_here(monkeypatch):
    """Not by `from_pretrained`, which tries for a minute."""
    cached = []

    def none(path, *, local_files_only, **_):
        cached.append(local_files_only)
        raise OSError("not in the cache")

    monkeypatch.setattr("common.backends.sizes.only_cached", lambda path, key: True)
    monkeypatch.setattr(sizes.AutoConfig, "from_pretrained", none)
    x = load(["model=huggingface", "model.path=a/b"], "f_grpo")
    assert sizes.sizes_of(x) == []
    assert cached == [True]
