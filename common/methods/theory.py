"""The lab: the exact effect of a method's weights, for any method file.

    rlvr theory                                    the masses of every method
    rlvr theory method=power_alpha alpha=2         one method
    rlvr theory method=grpo p=0.3 G=16 json=true   one solve rate
    rlvr theory method=f_grpo twin=grpo G=1024     the factor on optim.lr of a control
    rlvr theory method=mine.yaml                   a method file of your own

A key without a dot that is none of the options is an argument of the advantage. Options:
G=16 p= twin= json=false; --help prints this.

Every group of G responses with X successes is enumerated, X ~ Binomial(G, p); nothing is sampled.
A method that looks at the whole batch is given one group at a time. Its responses are equally long
and likely; all right ones have the same answer, and each wrong one has an answer of its own.
Token weights are left out.
FADE's Tables 1, 7 and 8 and Figs. 2 and 7 show these numbers for its methods. A controller sets the
arguments of its first step (rate.at_start).
"""

import json
from dataclasses import dataclass
from typing import Annotated

import pandas as pd
from pydantic import Field, PositiveInt

from common.config.compose import CONFIGS
from common.config.compose import compose as compose_files
from common.config.files import names
from common.config.schema import Method, Reward
from common.config.strict import strict
from common.config.words import pairs
from common.methods import rate
from common.methods.binding import all_groups, bind, check, group_weights
from common.methods.exact import masses

SOLVE_RATES = [0.1, 0.3, 0.5, 0.7, 0.9]
WORDS = """
m_S, m_F    mean push on a right and on a wrong response (FADE Eq. 3)
rho         m_S p / (m_F (1 - p)): above 1, right responses weigh more
N_eff       how many of the G responses count, by Kish
var         variance of the advantage; var_group: of a group's mean mass
enrichment  the weight at p relative to p = 1/2, over the same of mean GRPO"""


@dataclass(frozen=True)
class Theory:
    method: Method
    G: PositiveInt
    p: Annotated[float, Field(ge=0, le=1)] | None
    twin: str | None
    json: bool
    reward: Reward
    sampling: dict
    optim: dict

    def __post_init__(self):
        check(bind(self.method), self.G, self.reward)


def compose(arguments: list[str]) -> Theory:
    """Return the configuration of a command line. A key without a dot that is no option names an
    argument of the advantage."""
    known = {"method", *Theory.__dataclass_fields__}
    given, overrides = pairs(arguments), []
    for key, value in given.items():
        plain = key in known or "." in key
        overrides.append(f"{key}={value}" if plain else f"++method.advantage.{key}={value}")
    return strict(Theory, compose_files(CONFIGS, overrides, "theory"))


def family(arguments: list[str]) -> list[Theory]:
    """Return one method file for every advantage: the file with the advantage's name, or else the
    one with the shortest name."""
    groups = {}
    for name in names("method"):
        theory = compose([f"method={name}", *arguments])
        key = str((theory.method.advantage, theory.method.controller))
        groups.setdefault(key, []).append(theory)

    def preference(theory: Theory):
        name, function = theory.method.name, theory.method.advantage["_target_"].split(".")[-1]
        return name != function, len(name), name

    chosen = [min(same, key=preference) for same in groups.values()]
    return sorted(chosen, key=lambda theory: theory.method.name)


def table(theory: Theory, solve_rates: list[float]) -> pd.DataFrame:
    """Return one row per solve rate: `masses` and the enrichment. It says how much more weight the
    method has at this solve rate, relative to 1/2, than mean GRPO has. This is FADE's Table 8 for
    alpha = 3:

    (w(p) / w(1/2)) / (p q / (1/4)),  w = (m_S + m_F) / 2
    """
    bound = bind(theory.method)
    weights = group_weights(bound, all_groups(theory.G), theory.reward, rate.at_start(bound))
    half, rows = masses(weights, 0.5), []
    for p in solve_rates:
        found, share = masses(weights, p), (half["m_S"] + half["m_F"]) * 4 * p * (1 - p)
        enrichment = (found["m_S"] + found["m_F"]) / share if share != 0 else None
        row = {"method": theory.method.name, "G": theory.G, "p": p, **found}
        rows.append(row | {"enrichment": enrichment})
    return pd.DataFrame(rows)


def main(words: list[str]) -> None:
    everything = not any(word.startswith("method=") for word in words)
    theory = compose(words)
    if theory.twin is not None:
        bound = bind(theory.method)
        other = bind(compose([f"method={theory.twin}", f"G={theory.G}"]).method)
        given = {"group_size": theory.G, "reward": theory.reward}
        given["arguments"] = rate.at_start(bound)
        answer = {"lr_factor": rate.mean_magnitude(bound, other, **given)}
    elif theory.p is not None:
        answer = table(theory, [theory.p]).drop(columns=["method", "G", "p"]).iloc[0].to_dict()
    else:
        _show(family(words) if everything else [theory])
        return
    if theory.json:
        print(json.dumps(_finite(answer), allow_nan=False))
    else:
        for name, value in answer.items():
            print(f"{name:>12}  {value:.4g}" if value is not None else f"{name:>12}")
        if theory.p is not None:
            print(WORDS)


def _finite(row: dict) -> dict:
    """Return `row` with NaN, which pandas makes of a missing number, back as None."""
    return {key: None if pd.isna(one) else one for key, one in row.items()}


def _show(theories: list[Theory]) -> None:
    rates = SOLVE_RATES if len(theories) == 1 else [0.3, 0.5]  # as in FADE Table 7
    rows = pd.concat([table(theory, rates) for theory in theories], ignore_index=True)
    if theories[0].json:
        print(json.dumps([_finite(row) for row in rows.to_dict("records")], allow_nan=False))
        return
    print(f"exact gradient masses, G = {theories[0].G}")
    shown = rows.drop(columns="G").to_string(index=False, na_rep="", float_format="{:.4g}".format)
    print(shown)
    print(WORDS)
