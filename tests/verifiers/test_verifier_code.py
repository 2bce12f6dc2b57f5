"""The code verifier: its labelled cases, what hostile programs are denied, formats of tests."""

import base64
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import pytest
from tiny import ROOT

from common.errors import UserError
from common.verifiers.code import sandbox, verifier

DATA = ROOT.parent / "shared" / "data"
TESTS = [("3\n1 2 3\n", "6\n"), ("1\n-5\n", "-5\n")]
SUM = "n = int(input())\nprint(sum(map(int, input().split())))\n"


def cannot() -> str:
    """Why bubblewrap cannot be had here, "" where it can; a sandbox that is broken otherwise is an
    error, never a skip."""
    try:
        sandbox.require_bwrap()
    except UserError as error:
        if not str(error).startswith(("bwrap is not installed", "bubblewrap cannot isolate")):
            raise
        return str(error)
    return ""


isolated = pytest.mark.skipif(bool(cannot()), reason=cannot() or "the sandbox works")


def reference(tests=TESTS, time_limit=2.0, **fields) -> str:
    tests = [{"input": given, "output": output} for given, output in tests]
    return verifier.reference({"id": "x", "tests": tests, "time_limit": time_limit, **fields})


def judge(program: str, tests=TESTS, **fields):
    return verifier.verify(verifier.response({"code": program}), reference(tests, **fields))


def rows(name: str) -> list[dict]:
    if not (DATA / name).exists():
        pytest.skip(f"the shared data file {name} is not here")
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def processes() -> set[int]:
    """Of this test's sandbox: its user's, and what descends from it."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if os.stat(folder).st_uid == sandbox.UID + os.getpid() or _inside(int(folder.name)):
                    found.add(int(folder.name))
            except OSError:
                continue
    return found


def _inside(pid: int) -> bool:
    """Whether a process descends from the sandbox of this process, the sandbox itself excluded."""
    chain = []
    while pid > 1 and pid != sandbox._current._process.pid:
        chain.append(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return pid == sandbox._current._process.pid and len(chain) > 2  # bwrap's init, the zygote


# --- the labelled cases -------------------------------------------------------------------------

EXPECTED = {
    "pass": {"correct"},
    "fail": {"wrong"},
    "timeout": {"timeout"},
    "not_pass": {"wrong", "timeout"},
    "any": {"correct", "wrong", "timeout"},
}


@isolated
def test_every_shared_case_is_judged_as_labelled():
    problems = {row["id"]: row for row in rows("code_samples.jsonl")}
    found = {}
    for case in rows("code_cases.jsonl"):
        limit = 0.5 if case["expect"] in ("timeout", "not_pass") else 6.0
        row = problems[case["problem_id"]] | {"time_limit": limit}
        row["tests"] = row["tests"][:20]  # the long rows repeat themselves
        verdict = verifier.verify(verifier.response(case), verifier.reference(row))
        if verdict.outcome not in EXPECTED[case["expect"]]:
            found[case["id"]] = (case["expect"], verdict)
        assert verdict.reward == (verdict.outcome == "correct")
        assert (verdict.reason == "") == (verdict.outcome == "correct")
    assert not found


@isolated
def test_every_shared_problem_has_an_example_that_passes_and_others_fail():
    problems = [row for row in rows("code_samples.jsonl") if row["tests"]]
    references = [verifier.reference(row | {"tests": row["tests"][:3]}) for row in problems]
    assert len(references) > 8
    for number, ref in enumerate(references):
        assert verifier.verify(verifier.example(ref), ref).outcome == "correct"
        other = next(r for r in references if json.loads(r)["tests"] != json.loads(ref)["tests"])
        if number:
            assert verifier.verify(verifier.example(ref), other).outcome == "wrong"


# --- hostile programs ---------------------------------------------------------------------------


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
        ("import os\nos.abort()", "wrong", "signal 6"),
        ("import os\n" + SUM + "import sys; sys.stdout.flush(); os._exit(3)", "wrong", "status 3"),
        ("import time\ntime.sleep(60)", "timeout", "not done after 0.5 s"),
        ("raise ValueError('x' * 10**6)", "wrong", "ValueError"),
        ("def f(: pass", "wrong", "SyntaxError"),
        ("print(" * 10_000, "wrong", ""),
        ("\0", "wrong", ""),
        ("\ud800", "wrong", ""),
        ("", "wrong", ""),
        ("open('x', 'w').write('y' * 10**8)\n" + SUM, "wrong", "OSError"),
        ("from threading import Thread\nThread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
         + SUM, "timeout", ""),
    ],
)  # fmt: skip
def test_hostile_program(program, outcome, reason):
    patient = "MiB" in reason or "OSError" in reason  # page faults are slow on a busy machine
    verdict = judge(program, time_limit=10.0 if patient else 0.5)
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


SIGNALS = """
import os, signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""


