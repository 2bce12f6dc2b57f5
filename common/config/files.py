"""The files of configs/ and of papers/<paper>/configs, as they stand."""

from __future__ import annotations

from pathlib import Path

from common.errors import UserError, one_of

ROOT = Path(__file__).resolve().parents[2]


def names(group: str) -> list[str]:
    """The files of configs/<group>: what `group=` accepts, whatever the paper."""
    return sorted(file.stem for file in (ROOT / "configs" / group).glob("[!_]*.yaml"))


def papers() -> list[str]:
    """The papers, by name: the folders that have claims. The others, `pretrained`, only have rows
    of the same form."""
    return sorted(file.parent.name for file in ROOT.glob("papers/*/claims.yaml"))


def known_paper(name: str) -> str:
    """`name`; raises UserError where it is no paper."""
    one_of("paper", name, papers())
    return name


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
