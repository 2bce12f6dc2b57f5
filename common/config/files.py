"""The files of configs/ and papers/<paper>/configs, read without composing."""

from __future__ import annotations

from pathlib import Path

from common.errors import UserError, one_of

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference"  # the committed tables, without their run folders
STUDY = "study"  # the folder of the study, whose runs are the laptop runs of all papers


def names(group: str, paper: str = "") -> list[str]:
    """Return the names of the files in configs/<group> and of `paper`'s own; none begins with _."""
    homes = [ROOT / "configs", *([ROOT / "papers" / paper / "configs"] if paper else [])]
    return sorted({file.stem for home in homes for file in (home / group).glob("[!_]*.yaml")})


def papers() -> list[str]:
    """Return the names of the folders of papers/ that have claims."""
    return sorted(file.parent.name for file in ROOT.glob("papers/*/claims.yaml"))


def studies() -> list[str]:
    """Return the names of the folders of papers/ that have rows, also those without claims."""
    return sorted(file.parents[1].name for file in ROOT.glob("papers/*/configs/reproduce.yaml"))


def known_paper(name: str) -> str:
    """Return `name`. Raises UserError unless it is a paper."""
    one_of("paper", name, papers())
    return name


def read(path: Path) -> dict:
    """Return one YAML file without its `defaults`; every `${...}` stays text, and 1e-6 is a number,
    as in Hydra. Raises UserError naming the file if it cannot be read."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
