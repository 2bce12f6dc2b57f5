import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import code_cases
import psutil
import pytest
from code_cases import SUM, isolated, judge, reference
from tiny import ROOT

from common.errors import UserError
from common.verifiers.code import sandbox, seccomp, verifier

pytestmark = pytest.mark.sandbox


def processes() -> set[int]:
    """Of this test's sandbox: its user's, and what is below bwrap's init and the zygote."""
    below = psutil.Process(sandbox._current._process.pid).children(recursive=True)[2:]
    user = sandbox.UID + os.getpid()
    everyone = psutil.process_iter(["uids"])
    of_user = {one.pid for one in everyone if one.info["uids"] and one.info["uids"].real == user}
    return {one.pid for one in below} | of_user


# --- hostile programs ---------------------------------------------------------------------------


SIGNALS = """
import os, signal, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""


@isolated
@pytest.mark.parametrize(
    ("program", "outcome", "reason"),
    [
        ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "timeout", ""),
        ("x = bytearray(10 << 30)", "wrong", "MemoryError"),
        ("import os\nos._exit(0)", "wrong", "line 1: ''"),
        ("print(6)", "wrong", "test 2 of 2: line 1: '6', not '-5'"),
        ("while True: print('x' * 10**6)", "wrong", "more than 64 MiB of output"),
        ("import sys\nfor _ in range(1000): sys.stdout.write('x' * 10**6)", "wrong", "64 MiB"),
        ("import os\nos.kill(os.getpid(), 9)\n" + SUM, "wrong", "signal 9"),
        ("import ctypes\nctypes.string_at(0)", "wrong", "signal 11"),
        ("import os\n" + SUM + "import sys; sys.stdout.flush(); os._exit(3)", "wrong", "status 3"),
        ("import time\ntime.sleep(60)", "timeout", "not done after 0.5 s"),
        ("raise ValueError('x' * 10**6)", "wrong", "ValueError"),
        ("def f(: pass", "wrong", "SyntaxError"),
        ("print(" * 10_000, "wrong", ""),
        ("\ud800", "wrong", ""),
        ("", "wrong", ""),
        ("open('x', 'w').write('y' * 10**8)\n" + SUM, "wrong", "OSError"),
        ("from threading import Thread\nThread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
         + SUM, "timeout", ""),
        (SIGNALS + "while True: pass", "timeout", ""),
        (SIGNALS + "while True: time.sleep(1)", "timeout", ""),
    ],
)  # fmt: skip
def test_hostile_program(program, outcome, reason):
    # 0.5 s only where it is to run out: a busy machine takes longer for anything else
    verdict = judge(program, time_limit=0.5 if outcome == "timeout" else 10.0)
    assert verdict.outcome == outcome, verdict
    assert reason in verdict.reason
    assert len(verdict.reason) <= 300
    assert processes() == set()
    assert judge(SUM).outcome == "correct"  # and the sandbox lives on


@isolated
def test_processes_share_one_memory_limit():
    program = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n"
    program += "        x = b'y' * (60 << 20)\n        time.sleep(60)\ntime.sleep(60)"
    text = verifier.response({"code": program})
    verdict = verifier.verify(text, reference(time_limit=10.0), memory_gb=0.25)
    assert verdict.reason == "test 1 of 2: more than 0.25 GiB"
    assert processes() == set()


@isolated
def test_limits_of_one_process():
    look = "from resource import *\nprint([getrlimit(k)[1] for k in (RLIMIT_AS, RLIMIT_FSIZE, "
    look += "RLIMIT_NOFILE, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_NPROC)])"
    result = sandbox.run(look, "", seconds=5, memory=1 << 28)
    assert result.output == f"[{1 << 28}, {sandbox.OUTPUT}, 64, 0, 7, {sandbox.PROCESSES}]\n"
    look = "import os\ns = os.statvfs('/tmp')\nprint(s.f_blocks * s.f_frsize, s.f_files)"
    assert sandbox.run(look, "", seconds=5, memory=1 << 28).output == f"{sandbox.DISK} 4096\n"


@isolated
@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(os.getppid(), 9)",
        "os.kill(1, 9) or 1 / 0",
        "os.kill(0, 15)",
        "[os.kill(p, 9) for p in range(1, 500) if p != os.getpid()] and 1 / 0",
        "open('/proc/1/mem', 'r+b')",
        "open('/proc/1/environ').read()",
        "os.setuid(0)",
        "ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 or 1 / 0",
        "ctypes.CDLL(None).unshare(0x10000000) == 0 or 1 / 0",
        "ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 or 1 / 0",
        "ctypes.CDLL(None).memfd_create(b'x', 0) >= 0 or 1 / 0",
        "socket.socket()",
        "socket.create_connection(('1.1.1.1', 53), 1)",
        "open('/etc/passwd').read()",
        "open('/probe', 'w')",
        "open('/packages/probe', 'w')",
        "open('/sandbox_child.py', 'a')",
        "open('/proc/sys/kernel/hostname', 'w').write('x')",
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
        "os.listdir('/work') or os.listdir('/home') or os.listdir('/root')",
    ],
)
def test_denied(attack):
    """Each attack raises or does nothing (`or 1 / 0`), or kills nobody but the program."""
    program = f"import ctypes, os, resource, socket\ntry:\n    {attack}\n    print('done')\n"
    program += "except Exception as error:\n    print('denied')\n"
    judge(SUM)  # the sandbox stands, whichever tests ran in this process before
    zygote = sandbox._current._process.pid
    verdict = judge(program, [("", "denied")], time_limit=5.0)
    if attack.startswith(("os.kill(0", "os.kill(os.getppid", "os.killpg")):
        assert verdict.reason.startswith("test 1 of 1: ended by signal"), verdict
    else:
        assert verdict.outcome == "correct", verdict
    assert judge(SUM).outcome == "correct"
    assert sandbox._current._process.pid == zygote  # the same sandbox, unharmed


SEARCH = """
parts = [('left-by-', 'the-first'), ('expec', 'ted-output'), ('previous', '-input')]
found = []
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
    for line in maps.read().splitlines():
        a, b = (int(x, 16) for x in line.split()[0].split('-'))
        if ' r' not in line or 'v' in line.split()[-1]: continue
        memory.seek(a)
        try: held = memory.read(b - a)
        except OSError: continue
        for first, second in parts:
            at = held.find(first.encode())
            while at >= 0:
                rest = at + len(first)
                if held.startswith(second.encode(), rest): found.append(first)
                at = held.find(first.encode(), at + 1)
