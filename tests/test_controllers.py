import math

import pytest
from refuses import refuses

from common.controllers import fade, ha_dw_anchor, log_schedule

FADE = dict(
    alpha_max=3.0, ema="smoothing", beta=0.02, target_entropy=None, target_fraction=0.5,
    adapt="both",
)  # fmt: skip


def test_fade_by_hand():
    # p_hat = 0.98 * 0.5 + 0.02 * 1 = 0.51: alpha = 1.5 * 0.49 / 0.51. H_hat = H_0 = 2, H* = 1:
    # 1 + 2 - 1 = 2, cut to 1.
    state, given = fade({}, solve_rate=1.0, entropy=2.0, step=1, **FADE)
    assert state == pytest.approx({"p_hat": 0.51, "H_hat": 2.0, "H_0": 2.0})
    assert given == pytest.approx({"alpha": 1.5 * 0.49 / 0.51, "delta": 1.0})
    # From p_hat 0.2, H_hat 0.5: p_hat = 0.98 * 0.2 = 0.196, 1.5 * 0.804 / 0.196 = 6.15, cut to 3;
    # H_hat = 0.98 * 0.5 + 0.02 * 0.3 = 0.496, delta = 1 + 0.496 - 1.
    state = {"p_hat": 0.2, "H_hat": 0.5, "H_0": 2.0}
    new, given = fade(state, solve_rate=0.0, entropy=0.3, step=2, **FADE)
    assert new == pytest.approx({"p_hat": 0.196, "H_hat": 0.496, "H_0": 2.0})
    assert given == pytest.approx({"alpha": 3.0, "delta": 0.496})
    assert state["p_hat"] == 0.2  # not changed in place
    # An absolute target of 1.5: 1 + 0.496 - 1.5 = -0.004, cut to 0.3. Easy: alpha cut to 1.
    state = {"p_hat": 0.9, "H_hat": 0.5, "H_0": 2.0}
    options = {**FADE, "target_entropy": 1.5}
    _, given = fade(state, solve_rate=0.9, entropy=0.3, step=2, **options)
    assert given == {"alpha": 1.0, "delta": 0.3}


def test_fade_as_printed_keeps_two_percent_of_the_past():
    options = {**FADE, "ema": "printed"}
    state = {"p_hat": 0.5, "H_hat": 1.0, "H_0": 1.0}
    state, _ = fade(state, solve_rate=0.2, entropy=0.6, step=2, **options)
    assert state["p_hat"] == pytest.approx(0.02 * 0.5 + 0.98 * 0.2)
    assert state["H_hat"] == pytest.approx(0.02 * 1.0 + 0.98 * 0.6)
    # nothing solved gives the largest alpha
    _, given = fade({}, solve_rate=0.0, entropy=1.0, step=1, **{**options, "beta": 0.0})
    assert given["alpha"] == 3.0


def test_the_ablations_of_fade():
    state = {"p_hat": 0.4, "H_hat": 0.4, "H_0": 1.0}  # H* = 0.5: delta = 0.9
    seen = dict(solve_rate=0.4, entropy=0.4, step=5)
    alpha = 1.5 * 0.6 / 0.4
    expected = {
        "both": (alpha, 0.9),
        "alpha": (alpha, 1.0),
        "delta": (1.0, 0.9),
        "entropy": (1 + 2 * 0.6 / 0.7, 0.9),
    }
    for adapt, (alpha, delta) in expected.items():
        new, given = fade(state, **seen, **{**FADE, "adapt": adapt})
        assert given == pytest.approx({"alpha": alpha, "delta": delta}), adapt
        assert new == pytest.approx(state)


def test_log_schedule_by_hand():
    options = dict(
        steps=100, alpha_0=2.0, alpha_min=1.0, tau_alpha=10.0, delta_0=1.0, delta_min=0.8,
        tau_delta=50.0,
    )  # fmt: skip
    seen = dict(solve_rate=0.1, entropy=0.1)
    _, given = log_schedule({}, step=100, **seen, **options)
    assert given == pytest.approx({"alpha": 1.0, "delta": 0.8})
    # t = 10, tau = 10: log 2 / log 11; tau = 50: log 1.2 / log 3.
    state, given = log_schedule({}, step=10, **seen, **options)
    alpha, delta = 2 - math.log(2) / math.log(11), 1 - 0.2 * math.log(1.2) / math.log(3)
    assert given == pytest.approx({"alpha": alpha, "delta": delta})
    assert state == {}


def test_ha_dw_anchor_by_hand():
    options = dict(entropy=1.0, step=1, eta=0.5, window=2)
    state, given = ha_dw_anchor({}, solve_rate=0.4, **options)
    assert (state, given) == ({"anchors": [0.4]}, {"anchor": 0.4})
    # One anchor: eta_t = eta. 0.4 + 0.5 (0.8 - 0.4) = 0.6.
    state, given = ha_dw_anchor(state, solve_rate=0.8, **options)
    assert given["anchor"] == pytest.approx(0.6)
    # std of 0.4, 0.6 is 0.1: 0.6 + 0.5 * 0.1 * (1 - 0.6) = 0.62; the window keeps two.
    state, given = ha_dw_anchor(state, solve_rate=1.0, **options)
    assert given["anchor"] == pytest.approx(0.62)
    assert state["anchors"] == pytest.approx([0.6, 0.62])


@pytest.mark.parametrize(("key", "value"), [("ema", "exact"), ("adapt", "none"), ("beta", 1.5)])
def test_bad_values_are_refused(key, value):
    with refuses(f"method.controller.{key}", value):
        fade({}, solve_rate=0.5, entropy=1.0, step=1, **{**FADE, key: value})


def test_a_window_of_one_is_refused():
    with refuses("method.controller.window", 1):
        ha_dw_anchor({}, solve_rate=0.5, entropy=1.0, step=1, eta=0.1, window=1)
