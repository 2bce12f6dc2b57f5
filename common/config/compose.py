"""The composer of configurations, `compose`: Hydra reads the words and the files of a paper, and
OmegaConf merges each group's chosen file under them and the row's and words' values over them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.config.files import ROOT, names, read
from common.config.rows import files_of, is_group, rows
from common.config.words import for_hydra, quoted
from common.errors import UserError, nearest, one_of, require, unknown

if TYPE_CHECKING:  # importing them takes longer than --help of most commands
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

GROUPS = ("method", "model", "data", "eval")  # method=mine.yaml takes a file of the user's own
NONE = "_none"  # a file without values, which Hydra is given for the chosen file of GROUPS
# as `paper` of `compose` and `common.cli.main`: configs/ itself instead of a paper's own configs/
CONFIGS = ".."
SEARCHED = "hydra.searchpath=[pkg://configs]"  # configs/ is searched after the paper's own folder


def compose(paper: str, overrides: list[str], config_name: str = "config") -> DictConfig:
    """Return the composed configuration of a paper, as its command would see it; `${...}` stays
    unresolved. Later values win: files, the row that experiment=NAME names, the words' values.

    Hydra takes a tenth of a second for a family of files, so it composes each once, with NONE for
    GROUPS, which differ from row to row; the file of each is merged under what the family sets.
    Raises UserError for an unknown word, file or key, and for a word that Hydra cannot read.
    """
    from omegaconf import OmegaConf

    words = [parsed(word) for word in for_hydra(overrides)]
    choices = [word for word in words if _chooses(paper, word)]
    files = {word.key_or_group: word.value() for word in choices if _names_a_file(word)}
    others = [word.input_line for word in choices if not _names_a_file(word)]
    name, row = files.pop("experiment", None), {}
    if name is not None:
        one_of("experiment", name, rows(paper))
        row = rows(paper)[name]
    of_row = files_of(paper, row)
    files = of_row | files
    under = {  # files of configs/ or the user's own, and not the paper's
        group: group_file(group, file)
        for group, file in files.items()
        if group in GROUPS and (file.endswith(".yaml") or file in names(group))
    }
    given = [f"{group}={NONE if group in under else file}" for group, file in files.items()]
    family = tuple(row["like"]) if row else None
    try:
        config = deepcopy(_files(paper, config_name, family, (*sorted(given), *others)))
    except UserError as error:
        known = _files(paper, config_name, None, ())
        for group, file in files.items():
            if group not in known:
                raise unknown(group, file, known) from error
            one_of(group, file, names(group, paper), "the path of a .yaml file")
        raise UserError(f"{' '.join(overrides)}: {error}") from error
    for group, values in under.items():
        config[group] = OmegaConf.merge(values, config[group])
    if row:
        config.name = name.rpartition("/")[2]
    for key, value in row.items():
        if key not in ("like", *of_row):
            # a file writes \\${key} for a value that is resolved in the Experiment
            value = value.replace("\\${", "${") if isinstance(value, str) else value
            OmegaConf.update(config, key, value, force_add=True)
    OmegaConf.set_struct(config, True)
    for word in words:
        if word not in choices:
            _change(config, word)
    OmegaConf.set_struct(config, None)
    return config


def group_file(group: str, name: str) -> DictConfig:
    """Return configs/<group>/<name>.yaml, or the user's own file if `name` ends with .yaml, merged
    with its `defaults`. Raises UserError if there is no such file."""
    if not name.endswith(".yaml"):
        one_of(group, name, names(group), "the path of a .yaml file")
        return _ours(group, name)
    file = Path(name)
    require(file.is_file(), group, name, "no such file; a name without .yaml is one of ours")
    return merged(group, file)


@cache
def _ours(group: str, name: str) -> DictConfig:
    return merged(group, ROOT / "configs" / group / f"{name}.yaml")


def merged(group: str, file: Path) -> DictConfig:
    """Return the values of `file`, a file of `group`, merged with its `defaults` as Hydra would,
    which are beside it or in configs/<group>. Raises UserError for a missing file."""
    from omegaconf import OmegaConf

    values = read(file)
    parents = values.pop("defaults", [])
    parents += [] if "_self_" in parents else ["_self_"]  # Hydra's rule: last where it is not named
    written = OmegaConf.create(values)
    parts = []
    for parent in parents:
        beside, ours = file.with_name(f"{parent}.yaml"), ROOT / "configs" / group / f"{parent}.yaml"
        known = parent == "_self_" or beside.is_file() or ours.is_file()
        require(known, f"{file}: defaults", parent, f"no such file beside it or in our {group}s")
        at = beside if beside.is_file() and beside != file else ours
        parts.append(written if parent == "_self_" else merged(group, at))
    return OmegaConf.merge(*parts)


def value(key: str, text: str):
    """Return the `text` of a word key=text, parsed as YAML. Raises UserError if it is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{key}={text}: not a YAML value") from error


