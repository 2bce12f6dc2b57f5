"""Two steps of the local backend on the GPU and on the CPU: the same responses and curves."""


import fakecuda
import pytest
import torch
from local_loop import make_loop

from common.backends import local

pytestmark = pytest.mark.trains

MADE_UP = ["data.verifier={_target_: local_loop.made_up}"]
# One for each kind of sampler, loss input, controller and option.
CASES = {
    "grpo": [],
    "bf16 sampling": ["sampling.dtype=bfloat16"],
    "lag": ["sampling.lag=1"],
    "memory network": ["method=dlc", "method.sampler.importance_cap=2"],
    "memory of what is evicted": ["method=dapo_iac_dlc", "sampling.dynamic_batches=3"],
    "memory, a copy, in bf16": [
        "method=dlc",
        "method.sampler.start=policy",
        "sampling.dtype=bfloat16",
    ],
    "entropy bonus": ["method=grpo_entropy", "method.entropy_coef=0.01"],
    "KL in the loss": ["method=grpo_kl", "method.kl_coef=0.1"],
    # Not GRPO's, which scales what differs in a group, here by rounding alone, to 1.
    "KL in the reward": ["method=rloo", "method.kl_coef=0.1", "method.kl_in_reward=true"],
    "likeliest tokens": ["method=simko"],
    "token weights": ["method=cw_grpo"],
    # All candidates and one token: of fewer and more the choice hangs on the last bit.
    "token weights, drawn": [
        "method=clip_cov",
        "method.token_weights.ratio=1",
        "method.token_weights.omega_low=0.1",
    ],
    "token weights, highest": ["method=kl_cov"],
    "sequence ratio": ["method=gspo"],
    "rehearsal": ["method=dph_f", "method.rehearsal.at_least=1", "method.rehearsal.share=0.5"],
    "controller, a schedule": ["method=fade_log_schedule"],
    "controller, by updates": ["method=fade"],
    "controller, by solve rate": ["method=ha_dw"],
    "lengths": ["method=dapo_overlong", "method.advantage.buffer=0.5"],
    "lengths of a batch": ["method=reinforce_pp_baseline"],
    "log-probabilities": ["method=unlikeliness"],
    "group size 1": ["method=reinforce", "sampling.group_size=1", "sampling.prompts=32"],
    "dynamic batches": ["sampling.dynamic_batches=3"],
    "checkpointing": ["optim.gradient_checkpointing=true"],
    "covariances": ["covariances=true"],
    "equalised rate": [
        "method=f_grpo",
        "optim.equalise_to={_target_: common.advantages.group.grpo, unbiased: true, epsilon: 1e-6}",
    ],
    "temperature": ["sampling.temperature=0.7"],
}
STEPS = 2


@pytest.fixture
def trained(tiny, tmp_path, monkeypatch):
    """trained(device, *words) -> (rows of the curve, drawn responses, weights, synchronisations of
    each step)."""

    def run(device: str, *words: str):
        x = tiny(f"device={device}", *MADE_UP, *words)
        folder = tmp_path / device
        folder.mkdir(exist_ok=True)
        loop, drawn = make_loop(x, folder), []
        draw = loop.sampler.draw

        def noted(*given):
            batch, gap = draw(*given)
            drawn.append(batch)
            return batch, gap

        monkeypatch.setattr(loop.sampler, "draw", noted)
        rows, waits = [], []
        for step in range(1, STEPS + 1):
            if device == "cuda":
                fakecuda.synchronisations()
            rows.append(loop.one_step(step))
            waits.append(fakecuda.synchronisations() if device == "cuda" else None)
        assert loop.model.device.type == device
        return rows, drawn, loop.model.state_dict(), waits

    return run


@pytest.mark.parametrize("case", CASES)
def test_curves_are_the_cpus(case, trained, pretended):
    here, drawn_here, weights_here, _ = trained("cpu", *CASES[case])
    there, drawn_there, weights_there, _ = trained("cuda", *CASES[case])
    for ours, theirs in zip(drawn_here, drawn_there, strict=True):
        assert torch.equal(ours.response_ids, theirs.response_ids.cpu())
    for ours, theirs in zip(here, there, strict=True):
        assert ours.keys() == theirs.keys()
        assert theirs == pytest.approx(ours, rel=1e-5, abs=1e-5, nan_ok=True)
    for name, ours in weights_here.items():
        torch.testing.assert_close(weights_there[name].cpu(), ours, rtol=1e-4, atol=1e-5)