@isolated
def test_ignored_signals_do_not_delay_the_deadline():
    for idle in ("while True: pass", "import time\nwhile True: time.sleep(1)"):
        began = time.monotonic()
        assert judge(SIGNALS + idle, time_limit=0.3).outcome == "timeout"
        assert time.monotonic() - began < 4


@isolated
@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(os.getppid(), 9)",
        "os.kill(1, 9) or 1 / 0",
        "os.kill(-1, 9) or 1 / 0",
        "os.kill(0, 15)",
        "os.killpg(os.getpgrp(), 9)",
        "[os.kill(p, 9) for p in range(1, 500) if p != os.getpid()] and 1 / 0",
        "open('/proc/1/mem', 'r+b')",
        "open('/proc/1/environ').read()",
        "os.setuid(0)",
        "os.chroot('/')",
        "ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 or 1 / 0",
        "ctypes.CDLL(None).unshare(0x10000000) == 0 or 1 / 0",
        "ctypes.CDLL(None).unshare(0x20000) == 0 or 1 / 0",
        "ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 or 1 / 0",
        "ctypes.CDLL(None).memfd_create(b'x', 0) >= 0 or 1 / 0",
        "ctypes.CDLL(None).shmget(1, 4096, 0o1600) >= 0 or 1 / 0",
        "socket.socket()",
        "socket.create_connection(('1.1.1.1', 53), 1)",
        "open('/etc/passwd').read()",
        "open('/etc/probe', 'w')",
        "open('/probe', 'w')",
        "open('/usr/lib/probe', 'w')",
        "open('/dev/probe', 'w')",
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


@isolated
def test_a_program_sees_no_expected_output_and_nothing_of_another():
    """It searches all of its readable memory for a text of the previous program's, whose parts are
    joined here only, and for the expected output."""
    judge("x = 'left-by-' + 'the-first'\nprint(x)", [("previous-input", "left-by-the-first")])
    search = (
        "import re\nfound = []\nparts = [('left-by-', 'the-first'), ('expec', 'ted-output'),"
        " ('previous', '-input')]\n"
        "with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:\n"
        "    for line in maps.read().splitlines():\n"
        "        a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        if ' r' not in line or 'v' in line.split()[-1]: continue\n"
        "        memory.seek(a)\n"
        "        try: held = memory.read(b - a)\n"
        "        except OSError: continue\n"
        "        for first, second in parts:\n"
        "            at = held.find(first.encode())\n"
        "            while at >= 0:\n"
        "                rest = at + len(first)\n"
        "                if held.startswith(second.encode(), rest): found.append(first)\n"
        "                at = held.find(first.encode(), at + 1)\n"
        "assert any(open('/proc/self/maps'))\n"
        "print(found)"
    )
    verdict = judge(search, [("the-input", "expected-output")], time_limit=10.0)
    assert verdict.reason == "test 1 of 1: line 1: '[]', not 'expected-output'"
    seen = search.replace("('previous', '-input')", "('the-', 'input')")
    seen = seen.replace("import re", "import sys\nheld_input = sys.stdin.read()")
    verdict = judge(seen, [("the-input", "expected-output")], time_limit=10.0)
    assert "'the-'" in verdict.reason  # the search does find what is there