def help_text(paper: str, overrides: list[str], config_name: str) -> str:
    """Return what --help prints: `hydra.help.template` with its placeholders filled in."""
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("choices", lambda group: ", ".join(names(group)), replace=True)
    OmegaConf.register_new_resolver("keys", ", ".join, replace=True)
    config = compose(paper, overrides, config_name)
    shown = OmegaConf.to_yaml(config)
    config.hydra = _by_hydra(paper, config_name, (), whole=True).hydra
    return config.hydra.help.template.replace("$CONFIG", shown)


@lru_cache(maxsize=4096)  # a plan gives each row the same words
def parsed(word: str) -> Override:
    """Return a word as Hydra reads it. Raises UserError if Hydra cannot read it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(quoted(word))
    except HydraException as error:
        key, _, value = word.partition("=")
        remedy = "cannot be read; close its brackets, or quote the text"
        raise UserError(f"{key}={value}: {remedy}") from error


def _chooses(paper: str, word: Override) -> bool:
    group = word.key_or_group
    chooses = group == "experiment" or "/" in group or word.package is not None
    return chooses or is_group(paper, group)


def _names_a_file(word: Override) -> bool:
    """Return whether a word is group=FILE: not +group=FILE, ~group or group@package=FILE."""
    plain = word.package is None and not (word.is_add() or word.is_force_add() or word.is_delete())
    return plain and isinstance(word.value(), str)


def _change(config: DictConfig, word: Override) -> None:
    from omegaconf import OmegaConf, open_dict
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

    key, text = word.key_or_group, word.input_line.partition("=")[2]
    remedy = "give one value; a list has brackets, [1,2], and text with a comma has quotes"
    require(not word.is_sweep_override(), key, text, remedy)
    value, adds = word.value(), word.is_add() or word.is_force_add()
    try:
        if word.is_delete():
            if error := _unknown_key(key, text, OmegaConf.to_container(config)):
                raise error
            parent, _, last = key.rpartition(".")
            node = OmegaConf.select(config, parent) if parent else config
            require(value in (None, node[last]), f"~{key}", text, f"its value is {node[last]}")
            with open_dict(node):
                del node[last]
            return
        free = not word.is_add() or isinstance(value, dict | list)
        free = free or OmegaConf.select(config, key, throw_on_missing=False) is None
        require(free, f"+{key}", text, f"has a value already; give {key}={text}, without +")
        OmegaConf.update(config, key, value, force_add=adds)
    except (ConfigAttributeError, ConfigKeyError) as error:
        new = UserError(f"{key}={text}: is not a key here; +{key}={text} adds it")
        raise _unknown_key(key, text, OmegaConf.to_container(config)) or new from error
    except OmegaConfBaseException as error:
        raise UserError(f"{key}={text}: {str(error).splitlines()[0]}") from error


def _unknown_key(key: str, value: str, node: Any) -> UserError | None:
    """Return the error for the first unknown part of a dotted key of the nested dict `node`, with
    the nearest known key; None if every part is known."""
    before, parts = "", key.split(".")
    for i, part in enumerate(parts):
        if not isinstance(node, dict) or not node:
            return None
        if part not in node:
            near, rest = nearest(part, map(str, node)), parts[i + 1 :]
            if near is None or not rest:
                return unknown(part, value, map(str, node), before)
            meant = ".".join([near, *rest])
            return UserError(f"unknown key {key}={value}; did you mean {before}{meant}?")
        before += f"{part}."
        node = node[part]
    return None


@cache
def _files(
    paper: str, config_name: str, family: tuple[str, ...] | None, words: tuple[str, ...]
) -> DictConfig:
    """Return what Hydra composes of a paper's files, a row's family files and those of `words`."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for group in GROUPS:
        store.store(group=group, name=NONE, node={})
    if family is not None:
        node = {"defaults": [*family, "_self_"]}
        store.store(group="experiment", name="family", node=node, package="_global_")
        words = ("experiment=family", *words)
    return _by_hydra(paper, config_name, words)


def _by_hydra(
    paper: str, config_name: str, words: tuple[str, ...], whole: bool = False
) -> DictConfig:
    """Return what Hydra composes; `whole`: with Hydra's own block, which has a command's help."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "papers" / paper / "configs"), version_base="1.3"):
        try:
            config = compose(config_name, [SEARCHED, *words], return_hydra_config=whole)
        except (HydraException, YAMLError, ValueError) as error:
            raise UserError(str(error).splitlines()[0]) from error
    OmegaConf.set_struct(config, None)
    return config
