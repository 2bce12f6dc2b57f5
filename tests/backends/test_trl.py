"""Our methods inside TRL's GRPOTrainer: the same loss, gradient and step as TRL's own where the
method is the same, and every intended difference."""

import json
import math
import threading
from dataclasses import replace
from typing import get_args

import pytest
import torch
from refuses import refuses

pytest.importorskip("trl", reason="trl is not installed: pip install -e .[bench]")

from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from common.backends.trl_trainer import MethodTrainer
from common.config.compose import compose
from common.config.schema import Method
from common.config.strict import strict
from common.errors import UserError
from common.models import pretrain
from common.types import Outcome
from rlvr_papers import trl_reward

pytestmark = pytest.mark.trains
G, PROMPTS, TOKENS = 4, 4, 6
# TRL's own loss_type -> the method that it is, and what of GRPOConfig says the same
SAME = {
    "grpo": (
        [
            "method=grpo",
            "method.advantage.epsilon=1e-4",  # TRL's; verl's is 1e-6
            "method.aggregation._target_=common.losses.aggregate.sequence_mean_token_mean",
        ],
        dict(loss_type="grpo"),
    ),
    "dr_grpo": (["method=dr_grpo"], dict(loss_type="dr_grpo", scale_rewards="none")),
    "dapo": (
        ["method=dapo", "method.advantage.epsilon=1e-4"],
        dict(loss_type="dapo", epsilon_high=0.28),
    ),
    # TRL's epsilon_high is the bound itself, ours is added to 1; TRL has no lower bound, which is
    # eps_low = 1.
    "cispo": (
        ["method=cispo", "method.advantage.epsilon=1e-4", "method.loss.eps_high=0.5"],
        dict(loss_type="cispo", epsilon_high=1.5),
    ),
}


def method(*overrides):
    return compose("f_grpo", [*overrides, f"sampling.max_tokens={TOKENS}"]).method


def reward(completion_ids, **kwargs):
    """Half of the responses are right, by nothing in particular."""
    return [float(sum(ids) % 2) for ids in completion_ids]


def made_up_model():
    torch.manual_seed(0)
    tokenizer = pretrain.tokenizer()
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            initializer_range=0.5,
        )
    )


@pytest.fixture
def trainer(tmp_path):
    """trainer(class, config, **more) on a tiny random model, the same at every call."""

    def make(cls, config, **more):
        folder = tmp_path / "model"
        if not folder.exists():
            made_up_model().save_pretrained(folder)
        tokenizer = pretrain.tokenizer()
        model = Qwen2ForCausalLM.from_pretrained(folder)
        settings = dict(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=G * PROMPTS,
            num_generations=G,
            max_completion_length=TOKENS,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        return cls(
            model,
            reward,
            GRPOConfig(**(settings | config)),
            Dataset.from_list([{"prompt": f"{n} + {n + 1} ="} for n in range(1, 9)]),
            processing_class=tokenizer,
            **more,
        )

    return make


def made_up_batch(seed: int, vocabulary: int) -> dict:
    """What a rollout hands to the loss, with ragged lengths and an older policy."""
    torch.manual_seed(seed)
    B = G * PROMPTS
    mask = (torch.arange(TOKENS) < torch.randint(1, TOKENS + 1, (B, 1))).long()
    return dict(
        prompt_ids=torch.randint(2, vocabulary, (B, 3)),
        prompt_mask=torch.ones(B, 3, dtype=torch.long),
        completion_ids=torch.randint(2, vocabulary, (B, TOKENS)),
        completion_mask=mask,
        advantages=torch.randn(B),
        num_items_in_batch=mask.sum(),
    )


def loss_and_gradient(trainer, batch: dict, shift: float):
    """The trainer's loss on `batch`, sampled by a policy `shift` away from the model."""
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.model.train()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        log_prob = trainer._get_per_token_logps_and_entropies(model, ids, attention, TOKENS)[0]
    torch.manual_seed(99)
    batch = batch | dict(old_per_token_logps=log_prob + shift * torch.randn_like(log_prob))
    if isinstance(trainer, MethodTrainer):
        trainer.weigh_mini_batch([batch])
    loss = trainer._compute_loss(model, batch)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), torch.cat([gradient.flatten() for gradient in gradients])


