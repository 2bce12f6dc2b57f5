from functools import partial

import compositions
import pytest

from common.methods.binding import bind, largest_weight

pytestmark = pytest.mark.sweep

CLUSTER = compositions.cluster("over_sharpening")

# ---- experiments


experiment = partial(compositions.experiment, paper="over_sharpening")


@pytest.mark.parametrize(
    ("name", "alpha"), [("iac", 1), ("iac_alpha05", 0.5), ("iac_alpha15", 1.5), ("iac_alpha2", 2)]
)
def test_the_largest_weight_of_iac_is_grpos_times_seven_to_the_alpha(name, alpha):
    x, grpo = (compositions.experiment(one, "study") for one in (name, "grpo"))
    sizes = [largest_weight(bind(one.method), 8, one.reward, {}) for one in (x, grpo)]
    assert sizes[0] / sizes[1] == pytest.approx(7**alpha)


def test_the_equalised_row_is_iac_at_a_rate_that_gives_grpos_largest_weight():
    from common.config.resolve import resolve

    x, plain, grpo = (
        compositions.experiment(name, "study") for name in ("iac_equalised", "iac", "grpo")
    )
    assert (x.method, x.optim.mini_batches) == (plain.method, plain.optim.mini_batches)
    assert plain.optim.equalise_to is None
    reference = bind(grpo.method).advantage.func
    assert resolve(x.optim.equalise_to, "optim.equalise_to").func is reference


# ---- the rows of the tables


def test_lighteval_alone_is_graded_as_verls_reward_for_math():
    ours = {"_target_": "common.verifiers.math.reference"}
    for name in CLUSTER:
        data = experiment(name).data
        references = {key: node["reference"] for key, node in data.benchmarks.items()}
        assert references.pop("LightEval") == {"_target_": "common.verifiers.verl_math.reference"}
        assert [*references.values(), data.train["reference"]] == [ours] * 6
        assert data.verifier == {"_target_": "common.verifiers.verl_math.verify"}
