"""Hydra's composition of the files under `configs/` and `papers/<paper>/configs/`."""

from __future__ import annotations

from pathlib import Path

from common.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def choices(group: str) -> str:
    """What `group=` accepts, for --help: Hydra itself lists only the paper's own groups."""
    return ", ".join(sorted(file.stem for file in (ROOT / "configs" / group).glob("[!_]*.yaml")))


def compose(paper: str, overrides: list[str], config_name: str = "config"):
    """The composed configuration of a paper, as its command would see it."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from yaml import YAMLError

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "papers" / paper / "configs"), version_base="1.3"):
        try:
            return compose(config_name, overrides=overrides)
        except (HydraException, YAMLError) as error:
            raise UserError(f"{overrides}: {error}") from error


CONFIGS = ".."  # of `common.cli`: configs/ itself, where a paper's name would mean papers/<paper>
