"""`make reference-check`: what is stored follows from the stored tables, or is named."""

import shutil

import pandas as pd
import pytest

from common.comparison.prose import differences as differences_of_prose
from common.comparison.reference import THIRD, YARDSTICKS, differences, intervals, main
from common.config.files import ROOT
from common.errors import UserError

STORED = ROOT / "results" / "reference"


def test_last_digits_may_differ_and_all_else_is_named(tmp_path):
    a, b = tmp_path / "a" / "p", tmp_path / "b" / "p"
    for folder, number, word in ((a, "0.1234567891", "holds"), (b, "0.1234567892", "fails")):
        folder.mkdir(parents=True)
        (folder / "same.csv").write_text(f"x,y\n{number},\n")
        more = "12" if folder == a else "68"
        (folder / "laptop_strong_fig10_solve_rates.csv").write_text(f"x\n9.591{more}\n")
        (folder / "sixth_digit.csv").write_text(f"x\n9.591{more}\n")
        (folder / "claims.csv").write_text(f"id,laptop\nx,{word}\n")
        (folder / "short.md").write_text("a\nb\n"[: 2 if folder == a else 4])
        (folder / "picture.png").write_text(word)
    (a / "old.csv").write_text("x\n1\n")
    (b / "new.csv").write_text("x\n1\n")
    (b / "figures").mkdir()
    (b / "figures" / "not_kept.csv").write_text("x\n1\n")
    assert differences(a, b) == [
        "p/claims.csv: line 2: stored 'holds', made 'fails'",
        "p/new.csv: is not stored",
        "p/old.csv: is not made",
        "p/short.md: line 2: is not stored",
        "p/sixth_digit.csv: line 2: stored '9.59112', made '9.59168'",
    ]
    assert differences(a, a) == []


def test_the_readmes_intervals_are_stored_and_one_changed_number_is_seen(tmp_path):
    papers = sorted(x.parent.name for x in STORED.glob("*/gaps.csv"))
    assert intervals(STORED, [*papers, *YARDSTICKS, *THIRD]) == []
    assert len(papers) == 5
    changed = ("7.1 [3.4, 10.9]", "7.2 [3.4, 10.8]", "7.1 [3.4, 10.8]: fails")
    of_base = ("9.9 [7.7, 12.3]", "9.8 [7.7, 12.2]")
    for name, right, every, linked in (
        ("papers/f_grpo/README.md", "7.1 [3.4, 10.8]", changed, False),
        ("README.md", "9.9 [7.7, 12.2]", of_base, True),
    ):
        text = (ROOT / name).read_text()
        assert right in text
        for wrong in every:
            (tmp_path / "README.md").write_text(text.replace(right, wrong, 1))
            seen = differences_of_prose(tmp_path / "README.md", STORED, ["f_grpo"], linked=linked)
            assert len(seen) == 1
            assert f"{wrong}' is no stored comparison's of f_grpo" in seen[0]


def test_an_interval_that_goes_on_in_an_indented_line_is_read(tmp_path):
    page = tmp_path / "README.md"
    for bound, wrong in (("10.8", 0), ("10.9", 1)):
        page.write_text(f"- rare pass@64 is +7.1 [3.4,\n  {bound}] above GRPO's\n")
        assert len(differences_of_prose(page, STORED, ["f_grpo"], linked=False)) == wrong


def test_so_are_those_of_other_pages(tmp_path):
    names, right, wrong = [*YARDSTICKS, *THIRD], "-7.1 [-15.1, 0.8]", "-7.1 [-15.1, 0.9]"
    text = (ROOT / "docs" / "yardstick.md").read_text()
    assert right in text
    (tmp_path / "page.md").write_text(text.replace(right, wrong, 1))
    (seen,) = differences_of_prose(tmp_path / "page.md", STORED, names, linked=False)
    assert f"{wrong}' is no stored comparison's of {names[0]}, {names[1]}" in seen


def test_a_control_is_a_comparison_too(tmp_path):
    row = pd.read_csv(STORED / "third_maze" / "controls.csv").iloc[0]
    (tmp_path / "page.md").write_text(f"{row.difference:.1f} [{row.low:.1f}, {row.high:.1f}]")
    assert differences_of_prose(tmp_path / "page.md", STORED, ["third_maze"], linked=False) == []


@pytest.mark.process
def test_one_changed_number_of_the_commit_is_seen_and_nothing_else_differs(tmp_path, capsys):
    """Without the change the committed results are as stored: no other table is named."""
    shutil.copytree(STORED / "cov_grpo", tmp_path / "cov_grpo")
    path = tmp_path / "cov_grpo" / "covariance" / "weights.csv"
    table = pd.read_csv(path)
    table.loc[0, "padded"] *= 2
    table.to_csv(path, index=False)
    with pytest.raises(UserError, match="not what their tables give") as error:
        main([f"results_dir={tmp_path}", "papers=cov_grpo"])
    named = [line.split(":")[0] for line in str(error.value).splitlines()[1:]]
    made = ("claims.csv", "comparison.md", "detectable.csv", "figures/weights.csv", "gaps.csv")
    assert named == [f"cov_grpo/{x}" for x in made]
    assert "5 tables differ" in capsys.readouterr().out


@pytest.mark.process
def test_one_changed_count_of_a_pretrained_model_is_seen(tmp_path):
    shutil.copytree(STORED / "pretrained", tmp_path / "pretrained")
    main([f"results_dir={tmp_path}", "papers=pretrained"])
    path = tmp_path / "pretrained" / "overnight" / "counts.csv"
    table = pd.read_csv(path)
    solved = table.index[(table["method"] == "IAC") & (table["c"] > 0)][0]
    table.loc[solved, "c"] -= 1
    table.to_csv(path, index=False)
    with pytest.raises(UserError, match="not what their tables give") as error:
        main([f"results_dir={tmp_path}", "papers=pretrained"])
    named = [line.split(":")[0] for line in str(error.value).splitlines()[1:]]
    made = ("against_grpo.csv", "crossing.csv", "crossing.md")
    assert named == [f"pretrained/overnight/{x}" for x in made]


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match=r"results_dir=.*holds no paper's results"):
        main([f"results_dir={tmp_path}"])
    with pytest.raises(UserError, match=r"papers=nothing.*two_stage"):
        main([f"results_dir={STORED}", "papers=nothing"])
