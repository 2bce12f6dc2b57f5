import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from local_loop import make_loop
from refuses import refuses

from common.backends import local
from common.results.files import read_jsonl
from common.rollout import recorded

pytestmark = pytest.mark.trains
PRETENDED = torch.version.cuda is None

KEPT = ("metrics.jsonl", "counts.csv", "metrics.csv", "model/model.safetensors")


def content(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in KEPT}


def start_again(x) -> None:
    shutil.rmtree(Path(x.results_dir) / x.paper)


def test_a_run_that_was_stopped_ends_with_the_same_bytes(tiny):
    words = ["method=dapo_iac_dlc", "sampling.dynamic_batches=2"]
    x = tiny("device=cuda", "optim.steps=4", "eval.every=2", "eval.rare_nll_samples=0", *words)
    whole = content(local.train(x, progress=False))
    start_again(x)
    calls = iter(range(100))

    def stops() -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local.train(x, progress=False, on_step=stops)
    assert not (Path(x.results_dir) / x.paper / x.run_id / "DONE").exists()
    again = content(local.train(x, progress=False))
    assert again == whole if PRETENDED else again.keys() == whole.keys()


def test_a_whole_run_measures_what_the_cpu_measures(tiny, pretended):
    found = {}
    for device in ("cpu", "cuda"):
        x = tiny(f"device={device}")
        run = local.train(x, progress=False)
        curve = pd.DataFrame(read_jsonl(run / "metrics.jsonl"))
        samples = [
            [(row["response"], row["outcome"]) for row in read_jsonl(file)]
            for file in sorted((run / "samples").iterdir())
        ]
        found[device] = curve, samples, (run / "counts.csv").read_text()
        start_again(x)
    (here, *ours), (there, *theirs) = found["cpu"], found["cuda"]
    assert ours == theirs
    pd.testing.assert_frame_equal(here, there, rtol=1e-5, atol=1e-5)


MADE_UP = ["data.verifier={_target_: local_loop.made_up}", "device=cuda"]


def test_a_rollout_that_does_not_fit_is_split(tiny, tmp_path, pretended, monkeypatch):
    loop, pieces = make_loop(tiny(*MADE_UP), tmp_path), []
    decode = recorded.decode

    def noted(decoder, ids, *given, **settings):
        pieces.append(len(ids))
        return decode(decoder, ids, *given, **settings)

    monkeypatch.setattr(recorded, "decode", noted)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    whole, *_ = loop.rollout(1)
    used = torch.cuda.max_memory_allocated() - before
    loop.drawn = 0
    pretended.set_memory((before + 0.7 * used) / 2**30)
    split, *_ = loop.rollout(1)
    assert pieces[0] == 4
    assert len(pieces[1:]) > 1
    assert torch.equal(whole.batch.response_ids, split.batch.response_ids)


def test_a_response_that_never_fits_names_its_key(tiny, tmp_path, monkeypatch):
    tried = []

    def full(decoder, ids, mask, uniforms, **settings):
        tried.append(uniforms.shape[1])
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(recorded, "decode", full)
    with refuses("sampling.max_tokens", 20):
        make_loop(tiny(*MADE_UP), tmp_path).rollout(1)
    assert tried == [64, 32, 16, 8, 4, 2, 1]


# Bytes of an update of 64 responses: 2.9 MB, with checkpointing 2.5 MB.
NEEDED = 2_700_000


def test_an_update_that_does_not_fit_names_the_keys_that_help(tiny, pretended, monkeypatch):
    words = ["device=cuda", "optim.micro_batch=64", "optim.mini_batches=1", "optim.steps=2"]
    words += ["eval.rare_nll_samples=0"]
    x = tiny(*words)
    whole = content(local.train(x, progress=False))
    start_again(x)
    update = local.Loop.update

    def tight(loop, *given):
        """With so much memory that the layers' activations do not fit."""
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        pretended.set_memory((held + NEEDED) / 2**30)
        try:
            return update(loop, *given)
        finally:
            pretended.set_memory(4)

    monkeypatch.setattr(local.Loop, "update", tight)
    with refuses("optim.micro_batch", 64):
        local.train(x, progress=False)
    again = tiny(*words, "optim.gradient_checkpointing=true")
    assert content(local.train(again, progress=False)) == whole
