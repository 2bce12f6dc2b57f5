"""The reader of configurations: it composes a paper's files as Hydra does, or one file with its
`defaults`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path

from common.config.files import ROOT, names, read
from common.config.refusal import refusal
from common.config.rows import is_group, register
from common.config.words import for_hydra, quoted
from common.errors import UserError, require

GROUPS = ("method", "model", "data", "eval")  # method=mine.yaml takes a file of the user's own
# as `paper` of `compose` and `common.cli.main`: configs/ itself instead of a paper's own configs/
CONFIGS = ".."
HYDRA = ("hydra/job_logging=disabled", "hydra/hydra_logging=disabled")  # added to every command
SEARCHED = "hydra.searchpath=[pkg://configs]"  # configs/ is searched after the paper's own folder


def merged(group: str, file: Path):
    """Return the values of `file`, a file of `group`, merged with its `defaults` as Hydra would
    compose them; `${...}` stays unresolved. A default is a file beside it, or else one in
    configs/<group>.

    Hydra itself is not used: it keeps one global state per process, which in verl's driver process
    belongs to verl. Raises UserError for a file that does not exist.
    """
    from omegaconf import OmegaConf

    values = read(file)
    parents = values.pop("defaults", ["_self_"])
    written = OmegaConf.create(values)
    parts = []
    for parent in parents:
        beside, ours = file.with_name(f"{parent}.yaml"), ROOT / "configs" / group / f"{parent}.yaml"
        known = parent == "_self_" or beside.is_file() or ours.is_file()
        require(known, f"{file}: defaults", parent, f"no file beside it and none of our {group}s")
        at = beside if beside.is_file() and beside != file else ours
        parts.append(written if parent == "_self_" else merged(group, at))
    return OmegaConf.merge(*parts)


def prepared(words: list[str]) -> list[str]:
    """Return the words (command-line arguments) in the form that Hydra takes. If a word names a
    file of the user's own (method=mine.yaml), Hydra is given the file, and the word then gives its
    name."""
    return [quoted(_known(word)) for word in for_hydra(words)]


def _known(word: str) -> str:
    group, _, choice = word.partition("=")
    paths = choice.split(",")  # several choices are a sweep
    if group not in GROUPS or not any(path.endswith(".yaml") for path in paths):
        return word
    return f"{group}={','.join(_stored(group, path) for path in paths)}"


def _stored(group: str, path: str) -> str:
    """Store a file of the user's own with Hydra and return the name that it has there; return any
    other name unchanged."""
    if not path.endswith(".yaml"):
        return path
    from hydra.core.config_store import ConfigStore

    file = Path(path)
    require(file.is_file(), group, path, "no such file; a name without .yaml is one of ours")
    taken = f"configs/{group}/ has a file of this name; give yours another"
    require(file.stem not in names(group), group, path, taken)
    ConfigStore.instance().store(name=file.stem, node=merged(group, file), group=group)
    return file.stem


def value(key: str, text: str):
    """Return the value of a word key=text, parsed as YAML: a number, text, list, true or null.
    Raises UserError for text that is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{key}={text}: not a YAML value") from error


def compose(paper: str, overrides: list[str], config_name: str = "config"):
    """Return the composed configuration of a paper, as its command would see it. Raises UserError
    for a file or an override that Hydra refuses.

    Hydra takes a tenth of a second to compose, nearly all of it for the files. So the files that
    the words choose are composed once per process, and the words that set a value change a copy.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    words = prepared(overrides)
    chosen = tuple(word for word in words if _chooses(paper, word))
    own_file = any(".yaml" in word for word in overrides)  # the user may change it in between
    try:
        values = OverridesParser.create().parse_overrides([w for w in words if w not in chosen])
        if own_file or any(v.type != v.type.CHANGE or v.is_sweep_override() for v in values):
            return _by_hydra(paper, tuple(words), config_name)
        composed = deepcopy(_read(paper, chosen, config_name))
        for one in values:
            OmegaConf.update(composed, one.key_or_group, one.value(), merge=True)
        return composed
    except (HydraException, OmegaConfBaseException):  # Hydra composes, to say what is wrong
        return _by_hydra(paper, tuple(words), config_name)


def unset(paper: str, words: Sequence[str], config_name: str, key: str):
    """Return the configuration that the files chosen by `words` compose, without the values that
    the words set and without the word for `key`."""
    files = (word for word in words if _chooses(paper, word) and word.partition("=")[0] != key)
    return _read(paper, tuple(files), config_name)


def _chooses(paper: str, word: str) -> bool:
    """Return whether a word chooses a file or a row (a named experiment configuration) instead of
    setting a value."""
    key = word.partition("=")[0]
    return key == "experiment" or "/" in key or "@" in key or is_group(paper, key)


def _by_hydra(paper: str, words: tuple[str, ...], config_name: str):
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    register(paper)
    with initialize_config_dir(str(ROOT / "papers" / paper / "configs"), version_base="1.3"):
        try:
            return compose(config_name, overrides=[SEARCHED, *words])
        except (HydraException, YAMLError) as error:
            known = partial(unset, paper, words, config_name)
            raise refusal(str(error), words, known) from error


_read = lru_cache(maxsize=64)(
    _by_hydra
)  # a sweep composes a row once per seed, and tables repeat rows
