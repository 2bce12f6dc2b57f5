"""One look a method, wherever it is drawn."""

import pytest

from common.palette import look
from papers.cov_grpo import figures as cov_grpo
from papers.f_grpo import figures as f_grpo
from papers.fade import figures as fade
from papers.over_sharpening import figures as over_sharpening
from papers.two_stage import figures as two_stage

TOGETHER = [cov_grpo.MAIN, f_grpo.MAIN, fade.MAIN, fade.ABLATION, fade.AVERAGES]
TOGETHER += [over_sharpening.MAIN, two_stage.MAIN]


@pytest.mark.parametrize("methods", TOGETHER)
def test_methods_that_are_drawn_together_differ(methods):
    looks = {(one.color, one.line) for one in map(look, methods)}
    assert len(looks) == len(methods), {name: look(name) for name in methods}


def test_a_method_has_one_colour_in_every_paper():
    seen = {}
    for methods in TOGETHER:
        for method, color in methods.items():
            assert seen.setdefault(method, color) == color
    assert look("GRPO") == look("GRPO (N=8)") == look("grpo")  # as papers and method files name it
    assert look("F-GRPO") == look("f_grpo")
    assert look("GRPO-N").color != look("GRPO (N=2)").color  # a method, and a group size
    assert look("base").color == "#999999"
