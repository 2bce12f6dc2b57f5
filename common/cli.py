"""Commands: Hydra composes, `strict` checks, then the function runs; nothing heavy is imported
before.

Every paper command is `python -m papers.<paper>[.<part>] key=value ...`, with `--help`,
`--multirun` and `--cfg job` from Hydra. A UserError is printed without a traceback and exits with
2; Ctrl-C exits with 130.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from common.config import words
from common.config.compose import HYDRA, ROOT, SEARCHED, names, prepared
from common.config.rows import register
from common.errors import UserError, require

CLEANING = 30  # seconds that a stopped command has to end what it began


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
        _refuse_several_nodes(sys.argv[1:])
        register(paper)
        sys.argv[1:] = [*HYDRA, SEARCHED, *prepared(sys.argv[1:])]
        try:
            command()
        except (HydraException, OmegaConfBaseException, YAMLError) as error:
            raise _said(schema, str(error)) from error

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, where it would print and exit in its way
    guard(composed)


def _refuse_several_nodes(given: list[str]) -> None:
    """Hydra's launchers start one process a node and connect none of them."""
    for word in given:
        key, _, nodes = word.partition("=")
        remedy = "Hydra's launcher is for one node; for several: python -m papers.<paper>.launch"
        require(key != "hydra.launcher.nodes" or nodes == "1", key, nodes, remedy)


def _said(schema: type, message: str) -> UserError:
    """Hydra's message; where it asks to append an unknown key, the nearest known one instead."""
    from common.config.strict import unknown_key

    key = re.search(r"Could not override '([\w.]+)'", message)
    if key is None:
        return UserError(message)
    words_of_it = (word for word in sys.argv if word.startswith(f"{key[1]}="))
    value = next(words_of_it, "=").partition("=")[2]
    return unknown_key(schema, key[1], value) or UserError(message)


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
    traceback. After Ctrl-C that takes CLEANING seconds at most."""
    bare = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if bare and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        function()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _stopped()
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt and bare:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(*_) -> None:
    """Ctrl-C. It may come between a lock's being taken and its owner's knowing it; what unwinds
    would then wait for ever."""
    signal.signal(signal.SIGALRM, _stopped)
    signal.alarm(CLEANING)
    raise KeyboardInterrupt


def _stopped(*_) -> None:
    # not print: what was interrupted may be in the middle of it
    os.write(2, b"stopped; the same command resumes from the last checkpoint\n")
    os._exit(130)  # not sys.exit: the threads of a pool or a bar must not keep a stopped run alive
