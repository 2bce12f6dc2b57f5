from functools import partial

import compositions
import pytest
from tiny import ROOT

from common.claims import file
from common.config.resolve import resolve
from common.config.rows import rows
from common.experiment import load
from common.methods.binding import bind, largest_weight

experiment = partial(compositions.experiment, paper="study")


@pytest.mark.sweep
def test_experiments_are_what_their_labels_say():
    for name, delta in (("03", 0.3), ("05", 0.5), ("07", 0.7), ("15", 1.5), ("2", 2)):
        x = experiment(f"asym_{name}")
        assert (x.label, x.method.advantage["delta"]) == (f"AsymGRPO (delta={delta:g})", delta)
    for name, alpha in (("power", 2), ("power_3", 3)):
        advantage = experiment(name).method.advantage
        assert (advantage["alpha"], advantage["normalise"]) == (alpha, False)
    names = [name for name in rows("study") if name.startswith("fade")]
    controllers = {name: experiment(name).method.controller for name in names}
    plain = controllers["fade"]
    assert plain == controllers["fade_equalised"] == controllers["fade_plain"]
    changed = {
        "fade_printed_ema": {"ema": "printed"},
        "fade_delta_only": {"adapt": "delta"},
        "fade_entropy": {"adapt": "entropy"},
        "fade_high_target": {"target_fraction": 1.0},
    }
    assert {*names} == {*changed, "fade", "fade_equalised", "fade_plain", "fade_log_schedule"}
    for name, change in changed.items():
        assert controllers[name] == {**plain, **change}
        assert all(plain[key] != value for key, value in change.items())
    assert controllers["fade_log_schedule"]["steps"] == experiment("fade").optim.steps
    assert experiment("asym_norm").method.advantage["delta"] == 0.01


@pytest.mark.parametrize(
    ("name", "share"),
    # max |A| by hand at G = 8 over GRPO's (7/8) / sqrt(7/64 * 8/7) = 7 / sqrt(8): Power 2
    # (7/8)^2, delta = 0.5 doubles the failures of 7 right: 2 * 7/8
    [("power", 49 / 64), ("asym_05", 14 / 8)],
)
def test_equalised_runs_have_grpos_largest_weight(name, share):
    x, plain = experiment(f"{name}_equalised"), experiment(name)
    assert x.method == plain.method
    assert plain.optim.equalise_to is None
    reference = bind(experiment("grpo").method)
    assert resolve(x.optim.equalise_to, "optim.equalise_to").func is reference.advantage.func
    assert largest_weight(bind(x.method), 8, x.reward, {}) == pytest.approx(share)
    assert largest_weight(reference, 8, x.reward, {}) == pytest.approx(7 / 8**0.5, rel=1e-4)


@pytest.mark.sweep
def test_fig_14s_claim_has_the_ratios_of_its_rows():
    claims = {claim.id: claim for claim in file.load(ROOT / "papers" / "fade" / "claims.yaml")}
    trend = claims["scale_entropy"].cluster
    rows = {x.label: x for x in compositions.runs("fade", "cluster_fig14")}
    mean = load(["experiment=cluster/qwen7b_grpo"], "fade")
    weights = [
        largest_weight(bind(x.method), x.sampling.group_size, x.reward, {})
        for x in (mean, *(rows[one["method"]] for one in trend.of))
    ]
    assert len(rows) == len(trend.of)
    assert trend.at == pytest.approx([w / weights[0] for w in weights[1:]], abs=5e-4)


@pytest.mark.parametrize(
    ("name", "times"),
    # max |A| of mean GRPO at G = 16 is 15/16, of GRPO with the deviation sqrt(15), at delta = 0.5
    # 2 * 15/16, of Power alpha = 2 (15/16)^2
    [("grpo", 1), ("grpo_std", 15**0.5 / 16), ("asym_05", 0.5), ("power_2", 16 / 15)],
)
def test_cluster_rows_have_mean_grpos_eta_times_largest_weight(name, times):
    verl = pytest.importorskip("common.backends.verl.config")
    row = f"experiment=cluster/qwen7b_{name}"
    assert verl.learning_rate(load([row], "fade")) == pytest.approx(1e-7 * times, rel=1e-4)
    other = "{_target_:common.advantages.group.grpo,unbiased:false,epsilon:1e-6}"
    x = load([row, f"+optim.equalise_to={other}"], "fade")
    factor = 15**0.5 / (15 / 16)
    assert verl.learning_rate(x) == pytest.approx(1e-7 * times * factor, rel=1e-4)