def test_a_method_may_be_a_name_or_a_file(trainer, tmp_path):
    named = trainer(MethodTrainer, {}, method="dr_grpo").method
    composed = strict(Method, method("method=dr_grpo"))
    assert named == composed
    (tmp_path / "half.yaml").write_text("defaults: [fade, _self_]\nname: half\nkl_coef: 0.5\n")
    one = trainer(MethodTrainer, {"beta": 0.5}, method=str(tmp_path / "half.yaml")).method
    assert (one.name, one.kl_coef) == ("half", 0.5)
    assert one.controller == strict(Method, method("method=fade")).controller
    with refuses("method", "f_gpro"):
        trainer(MethodTrainer, {}, method="f_gpro")


@pytest.mark.parametrize("name", SAME)
def test_loss_and_gradient_are_those_of_trl(trainer, name):
    overrides, config = SAME[name]
    ours = trainer(MethodTrainer, {}, method=method(*overrides))
    theirs = trainer(GRPOTrainer, config)
    for seed in range(3):
        batch = made_up_batch(seed, ours.model.config.vocab_size)
        loss, gradient = loss_and_gradient(ours, batch, shift=0.4)
        peer, peer_gradient = loss_and_gradient(theirs, batch, shift=0.4)
        assert abs(peer) > 1e-3
        assert loss == pytest.approx(peer, rel=1e-5)
        torch.testing.assert_close(gradient, peer_gradient, rtol=1e-4, atol=1e-6)
        clipped = ours._metrics["train"]["clip_ratio/region_mean"][-1]
        assert clipped > 0.05  # else the clip was not compared
        logged = theirs._metrics["train"]
        if name == "cispo":  # TRL counts good tokens only, although bad ones are bounded too
            assert clipped > logged["cispo_clip_ratio"][-1]
        else:
            assert clipped == pytest.approx(logged["clip_ratio/region_mean"][-1], abs=1e-6)


def test_a_loss_of_the_likeliest_tokens_is_the_pure_function(trainer):
    """SimKO on TRL's batch, against full distributions of the model."""
    words = ["method=simko", "method.loss.alpha=0.3", "method.loss.lambda_top1=1.5"]
    ours = trainer(MethodTrainer, {"temperature": 0.7}, method=method(*words))
    plain = trainer(MethodTrainer, {"temperature": 0.7}, method=method("method=grpo"))
    batch = made_up_batch(0, ours.model.config.vocab_size)
    loss, gradient = loss_and_gradient(ours, batch, shift=0.1)
    model, mask = ours.model, batch["completion_mask"].float()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    log_p = model(input_ids=ids, attention_mask=attention).logits[:, 2:-1] / 0.7
    log_p = torch.log_softmax(log_p, -1)
    log_prob = log_p.gather(-1, batch["completion_ids"][..., None])[..., 0]
    torch.manual_seed(99)
    old = log_prob.detach() + 0.1 * torch.randn_like(log_prob)
    values, _ = ours.bound.loss(
        log_prob,
        old,
        batch["advantages"][:, None],
        mask,
        entropy=-(log_p.exp() * log_p).sum(-1).detach(),
        top_log_prob=log_p.topk(3).values,
        drawn_top=log_p.argmax(-1) == batch["completion_ids"],
    )
    expected = (values * mask).sum() / mask.sum()
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    theirs = torch.autograd.grad(expected, list(model.parameters()))
    theirs = torch.cat([one.flatten() for one in theirs])
    torch.testing.assert_close(gradient, theirs, rtol=1e-4, atol=1e-6)
    _, without = loss_and_gradient(plain, batch, shift=0.1)
    assert (gradient - without).abs().max() > 1e-3