@isolated
def test_nothing_is_left_behind():
    mounts = Path("/proc/self/mounts").read_text()
    program = (
        "import os, time\nopen('left', 'w').write('x')\nopen('/dev/shm/left', 'w')\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n"
        "    os._exit(0)\n" + SUM
    )
    began = time.monotonic()
    assert judge(program).outcome == "correct"  # at once: a daemon holds nobody up
    assert time.monotonic() - began < 5
    assert processes() == set()
    look = "import os\nprint(os.listdir('/tmp'), [p for p in os.listdir('/proc') if p.isdecimal()])"
    assert judge(look, [("", "[] ['1', '2']")]).outcome == "correct"
    assert Path("/proc/self/mounts").read_text() == mounts


@isolated
def test_the_only_network_is_the_sandbox_s_own_loopback():
    look = "print([l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l])"
    assert judge(look, [("", "['lo']")]).outcome == "correct"


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
    bwrap = int(process.stdout.readline())
    inside = {bwrap, *descendants(bwrap)}
    assert len(inside) >= 3
    assert process.stdout.readline() == "running\n"
    inside |= descendants(bwrap)
    if how is None:
        process.stdin.close()
    else:
        process.send_signal(how)
    process.wait(timeout=20)
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in inside):
            break
        time.sleep(0.05)
    assert not [pid for pid in inside if Path(f"/proc/{pid}").exists()]


def descendants(pid: int) -> set[int]:
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found |= {int(child), *descendants(int(child))}
    return found


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


@pytest.fixture
def open_folder():
    """One that every user may read; pytest's own may not be."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@isolated
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run without privilege already")
def test_without_privilege(open_folder):
    """The same in a user namespace, by the system's python, which another user can read."""
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("no system python")
    package = open_folder / "common"
    shutil.copytree(ROOT / "common" / "verifiers", package / "verifiers")
    for name in ("__init__", "errors", "types"):
        shutil.copy(ROOT / "common" / f"{name}.py", package)
    script = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom common.verifiers.code import sandbox\n"
        "for text in sys.argv[2:]:\n"
        "    r = sandbox.run(text, '', seconds=1, memory=1 << 28)\n"
        "    print(r.status, r.code, r.output.strip(), r.errors)\n"
    )
    programs = [
        "print(7)",
        "import os; os.kill(0, 9)",
        "import os; open('/x', 'w')",
        "import os; open('/proc/1/environ').read()",
        "print([l.split()[1] for l in open('/proc/self/status') if l[:6] in ('CapEff', 'CapPrm')])",
        "import os; print(os.listdir('/tmp'), os.getuid(), open('left', 'w'))",
        "import os; print(os.listdir('/tmp'), [p for p in os.listdir('/proc') if p.isdecimal()])",
        "while True: pass",
    ]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", script, str(open_folder), *programs],
        **{"user": 60601, "group": 60601, "extra_groups": []},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unprivileged user namespaces" in done.stderr:
        pytest.skip("no unprivileged user namespaces here")
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert said.startswith("exited 0 7 \nkilled 9")
    assert "Read-only file system" in said
    assert "PermissionError" in said.split("'/x'")[1]
    assert "['0000000000000000', '0000000000000000']" in said
    assert "[] ['1', '2']" in said
    assert "timeout 0" in said


# --- semantics ----------------------------------------------------------------------------------


