"""What `rlvr methods` shows is what the code says, and every function says what it is."""

import importlib
import inspect
import pkgutil
import re

import pytest
import yaml
from refuses import refuses

import common.advantages
import common.losses
from common.config.files import ROOT
from common.methods import catalogue, files

PARAMETERS = {  # positional parameters -> what such a function is
    ("rewards",): "advantage",
    ("log_prob", "old_log_prob", "advantages", "mask"): "loss or token weights",
    ("mask",): "aggregation",
    ("log_prob", "ref_log_prob"): "KL estimator",
}


def functions() -> dict:
    """Every public function of the two packages, by dotted name."""
    public = {}
    for package in (common.advantages, common.losses):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            for name, f in vars(importlib.import_module(info.name)).items():
                defined = inspect.isfunction(f) and f.__module__ == info.name
                if defined and not name.startswith("_"):
                    public[f"{info.name}.{name}"] = f
    return public


ALL = functions()
FILES = [f.stem for f in sorted((ROOT / "configs" / "method").iterdir()) if f.stem != "_base"]
METHODS = {name: files.as_written(name) for name in FILES}


def positional(f) -> tuple:
    parameters = inspect.signature(f).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def is_helper(path: str) -> bool:
    """Named by no method file, and another function calls it."""
    word = re.compile(rf"\b{ALL[path].__name__}\(")
    named = any(f is ALL[path] for m in METHODS.values() for f in catalogue.parts(m).values())
    calls = [p for p, f in ALL.items() if p != path and word.search(inspect.getsource(f))]
    return not named and bool(calls)


SHOWN = [p for p, f in ALL.items() if positional(f) in PARAMETERS and not is_helper(p)]


def test_what_is_looked_for_was_found():
    kinds = {PARAMETERS[positional(ALL[path])] for path in SHOWN}
    assert kinds == set(PARAMETERS.values())
    names = {path.split(".")[-1] for path in SHOWN}
    assert {"grpo", "fade", "t2t", "gspo", "gaussian_kernel", "token_sum", "kl_k1"} <= names
    assert not {"mixed", "focal_weight", "success"} & names


@pytest.mark.parametrize("path", SHOWN)
def test_every_function_says_formula_source_and_peers(path):
    doc = inspect.getdoc(ALL[path])
    for line in ("Source: ", "Peers: "):
        assert re.search(f"^{line}.+", doc, re.M), f"{path}: no line {line}"
    assert re.search(r"^    .*\S$", doc, re.M), f"{path}: no indented formula"


@pytest.mark.parametrize("name", FILES)
def test_a_method_is_shown_with_all_that_its_file_says(name):
    text, base = catalogue.one(name), dict(files.as_written("_base"))
    for line in (files.FOLDER / f"{name}.yaml").read_text().splitlines():
        comment = line.partition("#")[2].strip().replace("|", "\\|")
        assert re.sub(r"(?<!\w)_|\*", r"\\\g<0>", comment) in text
        key, _, value = line.partition("#")[0].strip().partition(": ")
        if value and key not in ("defaults", "name", "_target_"):
            inherited = any(k.endswith(key) and v[0] == value.strip() for k, v in base.items())
            assert inherited or f"| `{value.strip()}` |" in text, line


@pytest.mark.parametrize("name", FILES)
def test_a_method_file_is_read_as_hydra_reads_it(name):
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    def flat(node, prefix=""):
        for key, value in node.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        method = OmegaConf.to_container(compose(f"method/{name}").method)
    ours = {key: yaml.safe_load(value) for key, (value, _) in METHODS[name].items() if value}
    assert {key: str(value) for key, value in ours.items()} == {
        key: str(value) for key, value in flat(method)
    }


def test_a_comment_belongs_to_the_line_that_set_the_value():
    grpo, child = files.as_written("grpo"), files.as_written("f_cispo")
    assert grpo["advantage.epsilon"] == ("1.0e-6", "verl's; the paper gives the symbol only")
    assert child["advantage.epsilon"] == grpo["advantage.epsilon"]
    assert child["advantage.gamma"] == ("1.0", "Table 6, Qwen2.5-7B")
    assert child["loss.eps_high"] == ("5.0", "")  # not the comment of the value it replaces


def test_prose_cannot_become_markup():
    assert (
        catalogue.prose("H* ~ _base `a*b`\n+ <b> 1 < 2") == "H\\* \\~ \\_base `a*b` + \\<b> 1 < 2"
    )
    assert catalogue.markdown(
        "One\n1. two\n\n    a * b\n      c\n\nSource: X.\nPeers: none\nRest."
    ) == [
        *["One 1. two", ""],
        *["```text", "a * b\n  c", "```", ""],
        *["- Source: X.", "- Peers: none", "", "Rest.", ""],
    ]


def test_the_command_shows_one_method_and_lists_them_all(capsys):
    catalogue.main(["f_grpo"])
    shown = capsys.readouterr().out
    assert "| `advantage.gamma` | `0.5` |" in shown
    assert "g      = (1 - mu_hat)^gamma" in shown
    catalogue.main(["method=f_grpo"])
    assert capsys.readouterr().out == shown
    with refuses("method", "fgrpo"):
        catalogue.main(["fgrpo"])
    catalogue.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == files.names()
    assert max(map(len, lines)) <= 100
