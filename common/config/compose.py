"""The reader of configurations: it composes a paper's files with Hydra, or one file of a group with
its `defaults`. A row (a named experiment configuration) is its family, which Hydra composes once,
with the row's few values set on it."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from common.config.files import ROOT, names, read
from common.config.refusal import refusal
from common.config.rows import (
    MERGED,
    NONE,
    files_of,
    is_group,
    register,
    register_family,
    rows,
    values_of,
)
from common.config.words import for_hydra, quoted
from common.errors import UserError, one_of, require

GROUPS = ("method", "model", "data", "eval")  # method=mine.yaml takes a file of the user's own
# as `paper` of `compose` and `common.cli.main`: configs/ itself instead of a paper's own configs/
CONFIGS = ".."
SEARCHED = "hydra.searchpath=[pkg://configs]"  # configs/ is searched after the paper's own folder


def merged(group: str, file: Path):
    """Return the values of `file`, a file of `group`, merged with its `defaults` as Hydra would
    compose them; `${...}` stays unresolved. A default is a file next to it, or else one in
    configs/<group>.

    Hydra itself is not used: it keeps one global state per process, which in verl's driver process
    belongs to verl. Raises UserError for a file that does not exist.
    """
    from omegaconf import OmegaConf

    values = read(file)
    parents = values.pop("defaults", [])
    parents += [] if "_self_" in parents else ["_self_"]  # Hydra's rule: last where it is not named
    written = OmegaConf.create(values)
    parts = []
    for parent in parents:
        beside, ours = file.with_name(f"{parent}.yaml"), ROOT / "configs" / group / f"{parent}.yaml"
        known = parent == "_self_" or beside.is_file() or ours.is_file()
        require(known, f"{file}: defaults", parent, f"no file next to it and none of our {group}s")
        at = beside if beside.is_file() and beside != file else ours
        parts.append(written if parent == "_self_" else merged(group, at))
    return OmegaConf.merge(*parts)


def prepared(words: list[str]) -> list[str]:
    """Return the words (command-line arguments) in the form that Hydra takes. If a word names a
    file of the user's own (method=mine.yaml), Hydra is given the file, and the word then gives its
    name."""
    return [quoted(_known(word)) for word in for_hydra(words)]


def _known(word: str) -> str:
    """Store a file of the user's own with Hydra, and return the word with the name that the file
    has there; return any other word unchanged."""
    group, _, path = word.partition("=")
    if group not in GROUPS or not path.endswith(".yaml"):
        return word
    from hydra.core.config_store import ConfigStore

    file = Path(path)
    require(file.is_file(), group, path, "no such file; a name without .yaml is one of ours")
    taken = f"configs/{group}/ has a file of this name; give yours another"
    require(file.stem not in names(group), group, path, taken)
    ConfigStore.instance().store(name=file.stem, node=merged(group, file), group=group)
    return f"{group}={file.stem}"


def value(key: str, text: str):
    """Return the value of a word key=text, parsed as YAML: a number, text, list, true or null.
    Raises UserError for text that is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{key}={text}: not a YAML value") from error


def compose(paper: str, overrides: list[str], config_name: str = "config") -> dict[str, Any]:
    """Return the composed configuration of a paper, as its command would see it; `${...}` stays
    unresolved. Raises UserError for a file or an override that Hydra refuses.

    What the words choose (files and a row) is composed once per process. Words that set a value
    change a copy. Whatever is more than that, such as `+key=value` or a file of the user's own, is
    left to Hydra.
    """
    words = prepared(overrides)
    chosen = tuple(word for word in words if _chooses(paper, word))
    own_file = any(".yaml" in word for word in overrides)  # the user may change it in between
    composed = None if own_file else deepcopy(_chosen(paper, chosen, config_name))
    for word in words if composed is not None else ():
        if word not in chosen and not _set(composed, word):
            composed = None
            break
    return _by_hydra(paper, tuple(words), config_name) if composed is None else composed


def help_text(paper: str, overrides: list[str], config_name: str) -> str:
    """Return what --help prints: the `hydra.help.template` of a command's files, with the composed
    configuration in place of $CONFIG, and of ${choices:GROUP} the files of a group."""
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("choices", lambda group: ", ".join(names(group)), replace=True)
    found = OmegaConf.create(_by_hydra(paper, tuple(prepared(overrides)), config_name, whole=True))
    template = found.hydra.help.template
    del found["hydra"]
    return template.replace("$CONFIG", OmegaConf.to_yaml(found))