@isolated
@pytest.mark.parametrize(
    "program",
    [
        "import sys\nd = sys.stdin.read().split()\nprint(sum(map(int, d[1:])))",
        "n, s = [l.split() for l in open(0)]\nprint(sum(map(int, s)))",
        "n, s = [l.split() for l in open('/dev/stdin')]\nprint(sum(map(int, s)))",
        "import sys\nsys.stdin.buffer.readline()\n"
        "sys.stdout.buffer.write(b'%d' % sum(map(int, sys.stdin.buffer.readline().split())))",
        "import os\nd = os.read(0, os.fstat(0).st_size).split()\nprint(sum(map(int, d[1:])))",
        "import io, os\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\n" + SUM,
        SUM + "exit()",
        SUM + "import sys; sys.exit(1)",
        SUM + "raise SystemExit('done')",
        "if __name__ == '__main__':\n    " + SUM.replace("\n", "\n    "),
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**27)\n"
        "def f(n): return n and f(n - 1)\ndef main():\n    f(10**4)\n    "
        + SUM.replace("\n", "\n    ")
        + "\nt = threading.Thread(target=main)\nt.start()",
        "def f(n): return n and f(n - 1)\nf(40_000)\n" + SUM,
        "d = defaultdict(int)\nprint(reduce(lambda a, b: a + b, [*map(int, "
        "stdin.read().split())][1:]))",  # names of the checker's imports
        "from multiprocessing import Pool\ninput()\nwith Pool(2) as p: x = p.map(int, "
        "input().split())\nprint(sum(x))",
        "out = open(1, 'w')\n" + SUM.replace("print(", "out.write('%d' % "),
        "import atexit, sys\nout = []\natexit.register(lambda: sys.stdout.write(out[0]))\n"
        "input()\nout.append(str(sum(map(int, input().split()))))",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 0\n" + SUM,
        SUM + "import sys; sys.stderr.write('debug')",
        SUM + "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    ],
)
def test_ways_to_read_and_write(program):
    verdict = judge(program, time_limit=6.0)
    assert verdict.outcome == "correct", verdict


@isolated
@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("1.500", "1.5", True),
        ("1e3 2", "1000 2.0", True),
        ("1.5000000001", "1.5", False),
        ("0.30000000000000004", "0.3", False),
        ("  a  \n b ", "a\nb\n\n", True),
        ("a b", "a  b", False),
        ("1  2", "1 2", True),
        ("a\r\nb", "a\nb", True),
        ("a\n\nb", "a\nb", False),
        ("YES", "Yes", False),
        ("é→😀", "é→😀", True),
        ("nan", "nan", True),
        ("sNaN", "1", False),
        ("", "", True),
        ("", "0", False),
    ],
)
def test_comparison_of_output(output, expected, same):
    assert (verifier._different_lines(output, expected) is None) == same
    program = f"import sys\nsys.stdout.buffer.write({output.encode()!r})"
    assert judge(program, [("", expected)]).reward == same


@isolated
@pytest.mark.parametrize(
    ("body", "expected", "outcome"),
    [
        ("return [a, b]", "[1, [2]]", "correct"),
        ("return a, b", "[1, [2]]", "correct"),
        ("return [float(a), b]", "[1, [2]]", "correct"),
        ("return None", "null", "correct"),
        ("print([a, b])", "[1, [2]]", "wrong"),
        ("return '[1, [2]]'", "[1, [2]]", "wrong"),
        ("b.append(3); return [a, b]", "[1, [2]]", "wrong"),
        ("return {1, 2}", "[1, 2]", "wrong"),
        ("import sys; sys.exit(0)", "null", "wrong"),
        ("import os; os._exit(0)", "null", "wrong"),
        ("x = []; x.append(x); return x", "[]", "wrong"),
        ("x = []\n        for _ in range(10**5): x = [x]\n        return x", "[]", "wrong"),
        ("return 10**10_000", "1", "wrong"),
        ("return float('nan')", "NaN", "wrong"),
        ("yield 1", "[1]", "wrong"),
        ("return input()", "null", "wrong"),
    ],
)
def test_functional(body, expected, outcome):
    program = "class Solution:\n    def f(self, a: int, b: List[int]) -> Optional[int]:\n"
    program += f"        {body}"
    program += "\nif __name__ == '__main__':\n    print(Solution().f(*map(int, input().split())))"
    fields = {"test_type": "functional", "fn_name": "f"}
    verdict = judge(program, [("1\n[2]", expected)], **fields)
    assert verdict.outcome == outcome, verdict


@isolated
def test_a_name_of_the_imports_is_no_solution():
    fields = {"test_type": "functional", "fn_name": "gcd"}
    assert judge("x = 1", [("4\n6", "2")], **fields).outcome == "wrong"
    assert judge("def gcd(a, b): return 2", [("4\n6", "2")], **fields).outcome == "correct"


