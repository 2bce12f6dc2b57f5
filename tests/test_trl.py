"""Methods in TRL's GRPOTrainer: three steps of a random model on the CPU."""

from dataclasses import replace

import pytest
import torch
from refuses import refuses
from tiny import network

from common import controllers
from common.advantages.difficulty import iac
from common.advantages.group import focal, grpo
from common.advantages.sign import fade
from common.losses.covariance import gaussian_kernel
from common.methods.binding import bind
from rlvr_papers import method, method_names

pytest.importorskip("trl")
from trl import GRPOConfig

from rlvr_papers.trl import STATE, MethodTrainer, keys

pytestmark = pytest.mark.trains
G, T = 4, 6  # responses of a prompt, tokens of a response
LETTERS = ["<pad>", "<end>", *"abcdefghijklmnopqrstu"]


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({x: i for i, x in enumerate(LETTERS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")


def right(ids) -> float:
    """One in three random responses, counted from its tokens."""
    return float(sum(x for x in ids if x > 1) % 3 == 0)


def reward(completion_ids, **_):
    return [right(ids) for ids in completion_ids]


class Recorded(MethodTrainer):
    """Keeps each rollout as it was drawn, with log pi by a plain pass, and what each loss got."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        with torch.no_grad():
            logits = self.model(input_ids=ids).logits[:, -1 - batch["completion_mask"].shape[1] : -1]
        logp = logits.log_softmax(-1).gather(-1, batch["completion_ids"][..., None])[..., 0]
        self.rollouts.append(batch | {"log_prob": logp})
        return batch

    def _compute_loss(self, model, inputs):
        self.losses.append(inputs)
        return super()._compute_loss(model, inputs)


def trainer(m, folder, *, kind=Recorded, rewards=reward, model=None, **more):
    from datasets import Dataset

    chosen = dict(
        output_dir=str(folder), num_generations=G, max_completion_length=T, max_steps=3, seed=3,
        per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=1e-2,
        use_cpu=True, disable_tqdm=True, bf16=False, report_to=[], save_steps=2, logging_steps=1,
    )  # fmt: skip
    chosen |= more.pop("args", keys(m))
    made = kind(
        model or network(bos_token_id=None, eos_token_id=1, pad_token_id=0),
        reward_funcs=rewards,
        args=GRPOConfig(**chosen | more),
        train_dataset=Dataset.from_list([{"prompt": x} for x in LETTERS[2:]]),
        processing_class=tokenizer(),
        method=m,
    )
    made.rollouts, made.losses = [], []
    return made


def counted(rollout) -> torch.Tensor:
    """The rewards (P, G), counted again from tokens of groups that share a prompt."""
    prompts = rollout["prompt_ids"].view(-1, G, rollout["prompt_ids"].shape[1])
    assert (prompts == prompts[:, :1]).all()
    return torch.tensor([right(ids) for ids in rollout["completion_ids"].tolist()]).view(-1, G)


def used(made, rollout: int, updates: int) -> None:
    """The losses of a rollout got its rows, in another order, with the advantages unchanged."""

    def rows(batch):
        fields = ("prompt_ids", "completion_ids", "advantages")
        return [tuple(map(str, row)) for row in zip(*(batch[x].tolist() for x in fields), strict=True)]

    micro = 2 * updates
    got = made.losses[rollout * micro : (rollout + 1) * micro]
    assert sorted(row for batch in got for row in rows(batch)) == sorted(rows(made.rollouts[rollout]))


SHARED = dict(unbiased=True, epsilon=1e-6)
FUNCTIONS = {
    "f_grpo": lambda r: focal(r, gamma=0.5, correct=r == 1, **SHARED),
    "iac": lambda r: iac(r, alpha=1.0, **SHARED),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_losses_get_the_methods_advantages_bit_for_bit(name, tmp_path):
    made = trainer(method(name), tmp_path)
    before = [x.clone() for x in made.model.parameters()]
    made.train()
    assert len(made.rollouts) == 3
    for number, rollout in enumerate(made.rollouts):
        expected = FUNCTIONS[name](counted(rollout)).flatten()
        assert torch.equal(rollout["advantages"], expected)
        assert expected.any()
        used(made, number, updates=1)
    assert any((a != b).any() for a, b in zip(before, made.model.parameters(), strict=True))
    assert list(made._logs["advantages"])[-16:] == expected.tolist()


def entropy(rollout, rows) -> float:
    mask = rollout["completion_mask"][rows]
    return -((rollout["log_prob"][rows] * mask).sum(1) / mask.sum(1)).mean().item()


@pytest.mark.parametrize("updates", [1, 2])
def test_fade_steps_its_clock_and_resumes(updates, tmp_path):
    m = method("fade")
    m = replace(m, controller=m.controller | {"target_entropy": 2.5})  # so that delta moves
    size = dict(generation_batch_size=16 * updates, save_steps=2)
    made = trainer(m, tmp_path, **size, max_steps=4)
    made.train()
    state, tick, own = {}, 0, {k: v for k, v in m.controller.items() if k != "_target_"}
    for number, rollout in enumerate(made.rollouts):
        rewards, found = counted(rollout), rollout["advantages"].view(-1, G)
        for groups in torch.arange(len(rewards)).tensor_split(updates):
            tick += 1
            rows = (groups[:, None] * G + torch.arange(G)).flatten()
            seen = dict(solve_rate=rewards[groups].mean().item(), entropy=entropy(rollout, rows))
            state, given = controllers.fade(state, **seen, step=tick, **own)
            expected = fade(rewards[groups], correct=rewards[groups] == 1, **given)
            torch.testing.assert_close(found[groups], expected, rtol=1e-5, atol=1e-6)
        used(made, number, updates)
    assert tick == 4
    assert 0.3 < given["delta"] < 1 < given["alpha"]
    kept = made.state.stateful_callbacks[STATE]
    assert kept == {"step": 4, "state": pytest.approx(state, rel=1e-5)}

    again = trainer(m, tmp_path, **size, max_steps=4)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.stateful_callbacks[STATE] == kept