def test_cispo_of_trl_has_no_lower_bound(trainer):
    """With eps_low = 0.2 ours raises small weights to 0.8; F-GRPO's eps_low = 1 bounds nothing."""
    overrides, config = SAME["cispo"]
    theirs = trainer(GRPOTrainer, config)
    bounded = trainer(MethodTrainer, {}, method=method(*overrides, "method.loss.eps_low=0.2"))
    batch = made_up_batch(0, theirs.model.config.vocab_size)
    peer, _ = loss_and_gradient(theirs, batch, shift=0.4)
    loss, _ = loss_and_gradient(bounded, batch, shift=0.4)
    assert abs(loss - peer) > 1e-3
    peer, _ = loss_and_gradient(theirs, batch, shift=0.01)  # no weight near 0.8: no difference
    loss, _ = loss_and_gradient(bounded, batch, shift=0.01)
    assert loss == pytest.approx(peer, rel=1e-5)


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", SAME)
def test_a_training_step_is_that_of_trl(trainer, name, accumulation):
    """The whole step with the same samples: rewards, advantages, loss, gradient, update."""
    overrides, config = SAME[name]
    size = dict(
        per_device_train_batch_size=G * PROMPTS // accumulation,
        gradient_accumulation_steps=accumulation,
    )
    weights = []
    for cls, settings, more in (
        (MethodTrainer, size, dict(method=method(*overrides))),
        (GRPOTrainer, config | size, {}),
    ):
        one = trainer(cls, settings | dict(optim="sgd", learning_rate=1.0), **more)
        before = flat(one.model)
        torch.manual_seed(5)  # the samples
        one.train()
        weights.append(flat(one.model))
        assert (weights[-1] - before).abs().max() > 1e-2
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def flat(model) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def grad_norms(one) -> list[float]:
    return [row["grad_norm"] for row in one.state.log_history if "grad_norm" in row]


@pytest.mark.parametrize(
    "name", ["grpo", "cw_grpo", "kl_cov", "a3po", "simko", "reinforce_pp_baseline"]
)
def test_accumulation_changes_memory_not_gradients(trainer, name):
    norms = []
    for accumulation in (1, 4):
        size = dict(
            per_device_train_batch_size=G * PROMPTS // accumulation,
            gradient_accumulation_steps=accumulation,
            logging_steps=1,
        )
        one = trainer(MethodTrainer, size, method=method(f"method={name}"))
        torch.manual_seed(5)
        one.train()
        norms.append(grad_norms(one)[0])
    assert norms[0] > 1e-3
    assert norms == pytest.approx([norms[0]] * 2, rel=1e-4)


def test_kl_and_entropy_terms_are_in_the_loss(trainer):
    """Against the mean entropy and TRL's own KL: k3 with the same weights, once its correction of
    the KL by the token's ratio is off, which no method here has."""
    overrides, config = SAME["dapo"]
    batch = made_up_batch(0, len(pretrain.tokenizer()))
    plain = trainer(MethodTrainer, {}, method=method(*overrides))
    entropy = trainer(MethodTrainer, {}, method=method(*overrides, "method.entropy_coef=0.1"))
    base, _ = loss_and_gradient(plain, batch, 0.4)
    more, _ = loss_and_gradient(entropy, batch, 0.4)
    assert more == pytest.approx(base - 0.1 * entropy._metrics["train"]["entropy"][-1], rel=1e-4)
    beta = dict(beta=0.3)
    batch["ref_per_token_logps"] = -3 * torch.rand(G * PROMPTS, TOKENS)
    ours = trainer(MethodTrainer, beta, method=method(*overrides, "method.kl_coef=0.3"))
    theirs = trainer(GRPOTrainer, config | beta | dict(use_bias_correction_kl=False))
    loss, gradient = loss_and_gradient(ours, batch, 0.4)
    peer, peer_gradient = loss_and_gradient(theirs, batch, 0.4)
    assert loss == pytest.approx(peer, rel=1e-5)
    assert abs(loss - base) > 1e-2
    torch.testing.assert_close(gradient, peer_gradient, rtol=1e-4, atol=1e-6)