@isolated
def test_numpy_is_there_where_it_is_here():
    pytest.importorskip("numpy")
    program = "import numpy as np\n" + SUM.replace("sum(map(int", "np.sum(np.fromiter(map(int")
    program = program.replace("split())))", "split()), dtype=int)))")
    assert judge(program, time_limit=6.0).outcome == "correct"


@isolated
def test_time_in_all_is_bounded():
    tests = [("", "1")] * 10
    ref = reference(tests, time_limit=1.0)
    program = "```python\nimport time\ntime.sleep(0.4)\nprint(1)\n```"
    verdict = verifier.verify(program, ref, total_time=0.6)
    assert verdict.outcome == "timeout"
    assert verdict.reason.startswith("test 2 of 10")


# --- the program in a response ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\nx\n```", "x\n"),
        ("First:\n```python\na\n```\nthen\n```py\nb\n```\nend", "b\n"),
        ("```python\na\n```\n```\nb\n```", "b\n"),
        ("```python\na\n```\nrun it:\n```bash\nls\n```", "a\n"),
        ("```python\na\n```\n```python\ncut", "a\n"),
        ("```python\ncut", None),
        ("```cpp\nint x;\n```", None),
        ("<think>```python\na\n```</think>\n```python\nb\n```", "b\n"),
        ("<think>```python\na\n```", None),
        ("<think>```python\na\n```</think> so it is", None),
        ("  ```Python3 title=x\n  a\n  ```", "  a\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("use ```x``` inline", None),
        ("The answer is 5.", None),
        ("", None),
        ("print(1)", "print(1)"),
        ("while True: pass", "while True: pass"),
        ("x += 1", "x += 1"),
        ("`" * 1_000_000, None),
        (" " * 1_000_000 + "!", None),
        ("```" + "a" * 1_000_000 + "`", None),
        ("a" * 1_000_000, None),
        ("a, " * 300_000, None),
    ],
)
def test_extract(response, program):
    began = time.process_time()
    assert verifier.extract(response) == program
    assert time.process_time() - began < 1


def test_no_program_is_unparsed():
    assert verifier.verify("I cannot.", reference()).outcome == "unparsed"
    assert verifier.verify("\ud800\0", reference()).outcome == "unparsed"


def test_response_survives_its_own_fence():
    for program in ("x\n", "s = '```'", "'''\n````\n'''"):
        assert verifier.extract(verifier.response({"code": program})).strip() == program.strip()
    assert verifier.response({"response": "r"}) == "r"


# --- references ---------------------------------------------------------------------------------


def read_tests(row: dict) -> list[tuple[str, str]]:
    fields = json.loads(verifier.reference({"id": "x"} | row))
    return [(test["input"], test["output"]) for test in fields["tests"]]


def hub(private, **fields) -> dict:
    public = json.dumps([{"input": "1", "output": "2", "testtype": "stdin"}])
    return {"question_id": "q", "public_test_cases": public, "private_test_cases": private} | fields


def packed(thing, protocol=4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(thing, protocol))).decode()


def test_livecodebench_rows():
    private = [{"input": "é", "output": "4", "testtype": "stdin"}]
    both = [("1", "2"), ("é", "4")]
    assert read_tests(hub(json.dumps(private))) == both
    plain = base64.b64encode(zlib.compress(json.dumps(private).encode())).decode()
    assert read_tests(hub(plain)) == both
    for protocol in range(6):
        assert read_tests(hub(packed(json.dumps(private, ensure_ascii=False), protocol))) == both
    row = hub("", metadata='{"func_name": "f"}')
    row["public_test_cases"] = row["public_test_cases"].replace("stdin", "functional")
    assert json.loads(verifier.reference(row))["fn_name"] == "f"
    row["metadata"], row["starter_code"] = "{}", "class Solution:\n    def g(self, x):\n        "
    assert json.loads(verifier.reference(row))["fn_name"] == "g"


