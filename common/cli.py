"""Commands: Hydra composes, `strict` checks, then the function runs; nothing heavy is imported
before.

`main` is for a Hydra application: `python -m papers.<paper>[.<part>] key=value ...`, with `--help`,
`--multirun` and `--cfg job` from Hydra. `run` is for a command without Hydra. A UserError is
printed without a traceback and exits with 2; Ctrl-C exits with 130.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common.config.compose import HYDRA, SEARCHED, prepared, unset
from common.config.files import ROOT, names
from common.config.refusal import refusal
from common.config.rows import register
from common.config.words import options
from common.errors import UserError, require

CLEANING = 30  # seconds that a stopped command has to end what it began


def main(
    function: Callable,
    schema: type,
    paper: str,
    config_name: str = "config",
    words: list[str] | None = None,
) -> None:
    """Run `function(schema instance)` on the configuration that `words` compose; None: the words of
    the command line."""
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
        given = sys.argv[1:] if words is None else words
        _refuse_several_nodes(given)
        register(paper)
        given = prepared(given)
        sys.argv[1:] = [*HYDRA, SEARCHED, *given]
        try:
            command()
        except (HydraException, OmegaConfBaseException, YAMLError) as error:
            composed = partial(unset, paper, given, config_name)
            raise refusal(str(error), given, composed) from error

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, where it would print and exit in its way
    guard(composed)


def _refuse_several_nodes(given: list[str]) -> None:
    """Hydra's launchers start one process a node and connect none of them."""
    for word in given:
        key, _, nodes = word.partition("=")
        remedy = "Hydra's launcher is for one node; for several: rlvr submit"
        require(key != "hydra.launcher.nodes" or nodes == "1", key, nodes, remedy)


def run(
    function: Callable[[list[str]], object], help_text: str, words: list[str] | None = None
) -> None:
    """Run `function(words)`, or print `help_text` where --help is among them; None: the words of
    the command line."""
    words = sys.argv[1:] if words is None else words
    if {"-h", "--help"} & set(words):
        print(help_text.strip())
        return
    guard(lambda: function(words))


def on_results(function: Callable[[Path], object], help_text: str) -> None:
    """`run` of `function(folder)`, whose only word is results_dir=FOLDER."""

    def command(words: list[str]) -> None:
        function(Path(options(words, {"results_dir": "results"})["results_dir"]))

    run(command, help_text)


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
