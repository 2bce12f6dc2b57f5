"""The hypotheses of the confirmatory study, judged on made-up runs whose truth is known."""

import shutil
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from common.claims.file import load
from common.comparison import confirmed
from common.comparison.compare import assess
from common.comparison.confirmed import DECIDED, HYPOTHESES, SEEDS, of_paper
from common.comparison.gather import LAPTOP
from common.comparison.spec import spec_of
from common.config.files import REFERENCE
from common.report.readme import hypotheses, method_lines, own_methods
from common.results.kept import PROBLEMS, packed, write_part
from common.sweeps.declared import parts
from common.sweeps.plan import scales_of
from papers.study.figures import draw

# What a method loses of its rare right answers while pass@1 rises as GRPO's does
LOSES = {"FADE": 0.1, "F-GRPO (gamma=0.5)": 0.8, "IAC": 0.3, "KL": 0.3, "GRPO-N": 1.6}
SETS, SIZE = ("natural", "rare", "dev_natural", "dev_rare"), 60
STEPS = range(0, 11)


def keep(root, seeds, bases=lambda seed: str(seed), part="A", rises=None):
    """Kept runs of part A: the natural success rate rises by 2.4 points a step, or by what `rises`
    says of a method, and the rare one falls by up to 90 %."""
    problems = pd.DataFrame(
        [(name, f"p{i:02}") for name in SETS for i in range(SIZE)], columns=PROBLEMS
    )
    for x in parts(scales_of("study", "scale=confirmatory"))[part]:
        if x.seed not in seeds:
            continue
        rng, at = np.random.default_rng(crc32(x.run_id.encode())), []
        up = (rises or {}).get(x.label, 0.024)
        for step in [0] if x.optim.steps == 0 else STEPS[1:]:
            n = 256 if step in (0, STEPS[-1]) else 64
            for name in SETS:
                rare = name.endswith("rare")
                left = 0.03 * (1 - 0.56 * LOSES.get(x.label, 1.0) * step / STEPS[-1])
                c = rng.binomial(n, left if rare else 0.3 + up * step, SIZE)
                own = dict(step=step, benchmark=name, n=n, c=c, distinct=c.clip(max=3))
                at.append(pd.DataFrame(own | {"problem_id": problems["problem_id"][:SIZE]}))
        rows = pd.DataFrame(
            [(0, "natural", "token_entropy", 0.5)],
            columns=["step", "benchmark", "metric", "value"],
        )
        about = dict(run_id=x.run_id, table=x.table, model=x.model.name, method=x.label)
        about |= dict(seed=x.seed, base=bases(x.seed), commit="c", processor="p", seconds=1)
        lines = packed(pd.concat(at), rows).assign(**about)
        write_part(root / "confirmatory", f"{part}-s{x.seed}", lines, problems)


def verdicts(root):
    found = confirmed.hypotheses(root)
    return found.verdicts, found.said


@pytest.mark.sweep
def test_planted_effects_are_judged_on_nine_whole_seeds(tmp_path):
    keep(tmp_path, range(10, 18))
    found, said = verdicts(tmp_path)
    assert found.empty
    assert f"part A: 8 of {SEEDS}" in said
    keep(tmp_path, [18])
    found, said = verdicts(tmp_path)
    words = found.set_index("id")["laptop"].to_dict()
    assert len(words) == 12
    held = {"fade_keeps", "iac_keeps", "fade_keeps_lower", "iac_keeps_lower", "grpo_n_keeps_less"}
    assert {name for name, word in words.items() if word == "holds"} >= held | {"none_beats_kl"}
    missing = {name for name, word in words.items() if word == "not run"}
    assert missing == {"keeps_without_multiplication", "keeps_on_mazes"}
    folder = tmp_path / "confirmatory"
    assert hypotheses(folder / "hypotheses.csv") == []
    draw(tmp_path)
    _, _, *lines = hypotheses(folder / "hypotheses.csv")[0].splitlines()
    cells = [[x.strip() for x in line.split("|")[1:-1]] for line in lines]
    assert [word.strip("*") for _, word, _ in cells] == list(words.values())
    assert "9 seeds" in cells[0][2]
    assert {numbers for _, word, numbers in cells if word == "**not run**"} == {""}
    controls = pd.read_csv(folder / "controls.csv", index_col="control")["verdict"]
    passed = {"RL raises pass@1", "a KL penalty keeps diversity"}
    assert set(controls.index[controls == "passes"]) == passed
    assert set(controls.drop(passed)) == {"not run"}
    methods = pd.read_csv(folder / "methods.csv")
    assert set(methods["method"]) == {*LOSES, "GRPO"}
    assert [line[0] for line in method_lines(folder)][-1] == "GRPO-N"
    assert (folder / "figures" / "keeps.png").exists()
    assert own_methods(tmp_path, tmp_path)[1] == []  # they are nobody's own


