import pytest

from common.palette import look
from common.sweeps.plan import STUDY, experiments, scales_of


def drawn(scale: str) -> list[str]:
    """The methods of the study's figures that have all nine seeds."""
    found = experiments(scales_of(STUDY, f"scale={scale}"))
    return list(dict.fromkeys(x.label for x in found if x.seed == 9))


@pytest.mark.parametrize("scale", ["countdown", "maze"])
def test_methods_that_are_drawn_together_differ(scale):
    methods = drawn(scale)
    looks = {(look(one).color, look(one).marker) for one in methods}
    assert len(looks) == len(methods), {name: look(name) for name in methods}


def test_a_method_has_one_colour_in_every_paper():
    assert look("GRPO") == look("GRPO (N=8)") == look("grpo")  # as papers and method files name it
    assert look("F-GRPO") == look("f_grpo")
    assert look("GRPO-N").color != look("GRPO (N=2)").color  # a method, and a group size
    assert look("base").color == "#999999"
