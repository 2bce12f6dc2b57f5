"""How commands run: Hydra composes the configuration, `strict` checks it, then the function runs.
Nothing heavy is imported before that.

`main` is for a Hydra application: `python -m papers.<paper>.<part> key=value ...`, with `--help`,
`--multirun` and `--cfg job` from Hydra. `run` is for a command without Hydra. A UserError is
printed without a traceback and the exit code is 2; after Ctrl-C it is 130. In this code base
`words` are command-line arguments.
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
from common.errors import UserError

CLEANING = 30  # seconds that a command has after Ctrl-C to clean up


def main(
    function: Callable,
    schema: type,
    paper: str,
    config_name: str = "config",
    words: list[str] | None = None,
) -> None:
    """Run `function` on the instance of `schema` that the command-line arguments `words` compose.
    None: the arguments of this process."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from common.config.strict import strict

    # for --help, the values that `group=` accepts: Hydra lists only those in the paper's folder
    OmegaConf.register_new_resolver("choices", lambda group: ", ".join(names(group)))
    folder = str(ROOT / "papers" / paper / "configs")

    @hydra.main(version_base="1.3", config_path=folder, config_name=config_name)
    def command(config):
        sys.argv[1:] = typed  # Hydra has read its own words; a run's meta.json keeps the user's
        guard(lambda: function(strict(schema, config)))

    typed = sys.argv[1:]

    def composed():
        given = typed if words is None else words
        register(paper)
        given = prepared(given)
        sys.argv[1:] = [*HYDRA, SEARCHED, *given]
        try:
            command()
        except (HydraException, OmegaConfBaseException, YAMLError) as error:
            composed = partial(unset, paper, given, config_name)
            raise refusal(str(error), given, composed) from error

    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises and does not print and exit itself
    guard(composed)


def run(
    function: Callable[[list[str]], object], help_text: str, words: list[str] | None = None
) -> None:
    """Run `function(words)` on command-line arguments, or print `help_text` if --help is one of
    them. None: the arguments of this process."""
    words = sys.argv[1:] if words is None else words
    if {"-h", "--help"} & set(words):
        print(help_text.strip())
        return
    guard(lambda: function(words))


def on_results(function: Callable[[Path], object], help_text: str) -> None:
    """Run `function(folder)` as `run` does; the only argument is results_dir=FOLDER."""

    def command(words: list[str]) -> None:
        function(Path(options(words, {"results_dir": "results"})["results_dir"]))

    run(command, help_text)


def guard(function: Callable) -> None:
    """Run `function`. A UserError or Ctrl-C ends the process with a message and an exit code,
    without a traceback. After Ctrl-C that takes CLEANING seconds at most."""
    bare = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if bare and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        function()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _stopped()
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt and bare:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(*_) -> None:
    """Handle Ctrl-C: raise KeyboardInterrupt, and end the process after CLEANING seconds
    at most.

    The signal may arrive after a lock was taken and before its owner knows that; the cleanup would
    then wait for ever.
    """
    signal.signal(signal.SIGALRM, _stopped)
    signal.alarm(CLEANING)
    raise KeyboardInterrupt


def _stopped(*_) -> None:
    # os.write: the interrupted code may be in the middle of a print
    os.write(2, b"stopped; the same command resumes from the last checkpoint\n")
    os._exit(130)  # not sys.exit, as threads of a pool or progress bar must not keep the run alive