def _chooses(paper: str, word: str) -> bool:
    """Return whether a word chooses a file or a row instead of setting a value."""
    key = word.partition("=")[0]
    return key == "experiment" or "/" in key or "@" in key or is_group(paper, key)


def _set(config: dict[str, Any], word: str) -> bool:
    """Set the value that `word` gives to a key of `config`. Return False, with `config` unchanged,
    for a word that does not do just that."""
    path, value, sign = _value_of(word)
    if sign is None:
        return False
    *parents, last = path
    for part in parents:
        node = config.get(part)
        if not isinstance(node, dict):
            return False
        config = node
    if (last in config) == (sign == "+"):  # to be refused by Hydra, which says why
        return False
    config[last] = deepcopy(value)
    return True


@lru_cache(maxsize=4096)
def _value_of(word: str) -> tuple[list[str], Any, str | None]:
    """Return (the parts of the key, the value, "+" for +key=value and "" for key=value). The last
    is None for any other word."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        one = OverridesParser.create().parse_override(word)
    except HydraException:
        return [], None, None
    signs = {one.type.CHANGE: "", one.type.ADD: "+"}
    sets = one.type in signs and not one.is_sweep_override()
    value = one.value() if sets else {}
    whole = not isinstance(value, dict)  # Hydra merges a dict into the one that is there
    return one.key_or_group.split("."), value, signs[one.type] if whole else None


@lru_cache(maxsize=512)  # a sweep composes a row once per seed, and tables repeat rows
def _chosen(paper: str, chosen: tuple[str, ...], config_name: str) -> dict[str, Any]:
    """Return the configuration of the row and the files that the words choose.

    A file of MERGED is put under what the paper and the family set in its group, so that a family
    is composed once for all methods and models.
    """
    files = dict(word.split("=", 1) for word in chosen if "=" in word)
    name = files.pop("experiment", None)
    row = rows(paper).get(name, {}) if name else {}
    if len(files) < len(chosen) - bool(row):  # to be refused by Hydra, which says why
        return _by_hydra(paper, chosen, config_name)
    files = files_of(paper, row) | files
    merged_here = {group: files[group] for group in MERGED if files.get(group) in names(group)}
    family = tuple(sorted((files | dict.fromkeys(merged_here, NONE)).items()))
    try:
        composed = deepcopy(_family(paper, config_name, tuple(row.get("like", ())), family))
    except UserError:  # in the words that were given
        return _by_hydra(paper, chosen, config_name)
    for group, file in merged_here.items():
        composed[group] = _over(_file(group, file), composed[group])
    return _over(composed, values_of(paper, name)) if row else composed


@cache
def _family(
    paper: str, config_name: str, like: tuple[str, ...], files: tuple[tuple[str, str], ...]
) -> dict:
    """Return the configuration of the family files `like` with these files, as Hydra composes it.
    For the file NONE a group has only what the paper and the family set in it."""
    words = ["experiment=family"] if like else []
    register_family(like)
    chosen = (f"{group}={file}" for group, file in files)
    return _composed(paper, (*words, *chosen), config_name)


@cache
def _file(group: str, name: str) -> dict[str, Any]:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(merged(group, ROOT / "configs" / group / f"{name}.yaml"))


def _over(below: Any, above: Any) -> Any:
    """Return `above` merged over `below` as OmegaConf merges: dicts key by key, the rest whole."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = {key: _over(below[key], above[key]) for key in above if key in below}
    return below | above | merged


def _by_hydra(
    paper: str, words: tuple[str, ...], config_name: str, whole: bool = False
) -> dict[str, Any]:
    names = [word.partition("=")[2] for word in words if word.startswith("experiment=")]
    for name in names:
        one_of("experiment", name, rows(paper))
        register(paper, name)
    return _composed(paper, words, config_name, whole)


def _composed(
    paper: str, words: tuple[str, ...], config_name: str, whole: bool = False
) -> dict[str, Any]:
    """Return what Hydra composes; `whole`: with Hydra's own block, which has a command's help."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "papers" / paper / "configs"), version_base="1.3"):
        try:
            found = compose(config_name, [SEARCHED, *words], return_hydra_config=whole)
            return OmegaConf.to_container(found)
        except (HydraException, YAMLError) as error:

            def known(key: str) -> dict[str, Any]:
                """Return what the files compose without the word for `key`."""
                own = [w for w in words if _chooses(paper, w) and w.partition("=")[0] != key]
                return _chosen(paper, tuple(own), config_name)

            raise refusal(str(error), words, known) from error