class Attack:
    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def test_pickles_are_never_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for thing in (Attack(), ["[]"], ("[]", "[]"), b"[]", {"a": "[]"}):
        for protocol in (0, 2, 4):
            with pytest.raises(UserError, match=r"row q.*pickle operation|row q.*strings"):
                verifier.reference(hub(packed(thing, protocol)))
    assert list(tmp_path.iterdir()) == []
    for private in ("???", "AAAA", packed("[]")[:-8]):
        with pytest.raises(UserError, match="row q: its tests cannot be read"):
            verifier.reference(hub(private))


def test_contest_rows():
    row = {
        "name": "n",
        "public_tests": {"input": ["1"], "output": ["2"]},
        "private_tests": {"input": [], "output": []},
        "generated_tests": {"input": ["3"], "output": ["4"]},
        "time_limit": {"seconds": 8, "nanos": 500_000_000},
    }
    assert read_tests(row) == [("1", "2"), ("3", "4")]
    assert json.loads(verifier.reference(row))["time_limit"] == 8.5
    row["time_limit"] = {"seconds": 1, "nanos": 0}
    assert json.loads(verifier.reference(row))["time_limit"] == 6.0
    row["public_tests"]["output"] = []
    with pytest.raises(UserError, match="tests cannot be read"):
        verifier.reference(row)


def test_taco_rows():
    tests = {"inputs": ["1\n", ["2", "3"]], "outputs": ["4\n", ["5", "6"]]}
    assert read_tests({"input_output": json.dumps(tests)}) == [("1\n", "4\n"), ("2\n3", "5\n6")]
    tests = {"fn_name": "f", "inputs": [[[1, 2], "a"]], "outputs": [[3]]}
    row = {"id": "x", "input_output": json.dumps(tests)}
    assert read_tests(row) == [('[1, 2]\n"a"', "3")]
    assert json.loads(verifier.reference(row))["test_type"] == "functional"
    tests["outputs"] = [[3, 4]]
    assert read_tests({"input_output": tests | {"inputs": [[5]]}}) == [("5", "[3, 4]")]


ONE = {"input": "1", "output": "1"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a"}, "row a: tests is empty"),
        ({"id": "a", "tests": []}, "row a: tests is empty"),
        ({"id": "a", "tests": [{"input": "1"}]}, "row a: .*output"),
        ({"id": "a", "tests": [{"input": 1, "output": "1"}]}, "row a: "),
        ({"id": "a", "tests": [ONE], "test_type": "functional"}, "fn_name"),
        ({"id": "a", "tests": [ONE | {"input": "x"}], "fn_name": "f"}, "row a: "),
        ({"id": "a", "tests": [ONE], "time_limit": -1}, "time_limit=-1"),
        ({"id": "a", "tests": [ONE], "time_limit": "2 s"}, "row a: its tests cannot be read"),
    ],
)
def test_bad_rows_are_named(row, said):
    with pytest.raises(UserError, match=said):
        verifier.reference(row)


@pytest.mark.parametrize("bad", ["", "6", "{}", '{"tests": []}', "[" * 100])
def test_bad_reference(bad):
    with pytest.raises(UserError, match="reference="):
        verifier.verify("```python\n```", bad)


def test_bad_options():
    for option in ({"memory_gb": 0}, {"total_time": 0}):
        with pytest.raises(UserError, match=next(iter(option))):
            verifier.verify("```python\n```", reference(), **option)


# --- refusal ------------------------------------------------------------------------------------


def test_without_bubblewrap_nothing_is_run(monkeypatch, tmp_path):
    sandbox.close()
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (verifier.prepare, lambda: judge("open('ran', 'w')")):
        with pytest.raises(UserError, match=r"bwrap is not installed.*apt-get install bubblewrap"):
            call()


def test_where_namespaces_are_refused_nothing_is_run(monkeypatch, tmp_path):
    sandbox.close()
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for call in (verifier.prepare, lambda: judge(SUM)):
        with pytest.raises(UserError, match=r"bubblewrap cannot isolate.*No permissions"):
            call()