print(found)
"""


@isolated
def test_a_program_sees_no_expected_output_and_nothing_of_another():
    """It searches all of its readable memory for a text of the previous program's, whose parts are
    joined here only, and for the expected output."""
    judge("x = 'left-by-' + 'the-first'\nprint(x)", [("previous-input", "left-by-the-first")])
    tests = [("the-input", "expected-output")]
    verdict = judge(SEARCH, tests, time_limit=10.0)
    assert verdict.reason == "test 1 of 1: line 1: '[]', not 'expected-output'"
    seen = SEARCH.replace("('previous', '-input')", "('the-', 'input')")
    verdict = judge("import sys\nheld_input = sys.stdin.read()" + seen, tests, time_limit=10.0)
    assert "'the-'" in verdict.reason  # the search does find what is there


@isolated
def test_nothing_is_left_behind():
    mounts = Path("/proc/self/mounts").read_text()
    program = (
        "import os, time\nopen('left', 'w').write('x')\nopen('/dev/shm/left', 'w')\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n"
        "    os._exit(0)\n" + SUM
    )
    began = time.monotonic()
    assert judge(program).outcome == "correct"  # at once: a daemon holds nobody up
    assert time.monotonic() - began < 300
    assert processes() == set()
    look = "import os\nprint(os.listdir('/tmp'), [p for p in os.listdir('/proc') if p.isdecimal()])"
    assert judge(look, [("", "[] ['1', '2']")]).outcome == "correct"
    look = "print([l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l])"
    assert judge(look, [("", "['lo']")]).outcome == "correct"  # its own loopback alone
    assert Path("/proc/self/mounts").read_text() == mounts


@isolated
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_the_sandbox_ends_with_its_process(how):
    """Killed, or ended by itself; with a program running inside."""
    program = "import time\\nprint(1, flush=True)\\ntime.sleep(60)"
    script = (
        "import sys, threading, time\nfrom common.verifiers.code import sandbox\n"
        "sandbox.require_bwrap()\nprint(sandbox._current._process.pid, flush=True)\n"
        f"run = lambda: sandbox.run('{program}', '', seconds=60, memory=1 << 28)\n"
        "threading.Thread(target=run, daemon=True).start()\ntime.sleep(0.3)\n"
        "print('running', flush=True)\nsys.stdin.readline()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process = subprocess.Popen(command, **pipes, text=True, env=environment)
    bwrap = psutil.Process(int(process.stdout.readline()))
    assert process.stdout.readline() == "running\n"
    inside = [bwrap, *bwrap.children(recursive=True)]
    assert len(inside) > 3
    if how is None:
        process.stdin.close()
    else:
        process.send_signal(how)
    process.wait(timeout=60)
    assert psutil.wait_procs(inside, timeout=10)[1] == []


@isolated
def test_a_dead_sandbox_is_replaced():
    assert judge(SUM).outcome == "correct"
    sandbox._current._process.kill()
    sandbox._current._process.wait()
    assert judge(SUM).outcome == "correct"


@isolated
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_every_worker_has_a_user_of_its_own_and_no_privilege():
    user = str(2_000_000_000 + os.getpid())
    look = "import os\nprint(os.getuid(), os.getgid(), os.getgroups())\n"
    look += "print([l for l in open('/proc/self/status') if l[:3] in ('Cap', 'NoN')])"
    result = sandbox.run(look, "", seconds=5, memory=1 << 28)
    if user in result.output:
        assert result.output.startswith(f"{user} {user} []\n")
    else:  # an unprivileged container's root
        assert result.output.startswith("60600 60600")
    assert "CapPrm:\\t0000000000000000" in result.output
    assert "CapEff:\\t0000000000000000" in result.output
    assert "NoNewPrivs:\\t1" in result.output


@isolated
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run without privilege already")
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="no system python")
def test_without_privilege():
    """The same in a user namespace, by the system's python, which another user can read."""
    script = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom common.verifiers.code import sandbox\n"
        "for text in sys.argv[2:]:\n"
        "    r = sandbox.run(text, '', seconds=1, memory=1 << 28)\n"
        "    print(r.status, r.code, r.output.strip(), r.errors.strip().split(chr(10))[-1])\n"
    )
    status = "[l.split()[1] for l in open('/proc/self/status') if l[:6] in ('CapEff', 'CapPrm')]"
    programs = {
        "print(7)": "exited 0 7 ",
        "import os; os.kill(0, 9)": "killed 9  ",
        "open('/x', 'w')": "exited 1  OSError: [Errno 30] Read-only file system: '/x'",
        "open('/proc/1/environ').read()": "exited 1  PermissionError: [Errno 13] Permission denied"
        ": '/proc/1/environ'",
        f"print({status})": "exited 0 ['0000000000000000', '0000000000000000'] ",
        "open('left', 'w')": "exited 0  ",
        "import os; print(os.listdir('/tmp'), [p for p in os.listdir('/proc') if p.isdecimal()])": (
            "exited 0 [] ['1', '2'] "
        ),
        "while True: pass": "timeout 0  ",
    }
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may not be readable
        Path(folder).chmod(0o755)
        package = Path(folder, "common")
        shutil.copytree(ROOT / "common" / "verifiers", package / "verifiers")
        for name in ("__init__", "errors", "platforms", "types"):
            shutil.copy(ROOT / "common" / f"{name}.py", package)
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script, folder, *programs],
            **{"user": 60601, "group": 60601, "extra_groups": []},
            capture_output=True,
            text=True,
            timeout=300,
        )
    if "unprivileged user namespaces" in done.stderr:
        pytest.skip("no unprivileged user namespaces here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(programs.values())


# --- the interpreter ----------------------------------------------------------------------------

PROBE = "int probe(void) { return 42; }"
LINKED = """
#include <stdio.h>
int probe(void);
int main(void) { return fprintf(stderr, "the library says %d", probe()) < 0; }
"""


@isolated
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_library_is_found_where_an_absolute_path_in_the_interpreter_says(monkeypatch, tmp_path):
    """As of Pythons that pyenv builds with --enable-shared. Here a program takes Python's place."""
    library, python = tmp_path / "elsewhere" / "libprobe.so.1", tmp_path / "prefix" / "python"
    shared, links = (
        ["-shared", f"-Wl,-soname,{library.name}"],
        [library, f"-Wl,-rpath,{library.parent}"],
    )
    for text, made, words in ((PROBE, library, shared), (LINKED, python, links)):
        made.parent.mkdir()
        command = ["cc", "-x", "c", "-", "-x", "none", "-o", made, *words]
        subprocess.run(command, input=text, text=True, check=True)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr("sys.base_prefix", str(python.parent))
    sandbox.close()
    result = sandbox.run("", "", seconds=1, memory=1 << 28)
    assert result.status == "sandbox"  # it is no Python
    assert "the library says 42" in result.errors


# --- refusal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("installed", [False, True])
def test_where_bubblewrap_cannot_be_had_nothing_is_run(installed, monkeypatch, tmp_path):
    refusal = "bubblewrap cannot isolate.*No permissions" if installed else "bwrap is not installed"
    if installed:
        said = "bwrap: No permissions to create a new namespace"
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if installed else str(tmp_path))
    sandbox.close()
    for call in (verifier.prepare, lambda: judge(SUM)):
        with pytest.raises(UserError, match=refusal):
            call()
    sandbox.close()


def test_a_machine_whose_system_calls_are_not_known_is_refused():
    with pytest.raises(UserError, match="machine sparc"):
        seccomp.program("sparc")


def test_it_works_wherever_bubblewrap_does():
    """Or all other tests of it would be skipped, and nobody would know."""
    known = ("bwrap is not installed", "bubblewrap cannot isolate", "verifier=code: needs Linux")
    assert code_cases.WHY_NOT == "" or code_cases.WHY_NOT.startswith(known)