@pytest.mark.sweep
def test_nine_whole_seeds_decide_a_papers_claims_instead_of_the_exploratory_runs(tmp_path):
    keep(tmp_path, range(10, 19))
    stored = REFERENCE / "study" / "laptop"
    shutil.copytree(stored, tmp_path / "study" / "laptop")
    keep(tmp_path, range(10, 13), part="B")  # too few to be read
    result = assess(spec_of("f_grpo"), tmp_path)
    verdicts = result.verdicts.set_index("id")
    gaps = result.gaps[result.gaps["scope"] == LAPTOP].set_index("claim")
    seeds = set(range(10, 19))
    runs = result.runs.set_index("run_id")
    new = {name for name in verdicts.index if seeds & of(verdicts.loc[name], runs)}
    assert {"focal_grpo_pass1"} <= new
    for name in new:  # no claim reads runs of both studies
        assert of(verdicts.loc[name], runs) <= seeds, name
        assert verdicts.loc[name, "laptop_state"] == "reference"
        assert gaps.loc[[name], "n_seeds"].eq(9).all()
    before = pd.read_csv(REFERENCE / "f_grpo" / "claims.csv", index_col="id", keep_default_na=False)
    told = verdicts["laptop_numbers"] != before["laptop_numbers"]
    declared = [name for name in verdicts.index if name in DECIDED]
    assert len(declared) == 3
    assert told[[*new, *declared]].all()
    judged = confirmed.hypotheses(tmp_path).verdicts.set_index("id")
    for name in declared:  # with the correction over all hypotheses
        same = [LAPTOP, "laptop_numbers"]
        assert verdicts.loc[name, same].equals(judged.loc[DECIDED[name], same]), name
        assert gaps.loc[name, "metric"].endswith("points of natural pass@1")
        assert verdicts.loc[name, "laptop_state"] == "reference"
    others = [x for x in before.index.difference([*new, *declared]) if of(before.loc[x], runs)]
    assert others  # they read a row that the confirmatory runs lack
    columns = [LAPTOP, "laptop_numbers", "laptop_runs"]
    assert_frame_equal(verdicts.loc[others, columns], before.loc[others, columns])


@pytest.mark.sweep
def test_a_hypothesis_decides_a_papers_claim_also_where_it_is_refused_or_says_the_opposite(
    tmp_path,
):
    """F-GRPO's pass@1 rises by too few levels to be read at equal pass@1."""
    keep(tmp_path, range(10, 19), rises={"F-GRPO (gamma=0.5)": 0.005})
    keep(tmp_path, range(10, 19), bases=lambda seed: f"another {seed}", part="B")

    def decided(paper):
        found = of_paper(tmp_path, load(HYPOTHESES.parents[1] / paper / "claims.yaml"))
        tables = [x.verdicts.set_index("id") for x in found]
        return tables, [x.gaps["claim"].tolist() for x in found]

    (_, f_grpo), (_, behind) = decided("f_grpo")
    assert f_grpo["laptop"].unique().tolist() == ["inconclusive"]
    assert len(f_grpo) == 3
    assert behind == []
    (own, two_stage), (_, behind) = decided("two_stage")
    assert two_stage["laptop"].to_dict() == {"matched_n": "fails"}
    assert behind == ["matched_n"]
    assert "fig2_turn" not in own.index  # it is on a step of a shorter run
    found, said = verdicts(tmp_path)
    assert f"part B: 0 of {SEEDS}" in said  # its base models are others than part A's
    assert len(found) == 12
    gaps = confirmed.hypotheses(tmp_path).gaps
    assert (gaps["p_holm"] / gaps["p_claim"]).max() == pytest.approx(12)


def of(verdict, runs) -> set[int]:
    """Return the seeds of the study's runs behind a verdict."""
    return set(runs["seed"].reindex(verdict["laptop_runs"].split(";")).dropna().astype(int))


def test_runs_from_two_base_models_are_no_whole_seed(tmp_path):
    keep(tmp_path, [10])
    files = sorted((tmp_path / "confirmatory").glob("A-*"))
    path = files[-1]
    lines = pd.read_csv(path)
    lines.assign(base="another").to_csv(path, index=False)
    _, said = verdicts(tmp_path)
    assert f"part A: 0 of {SEEDS}" in said
