"""How commands run: files and words (command-line arguments) compose a configuration, `strict`
checks it, then the function runs. Heavy imports come after that."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from common.config.compose import compose, help_text
from common.config.words import options
from common.errors import UserError

CLEANING = 30  # seconds that a command has after Ctrl-C to clean up
HELP = {"-h", "--help"}
SHOW = ("--cfg", "job")  # print the configuration and stop


def main(
    function: Callable,
    schema: type,
    paper: str,
    config_name: str = "config",
    words: list[str] | None = None,
) -> None:
    """Run `function` on the `schema` that `words` compose; None: this process's arguments."""
    typed = sys.argv[1:] if words is None else words
    given = [word for word in typed if word not in (*HELP, *SHOW)]

    def command():
        if HELP & set(typed):
            print(help_text(paper, given, config_name))
            return
        config = compose(paper, given, config_name)
        if SHOW[0] in typed:
            from omegaconf import OmegaConf

            print(OmegaConf.to_yaml(config))
            return
        from common.config.strict import strict

        function(strict(schema, config))

    guard(command)


def run(
    function: Callable[[list[str]], object], help_text: str, words: list[str] | None = None
) -> None:
    """Run `function(words)`, or print `help_text` for --help; None: this process's arguments."""
    words = sys.argv[1:] if words is None else words
    if HELP & set(words):
        print(help_text.strip())
        return
    guard(lambda: function(words))


def on_results(function: Callable[[Path], object], help_text: str) -> None:
    """Run `function(folder)` as `run` does; the only argument is results_dir=FOLDER."""

    def command(words: list[str]) -> None:
        function(Path(options(words, {"results_dir": "results"})["results_dir"]))

    run(command, help_text)


def guard(function: Callable) -> None:
    """Run `function`. A UserError ends the process with exit code 2, Ctrl-C with 130."""
    bare = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if bare and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        function()
    except UserError as error:
        said = (c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(error))
        print(f"error: {''.join(said)}", file=sys.stderr)
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
    """Raise KeyboardInterrupt, and set an alarm: a signal between the taking of a lock and its
    owner's knowledge of it would let the cleanup wait for ever."""
    signal.signal(signal.SIGALRM, _stopped)
    signal.alarm(CLEANING)
    raise KeyboardInterrupt


def _stopped(*_) -> None:
    # os.write: the interrupted code may be in the middle of a print
    os.write(2, b"stopped; run the same command to resume from the last checkpoint\n")
    os._exit(130)  # not sys.exit, as threads of a pool or progress bar must not keep the run alive
