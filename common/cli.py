"""Commands: Hydra composes, `strict` checks, then the function runs; nothing heavy is imported
before.

Every paper command is `python -m papers.<paper>[.<part>] key=value ...`, with `--help`,
`--multirun` and `--cfg job` from Hydra. A UserError is printed without a traceback and exits with
2; Ctrl-C exits with 130.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from common.config import words
from common.config.compose import ROOT, names
from common.errors import UserError


def main(function: Callable, schema: type, paper: str, config_name: str = "config") -> None:
    """Run `function(schema instance)` on the configuration that the command line composes."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from common.config.strict import strict

    # what `group=` accepts, for --help: Hydra itself lists only the paper's own groups
    OmegaConf.register_new_resolver("choices", lambda group: ", ".join(names(group)))
    folder = str(ROOT / "papers" / paper / "configs")

    @hydra.main(version_base="1.3", config_path=folder, config_name=config_name)
    def command(config):
        guard(lambda: function(strict(schema, config)))

    def composed():
        try:
            command()
        except (HydraException, OmegaConfBaseException, YAMLError) as error:
            raise UserError(str(error)) from error

    sys.argv[1:] = words.for_hydra(sys.argv[1:])
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, where it would print and exit in its way
    guard(composed)


def options(help_text: str, defaults: dict[str, str]) -> dict[str, str]:
    """key=value arguments of a small command that needs no Hydra; --help prints `help_text`."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(help_text.strip())
        sys.exit(0)
    return words.options(arguments, defaults)


def on_results(function: Callable[[Path], object], help_text: str) -> None:
    """Run `function(folder)` as a command whose only word is results_dir=FOLDER."""
    guard(lambda: function(Path(options(help_text, {"results_dir": "results"})["results_dir"])))


def guard(function: Callable) -> None:
    """Run `function`; a UserError or Ctrl-C ends the process with a message and a code, no
    traceback."""
    try:
        function()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("stopped; the same command resumes from the last checkpoint", file=sys.stderr)
        # not sys.exit: a pool's or a progress bar's threads must not keep a stopped run alive
        sys.stderr.flush()
        os._exit(130)
