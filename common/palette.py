"""The look of each method: one colour, line style and marker wherever it is drawn.

The colours are Okabe and Ito's and, from the eighth on, Tol's, for colour-blind readers. A colour
stands for a family of methods; shade, line style and marker tell its members apart.
"""

import re
from dataclasses import dataclass
from zlib import crc32

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
GREY = "#999999"
FAMILIES = {  # colour -> names: a name covers all methods that begin with it
    "#000000": ("grpo", "mc_grpo", "kl", "entropy"),
    "#0072B2": ("f_grpo", "f_dapo", "f_cispo", "focal"),
    "#D55E00": ("fade",),
    "#009E73": ("cw_grpo", "grpo_gaussian_reweight_cw_grpo"),
    "#E69F00": ("iac", "dapo_iac", "dlc", "filter"),
    "#CC79A7": ("grpo_n", "gspo_n", "negative_only", "quantile"),
    "#56B4E9": ("dapo", "ds_grpo", "cispo", "ppo"),
    "#332288": ("gspo", "skew_r", "softmax", "log_mean_exp", "rs_grpo"),
    "#999933": ("mean", "rloo", "drgrpo", "dr_grpo", "reinforce", "t2t", "max_rl", "maxrl"),
    "#44AA99": ("power", "easy_power", "pass", "binary_contrastive", "relu"),
    "#882255": ("asym", "ha_dw"),
    "#AA4499": ("clip_cov",),
}
LINES = ("-", "--", ":", "-.", "-")
MARKERS = ("o", "s", "^", "D", "v")
# (what is mixed into the family's colour, its share)
SHADES = (("#FFFFFF", 0), ("#FFFFFF", 0.5), ("#131619", 0.5), ("#FFFFFF", 0.3), ("#131619", 0.25))
# Places in LINES, MARKERS and SHADES of methods drawn with the first of their family, which has 0.
PLACES = {
    "grpo_n_8": 0, "grpo_n_32": 1, "grpo_n_2": 2, "kl": 3, "entropy_bonus": 4,
    "f_grpo_n_8": 0, "f_grpo_n_8_gamma_0_5": 0, "f_grpo_n_8_gamma_1": 1,
    "cw_grpo_by_group": 1, "cw_grpo_repository": 2, "gspo_n": 1,
    "iac_equal_max_weight": 1, "dapo_iac_dlc": 2, "dapo_iac": 3,
    "mean_grpo": 0, "power_alpha_2": 0, "asymgrpo_delta_0_5": 0,
    "fade_h_1_0": 0, "fade_h_1_3": 1, "fade_h_0_5": 3, "fade_h_h0": 3,
    "fade_alpha_only": 1, "fade_delta_only": 2, "fade_both_from_entropy": 3,
    "fade_log_schedule": 4, "fade_ema_as_printed": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    color: str
    line: str
    marker: str


def key(method: str) -> str:
    """Return a method's key: f_grpo for "F-GRPO" or its file name, grpo_n_8 for "GRPO (N=8)"."""
    return re.sub(r"[^a-z0-9]+", "_", method.lower()).strip("_")


def look(method: str) -> Look:
    """Return how to draw a method; grey for the base model and methods of no family."""
    name = key(method)
    # "GRPO (N=8)" is a group size of GRPO, "GRPO-N" another method
    known = re.sub(r"^grpo_n_(?=\d)", "grpo_", name)
    fits = {
        start: color
        for color, names in FAMILIES.items()
        for start in names
        if known == start or known.startswith(f"{start}_") or (start == "asym" and start in known)
    }
    first = known in fits
    place = PLACES.get(name, 0 if first else 1 + crc32(name.encode()) % (len(LINES) - 1))
    color = mixed(fits[max(fits, key=len)], *SHADES[place]) if fits else GREY
    return Look(color, LINES[place], MARKERS[place])


def mixed(color: str, ground: str, share: float) -> str:
    """Return a colour with a `share` of `ground` mixed in."""
    pairs = zip(*(bytes.fromhex(one[1:]) for one in (color, ground)), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in pairs)


def colors(methods) -> dict[str, str]:
    return {method: look(method).color for method in methods}
