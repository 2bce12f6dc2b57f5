"""Ctrl-C ends a command, also one that would wait for ever as it cleans up. A run keeps the command
that was typed."""

import signal
import subprocess
import sys

import pytest
from processes import heed
from tiny import ROOT

from common import cli
from common.errors import UserError

pytestmark = pytest.mark.process

COMMAND = """
import threading, time
from common import cli
cli.CLEANING = 1

def work():
    lock = threading.Lock()
    try:
        print("begun", flush=True)
        time.sleep(600)
    finally:
        print("cleaning", flush=True)
        if {stuck}:
            lock.acquire()
            lock.acquire()

cli.guard(work)
"""


@pytest.mark.parametrize("stuck", [False, True])
def test_ctrl_c_ends_what_cleans_up_for_ever(stuck):
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(stuck=stuck)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert out == "cleaning\n"
    assert error == "stopped; run the same command to resume from the last checkpoint\n"
    assert process.returncode == 130


def test_an_error_is_printed_without_control_characters(capsys):
    def command():
        raise UserError("model=\x1b]0;pwn\x07\x9b2J é日\u2028: fix\nthe line")

    with pytest.raises(SystemExit):
        cli.guard(command)
    said = "error: model=\\x1b]0;pwn\\x07\\x9b2J é日\\u2028: fix\nthe line\n"
    assert capsys.readouterr().err == said


TYPED = """
import sys
from common import train
from rlvr_papers.__main__ import main
train.train = lambda x: print(*sys.argv)
main()
"""


def test_a_run_keeps_the_command_that_was_typed():
    words = ["train", "paper=f_grpo", "method=fade", "seed=3"]
    command = [sys.executable, "-c", TYPED, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == f"rlvr {' '.join(words)}\n", done.stderr
