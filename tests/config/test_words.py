"""Words of a command line: key=value, taken apart in one place."""

import pytest
from refuses import refuses

from common.config.words import options, pairs, split
from common.errors import UserError

OWN = {"workers": "2", "results_dir": "results"}


def test_pairs():
    assert pairs(["k=1,256", "a.b=[x=y]", "c="]) == {"k": "1,256", "a.b": "[x=y]", "c": ""}
    assert pairs(word for word in ("k=1", "k=2")) == {"k": "2"}  # the last one counts
    with pytest.raises(UserError, match=r"workers\b"):
        pairs(["k=1", "workers"])


def test_a_commands_own_words_and_those_for_hydra():
    words = ["+optim.lr=1", "workers=4", "--multirun", "~a", "seed=1,2", "workers=5", "workersx=1"]
    given, others = split(words, OWN)
    assert given == {"workers": "5", "results_dir": "results"}
    assert others == ["+optim.lr=1", "--multirun", "~a", "seed=1,2", "workersx=1"]
    assert split(["workers"], OWN)[0]["workers"] == ""
    assert OWN["workers"] == "2"


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("worker=4", "did you mean workers?"),
        ("x=4", "known: results_dir, workers"),
        ("workers=", "workers=VALUE"),
    ],
)
def test_options_takes_no_other_words(word, remedy):
    assert options(["workers=4"], OWN) == OWN | {"workers": "4"}
    with refuses(*word.split("=")) as caught:
        options([word], OWN)
    assert remedy in str(caught.value)
