"""The look of each method: one colour, line style and marker wherever it is drawn, by matplotlib or
on the HTML page.

The colours are Okabe and Ito's and, from the eighth on, Tol's: colour-blind readers can tell them
apart. There are more methods than colours, so a colour stands for a family (all that weigh by
difficulty, all variants of GRPO). Shade, line style and marker tell the methods of a family apart.
"""

import re
from dataclasses import dataclass
from zlib import crc32

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
GREY = "#999999"
# (colour on white, colour on black, names): a name covers all methods that begin with it
FAMILIES = (
    ("#000000", "#E8EAEC", ("grpo", "mc_grpo")),
    ("#0072B2", "#5AA9E6", ("f_grpo", "f_dapo", "f_cispo", "focal")),
    ("#D55E00", "#FF8A4C", ("fade",)),
    ("#009E73", "#35C99A", ("cw_grpo",)),
    ("#E69F00", "#F0B840", ("iac", "dapo_iac", "dlc", "filter")),
    ("#CC79A7", "#E3A0C6", ("grpo_n", "gspo_n", "negative_only", "quantile")),
    ("#56B4E9", "#8FD0F5", ("dapo", "ds_grpo", "cispo", "ppo")),
    ("#332288", "#9E96F5", ("gspo", "skew_r", "softmax", "log_mean_exp")),
    ("#999933", "#CFCB62", ("mean", "rloo", "drgrpo", "dr_grpo", "reinforce", "t2t", "max_rl")),
    ("#44AA99", "#7FD6C8", ("power", "easy_power", "pass", "binary_contrastive", "relu")),
    ("#882255", "#DB7FAF", ("asym", "positive_only", "ha_dw")),
    ("#AA4499", "#DD8FD0", ("clip_cov", "kl_cov")),
)
LINES = ("-", "--", ":", "-.", "-")
MARKERS = ("o", "s", "^", "D", "v")
# How much of the background is mixed into the family's colour; below 0: of the other background
SHADES = (0, 0.5, -0.5, 0.3, -0.25)
GROUNDS = ("#FFFFFF", "#131619")  # light, dark
# Places in LINES, MARKERS and SHADES of methods that are drawn together with the first of their
# family, which has place 0. All other methods get a place by a hash of their name.
PLACES = {
    "grpo_n_8": 0,
    "grpo_n_32": 1,
    "grpo_n_2": 2,
    "f_grpo_n_8_gamma_0_5": 0,
    "f_grpo_n_8_gamma_1": 1,
    "cw_grpo_by_group": 1,
    "cw_grpo_repository": 2,
    "gspo_n": 1,
    "iac_equal_max_weight": 1,
    "dapo_iac_dlc": 2,
    "dapo_iac": 3,
    "mean_grpo": 0,
    "power_alpha_2": 0,
    "asymgrpo_delta_0_5": 0,
    "fade_h_1_0": 0,
    "fade_h_1_3": 1,
    "fade_h_0_5": 3,
    "fade_alpha_only": 1,
    "fade_delta_only": 2,
    "fade_both_from_entropy": 3,
    "fade_log_schedule": 4,
    "fade_ema_as_printed": 1,
    "fade_h_0_25_h0": 2,
    "fade_h_h0": 3,
    "dapo_dynamic_sampling": 1,
    "grpo_n_8_low_lr_of_gamma_0_5": 1,
}


@dataclass(frozen=True)
class Look:
    color: str
    dark: str  # the colour on a dark page
    name: str  # names family and shade, for style rules
    line: str
    marker: str


def key(method: str) -> str:
    """Return a method's key: f_grpo for "F-GRPO" or its file name, grpo_n_8 for "GRPO (N=8)"."""
    return re.sub(r"[^a-z0-9]+", "_", method.lower()).strip("_")


def look(method: str) -> Look:
    """Return how to draw a method. The base model and methods of no family are grey."""
    name = key(method)
    # "GRPO (N=8)" is a group size of GRPO, "GRPO-N" another method
    known = re.sub(r"^grpo_n_(?=\d)", "grpo_", name)
    fits = [
        (len(start), number)
        for number, (_, _, names) in enumerate(FAMILIES)
        for start in names
        if known == start or known.startswith(f"{start}_") or (start == "asym" and start in known)
    ]
    first = any(known in names for _, _, names in FAMILIES)
    place = PLACES.get(name, 0 if first else 1 + crc32(name.encode()) % (len(LINES) - 1))
    if not fits:
        return Look(GREY, GREY, "grey", LINES[place], MARKERS[place])
    return of_family(max(fits)[1], place)


def of_family(number: int, place: int) -> Look:
    """Return the look of one place in a family."""
    light, dark, _ = FAMILIES[number]
    return Look(
        shaded(light, GROUNDS, SHADES[place]),
        shaded(dark, GROUNDS[::-1], SHADES[place]),
        f"f{number}-{place}",
        LINES[place],
        MARKERS[place],
    )


def shaded(color: str, grounds: tuple[str, str], shade: float) -> str:
    """Return a colour mixed with the first of `grounds`, or with the second if `shade` < 0."""
    return mixed(color, grounds[shade < 0], abs(shade))


def mixed(color: str, ground: str, share: float) -> str:
    """Return a colour with a `share` of `ground` mixed in."""
    pairs = zip(*(bytes.fromhex(one[1:]) for one in (color, ground)), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in pairs)


def colors(methods) -> dict[str, str]:
    """Return {method: its colour on white}."""
    return {method: look(method).color for method in methods}
