"""The one reader of configuration: files as Hydra composes them, or one file as it stands."""

from __future__ import annotations

from pathlib import Path

from common.config.words import for_hydra
from common.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ".."  # of `compose` and `common.cli`: configs/ itself, where a paper's name means its own


def names(group: str) -> list[str]:
    """The files of configs/<group>: what `group=` accepts, whatever the paper."""
    return sorted(file.stem for file in (ROOT / "configs" / group).glob("[!_]*.yaml"))


def read(path: Path) -> dict:
    """One YAML file as it stands: without what its `defaults` name, every `${...}` as text. Numbers
    are Hydra's: 1e-6 is one. Raises UserError naming the file where it cannot be read."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


def value(key: str, text: str):
    """The value of a word key=text, as in a YAML file: number, text, list, true, null. Raises
    UserError for what is none."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{key}={text}: not a YAML value") from error


def compose(paper: str, overrides: list[str], config_name: str = "config"):
    """The composed configuration of a paper, as its command would see it. Raises UserError for a
    file or an override that Hydra refuses."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "papers" / paper / "configs"), version_base="1.3"):
        try:
            return compose(config_name, overrides=for_hydra(overrides))
        except (HydraException, YAMLError) as error:
            raise UserError(f"{overrides}: {error}") from error
