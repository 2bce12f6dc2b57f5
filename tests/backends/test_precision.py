import pytest
import torch
from local_loop import BONUS, made_up, make_loop

from common.errors import UserError
from common.models.policy import log_probs
from common.verifiers import countdown

BOUND = 0.02  # mean |difference| of a token's log-probability, bfloat16 against float32


@pytest.fixture(autouse=True)
def verdicts(monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)


def test_a_rollout_in_bfloat16_is_trained_on_with_log_probs_in_float32(tiny, tmp_path):
    x = tiny(BONUS, "sampling.dtype=bfloat16", "sampling.log_prob_temperature=1.3")
    loop = make_loop(x, tmp_path)
    drawn, row, _ = loop.rollout(1)
    batch = drawn.batch
    with torch.no_grad():
        again = log_probs(loop.model, batch, temperature=1.3)[0]
    assert ((again - batch.log_probs) * batch.mask).abs().max() < 1e-4
    assert 1e-6 < row["log_prob_gap"] < BOUND  # it was drawn in bfloat16, and nearly on-policy
    assert (batch.log_probs[batch.mask == 0] == 0).all()
    assert all(parameter.dtype == torch.float32 for parameter in loop.model.parameters())
    assert loop.one_step(2)["ratio"] == pytest.approx(1, abs=0.05)


def test_states_computed_again_change_no_bit(tiny, tmp_path):
    rows, weights, calls = [], [], []
    for words in ((), ("optim.gradient_checkpointing=true",)):
        loop = make_loop(tiny(BONUS, *words), tmp_path / str(len(rows)))
        count = [0]
        loop.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_, n=count: n.append(1))
        rows.append([loop.one_step(step) for step in (1, 2)])
        weights.append([parameter.detach().clone() for parameter in loop.model.parameters()])
        calls.append(len(count))
    assert rows[0] == rows[1]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    assert calls[1] > calls[0]  # the layers did run again


@pytest.mark.parametrize("word", ["sampling.dtype=bfloat16", "optim.gradient_checkpointing=true"])
def test_they_are_of_the_local_backend(tiny, word):
    key = word.split("=")[0]
    with pytest.raises(UserError, match=f"{key}=.*backend=local; set it to"):
        tiny(BONUS, word, "backend=verl")