def test_a_controller_s_state_goes_with_the_checkpoint(trainer, tmp_path):
    config = dict(max_steps=3, save_strategy="steps", save_steps=1, logging_steps=1)
    fade = method("method=fade")
    whole = trainer(MethodTrainer, config, method=fade)
    whole.train()
    states = [
        json.loads((tmp_path / f"checkpoint-{step}" / "controller.json").read_text())
        for step in (1, 2, 3)
    ]
    assert states[0] != states[1] != states[2]
    assert whole.controller_state == states[2]
    assert all(math.isfinite(value) for value in states[2].values())
    resumed = trainer(MethodTrainer, config, method=fade)
    seen = watch(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert seen["state"] == states[1]
    assert seen["step"] == 3


def watch(one) -> dict:
    """What the controller of a trainer is called with and returns, of its last call."""
    seen, controller = {}, one.bound.controller

    def spy(state, **observed):
        new, arguments = controller(state, **observed)
        seen.update(observed, state=state, arguments=arguments)
        return new, arguments

    one.bound = replace(one.bound, controller=spy)
    return seen


def test_a_controller_reaches_the_advantage(trainer):
    """FADE's controller sees solve rate and entropy of the rollout; its arguments arrive."""
    one = trainer(MethodTrainer, {}, method=method("method=fade"))
    seen = watch(one)
    advantage = one.bound.advantage

    def note(rewards, *, correct, **arguments):  # by its name: the trainer gives what is asked for
        seen.update(rewards=rewards, given=arguments)
        return advantage(rewards, correct=correct, **arguments)

    one.bound = replace(one.bound, advantage=note)
    one.train()
    assert seen["solve_rate"] == pytest.approx(seen["rewards"].mean().item())
    assert seen["rewards"].shape == (PROMPTS, G)
    assert 0 < seen["entropy"] < 2 * math.log(one.model.config.vocab_size)
    assert seen["step"] == 1
    assert seen["given"] == seen["arguments"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (dict(epsilon_high=0.3), r"epsilon_high=0\.3: the method decides this"),
        (dict(loss_type="grpo"), "loss_type=grpo: the method decides this"),
        (dict(scale_rewards="batch"), "scale_rewards=batch: the method decides this"),
        (dict(beta=0.1), r"beta=0\.1: must equal method\.kl_coef=0\.0"),
    ],
)
def test_what_contradicts_the_method_is_refused(trainer, config, message):
    with pytest.raises(UserError, match=message):
        trainer(MethodTrainer, config, method=method("method=grpo"))


def test_a_method_that_rehearses_is_refused(trainer):
    with pytest.raises(
        UserError, match=r"method\.rehearsal=dph_f: TRL has no rehearsal set .* use"
    ):
        trainer(MethodTrainer, {}, method=method("method=dph_f"))


def test_an_optimiser_step_of_several_rollouts_is_refused(trainer):
    config = dict(per_device_train_batch_size=8, gradient_accumulation_steps=2)
    one = trainer(
        MethodTrainer, config | dict(steps_per_generation=1), method=method("method=grpo")
    )
    with refuses("gradient_accumulation_steps", "2"):
        one.train()


@pytest.mark.process
def test_our_verifier_is_the_reward_of_trls_own_trainer(tmp_path):
    """Off the main thread, where a verifier with a signal's time limit cannot run."""
    right = trl_reward("common.verifiers.countdown.verify", reference="gold", workers=1)
    gold = "1 2 3 4 = 10"
    settings = dict(output_dir=str(tmp_path), max_steps=1, num_generations=G, use_cpu=True)
    settings |= dict(per_device_train_batch_size=G, max_completion_length=TOKENS, bf16=False)
    settings |= dict(save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1)
    one = GRPOTrainer(
        made_up_model(),
        right,
        GRPOConfig(**settings),
        Dataset.from_list([{"prompt": "1 2 3 4 = 10", "gold": gold}] * 4),
        processing_class=pretrain.tokenizer(),
    )
    thread = threading.Thread(target=one.train)
    thread.start()
    thread.join()
    logged = {key: value for row in one.state.log_history for key, value in row.items()}
    found = [logged[f"outcome/{name}"] for name in get_args(Outcome)]
    assert sum(found) == pytest.approx(1)
    assert len(right.verdicts) == G
    assert logged["rewards/countdown/mean"] == pytest.approx(logged["outcome/correct"])
