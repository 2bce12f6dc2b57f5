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

pytest.importorskip("trl", reason="TRL is not installed: make setup installs it")
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
    """Keeps each rollout as it was drawn, with log pi by a plain pass, what each loss got, and
    what the controller returned."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        with torch.no_grad():
            logits = self.model(input_ids=ids).logits[
                :, -1 - batch["completion_mask"].shape[1] : -1
            ]
        logp = logits.log_softmax(-1).gather(-1, batch["completion_ids"][..., None])[..., 0]
        self.rollouts.append(batch | {"log_prob": logp})
        return batch

    def _observe(self, **seen):
        self.arguments.append(super()._observe(**seen))
        return self.arguments[-1]

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
    made.rollouts, made.losses, made.arguments = [], [], []
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
        return [
            tuple(map(str, row)) for row in zip(*(batch[x].tolist() for x in fields), strict=True)
        ]

    micro = 2 * updates
    got = made.losses[rollout * micro : (rollout + 1) * micro]
    assert sorted(row for batch in got for row in rows(batch)) == sorted(
        rows(made.rollouts[rollout])
    )


SHARED = dict(unbiased=True, epsilon=1e-6)
FUNCTIONS = {  # of the rewards (P, G) alone
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
            assert made.arguments[tick - 1] == pytest.approx(given, rel=1e-5)  # another pass's
            exact = fade(rewards[groups], correct=rewards[groups] == 1, **made.arguments[tick - 1])
            assert torch.equal(found[groups], exact)
        used(made, number, updates)
    assert tick == 4
    assert 0.3 < given["delta"] < 1 < given["alpha"]
    kept = made.state.stateful_callbacks[STATE]
    assert kept == {"step": 4, "controller": pytest.approx(state, rel=1e-5)}

    again = trainer(m, tmp_path, **size, max_steps=4)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.stateful_callbacks[STATE] == kept


def log_probs(made, batch):
    """log pi of each token and the entropy of its distribution, (B, T), by a plain pass."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    logp = made.model(input_ids=ids).logits[:, :-1].log_softmax(-1)
    return logp.gather(-1, ids[:, 1:, None])[..., 0], -(logp.exp() * logp).sum(-1)


def off_policy(made, T: int) -> dict:
    """A mini-batch of 8 responses whose old policy is another one, with padding."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.tensor([T, 1, 3, T, 2, T, 4, 5])
    ids = torch.randint(2, len(LETTERS), (8, T), generator=draw)
    batch = {"prompt_ids": ids[:, :1], "prompt_mask": torch.ones(8, 1).long()}
    batch |= {"completion_ids": ids, "advantages": torch.linspace(-1, 1, 8)}
    batch["completion_mask"] = (torch.arange(T) < lengths[:, None]).long()
    batch["num_items_in_batch"] = lengths.sum()
    with torch.no_grad():
        now = log_probs(made, batch)[0]
    for name in ("old", "ref"):
        batch[f"{name}_per_token_logps"] = now + 0.7 * torch.randn(8, T, generator=draw)
    return batch


LOSSES = [
    "f_grpo", "f_dapo", "f_cispo", "gspo_n", "ppo_dual_clip", "dr_grpo", "grpo_kl", "grpo_entropy",
]  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_with_its_keys_trls_loss_and_gradient_are_the_methods(name, tmp_path):
    m = method(name, max_tokens=T)
    network(bos_token_id=None, eos_token_id=1, pad_token_id=0).save_pretrained(tmp_path)
    made = trainer(m, tmp_path, model=str(tmp_path), gradient_accumulation_steps=1)
    made.model.train()
    made.current_gradient_accumulation_steps = 1
    batch, bound, gradients = off_policy(made, T), bind(m), []
    mask, old = batch["completion_mask"], batch["old_per_token_logps"]

    def theirs():
        return made._compute_loss(made.model, batch)

    def ours():
        logp, entropies = log_probs(made, batch)
        loss, clipped = bound.loss(logp, old, batch["advantages"][:, None], mask)
        assert (clipped & (mask > 0)).any()
        loss = loss + m.kl_coef * bound.kl(logp, batch["ref_per_token_logps"])
        return ((loss - m.entropy_coef * entropies) * mask * bound.aggregate(mask)).sum()

    for side in (theirs, ours):
        made.model.zero_grad()
        value = side()
        value.backward()
        flat = torch.cat([x.grad.flatten() for x in made.model.parameters()])
        gradients.append(torch.cat([value.detach()[None], flat]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_the_token_weights_compare_all_responses_of_the_step(tmp_path):
    made = trainer(method("cw_grpo"), tmp_path, max_steps=1)
    made.train()
    (rollout,) = made.rollouts
    A = grpo(counted(rollout), **SHARED).view(-1, 1)
    mask, logp = rollout["completion_mask"], rollout["log_prob"]
    weights = gaussian_kernel(logp, logp, A, mask, mean="token")
    assert weights[mask > 0].std() > 0.1
    found = rollout["advantages"] * mask
    torch.testing.assert_close(found, A * weights * mask, rtol=1e-4, atol=1e-5)
    used(made, 0, updates=1)


SUM = "normalize_then_sum"
REFUSED = {
    "batch_exploration", "cue_grpo", "cw_grpo_repository", "dapo_iac_dlc", "dlc", "ds_grpo",
    "ips_grpo", "reinforce_pp_verl", "rloo_verl", "uniqueness",
}  # fmt: skip


@pytest.mark.parametrize("name", method_names())
def test_what_trl_cannot_express_is_refused_by_name(name):
    m = method(name, max_tokens=T, steps=3)
    if name in REFUSED:
        with refuses("method", name):
            keys(m)
    else:
        GRPOConfig(**keys(m), use_cpu=True, bf16=False)


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("f_cispo", {}, "loss_type=dapo"),
        ("grpo_kl", {}, "beta=0.0"),
        ("gspo", {"loss_type": "grpo"}, "importance_sampling_level=token"),
        ("f_grpo", {"multi_objective_aggregation": SUM}, f"multi_objective_aggregation={SUM}"),
        ("fade", {"num_iterations": 2}, "num_iterations=2"),
        ("cw_grpo", {"loss_type": "grpo", "steps_per_generation": 4}, "steps_per_generation=4"),
    ],
)
def test_arguments_that_train_another_method_are_refused(name, arguments, key, tmp_path):
    with refuses(*key.split("=")):
        trainer(method(name), tmp_path, args=arguments)


def test_no_reward_is_not_a_wrong_answer(tmp_path):
    made = trainer(
        method("f_grpo"), tmp_path, rewards=lambda completions, **_: [None] * len(completions)
    )
    with refuses("reward_funcs"):
        made.train()


def test_a_checkpoint_without_the_controllers_state_is_refused(tmp_path):
    trainer(method("f_grpo"), tmp_path, max_steps=2).train()
    with refuses("resume_from_checkpoint"):
        trainer(method("fade"), tmp_path).train(resume_from_checkpoint=True)
