"""The methods, which are the files of configs/method."""

from omegaconf import DictConfig, OmegaConf

from common.config.compose import group_file
from common.config.files import ROOT
from common.config.files import names as files_of
from common.config.schema import Method
from common.config.strict import strict

FOLDER = ROOT / "configs" / "method"


def names() -> list[str]:
    """Return the names of the methods, which are their file names."""
    return files_of("method")


def compose(name: str) -> DictConfig:
    """Return a method file merged with its `defaults`, with `${...}` unresolved. `name` is one of
    our methods or the path of a .yaml file. Raises UserError for an unknown name."""
    return group_file("method", name)


def method(
    name: str, *, max_tokens: int | None = None, steps: int | None = None, **arguments
) -> Method:
    """Return the Method of a name or path, outside of an Experiment. `arguments` replace the same
    arguments of its advantage. Raises UserError for an unknown name, and if the method needs
    max_tokens or steps and it is None."""
    outside = {} if max_tokens is None else {"sampling": {"max_tokens": max_tokens}}
    outside |= {} if steps is None else {"optim": {"steps": steps}}
    root = OmegaConf.create({**outside, "method": compose(name)})
    root.method.advantage = OmegaConf.merge(root.method.advantage, arguments)
    return strict(Method, root.method)
