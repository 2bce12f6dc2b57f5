import pytest
from refuses import refuses

from common import cli, train


@pytest.fixture
def trained(monkeypatch) -> list:
    """The experiments that were trained, none of which runs. An error is raised, not printed."""
    seen = []
    monkeypatch.setattr(train, "train", seen.append)
    monkeypatch.setattr(cli, "guard", lambda function: function())
    return seen


def test_several_seeds_are_runs_of_their_own(trained):
    train.main(["seed=1,3,2", "paper=study", "optim.lr=1e-5"])
    assert [x.seed for x in trained] == [1, 3, 2]
    assert [x.model.pretrain.seed for x in trained] == [1, 3, 2]  # what follows the seed does too
    several = [x.run_id for x in trained]
    for seed in (1, 3, 2):
        train.main([f"seed={seed}", "paper=study", "optim.lr=1e-5"])
    assert [x.run_id for x in trained[3:]] == several
    train.main(["paper=study"])
    assert trained[-1].seed == 1


@pytest.mark.parametrize(
    ("entry", "named"), [("x", "'x'"), ("-2", "-2"), ("", ""), ("[2", "[2"), ("2.5", "2.5")]
)
def test_a_wrong_seed_is_refused_before_the_first_run(trained, entry, named):
    with refuses("seed", named):
        train.main(["paper=study", f"seed=1,{entry}"])
    assert trained == []


def test_help_and_the_configuration_are_shown_once(trained, capsys):
    train.main(["paper=study", "seed=4,5", "--help"])
    assert "seed=1,2,3" in capsys.readouterr().out
    train.main(["paper=study", "seed=4,5", "--cfg", "job"])
    assert "\nseed: 4\n" in capsys.readouterr().out
    assert trained == []
