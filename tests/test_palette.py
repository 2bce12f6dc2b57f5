"""One look a method, wherever it is drawn."""

import pytest

from common.palette import look
from papers.cov_grpo import figures as cov_grpo
from papers.f_grpo import figures as f_grpo
from papers.fade import figures as fade
from papers.over_sharpening import figures as over_sharpening
from papers.two_stage import figures as two_stage

TOGETHER = {
    "cov_grpo": cov_grpo.MAIN,
    "f_grpo": f_grpo.MAIN,
    "fade": fade.MAIN,
    "fade, ablation": fade.ABLATION,
    "fade, averages": fade.AVERAGES,
    "over_sharpening": over_sharpening.MAIN,
    "two_stage": two_stage.MAIN,
}


@pytest.mark.parametrize("figure", TOGETHER)
def test_methods_that_are_drawn_together_differ(figure):
    looks = {(one.color, one.line) for one in map(look, TOGETHER[figure])}
    assert len(looks) == len(TOGETHER[figure]), {name: look(name) for name in TOGETHER[figure]}


def test_a_method_has_one_colour_in_every_paper():
    seen = {}
    for methods in TOGETHER.values():
        for method, color in methods.items():
            assert seen.setdefault(method, color) == color
    assert look("GRPO") == look("GRPO (N=8)") == look("grpo")  # as papers and method files name it
    assert look("F-GRPO").name == look("f_grpo").name == "f1-0"
    assert look("GRPO-N").name != look("GRPO (N=2)").name  # a method, and a group size
    assert look("base").name == "grey"
