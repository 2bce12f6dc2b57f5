"""What the source may contain: imports run one way, no text is evaluated, no machine is named."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import ROOT

MATHS = {"torch", "numpy", "scipy", "pandas"}
OURS = {"common", "papers", "slurm", "configs", "bench", "tests"}


def modules(folder: str) -> dict[str, Path]:
    """Dotted name -> file of every module below `folder`."""
    files = sorted((ROOT / folder).rglob("*.py"))
    names = [file.relative_to(ROOT).with_suffix("").parts for file in files]
    return {".".join(n for n in name if n != "__init__"): f for name, f in zip(names, files)}  # noqa: B905


def imported(file: Path) -> set[str]:
    """Every module that `file` imports anywhere, functions included; `from a import b` as a.b."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def below(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


COMMON, PAPERS, SLURM = modules("common"), modules("papers"), modules("slurm")


def test_the_source_was_found():
    assert "common.backends.local" in COMMON
    assert "papers.f_grpo.reproduce" in PAPERS
    assert "common.experiment.Experiment" in imported(COMMON["common.backends.local"])
    assert "common.backends.local.BACKEND" in imported(COMMON["common.backends"])  # in a function


@pytest.mark.parametrize("name", COMMON)
def test_common_never_imports_papers_or_slurm(name):
    for other in imported(COMMON[name]):
        assert not below(other, "papers", "slurm", "bench", "tests", "configs"), other


def test_slurm_imports_no_paper():
    for file in SLURM.values():
        for other in imported(file):
            assert not below(other, "papers", "bench", "tests"), f"{file}: {other}"


@pytest.mark.parametrize("name", PAPERS)
def test_no_paper_imports_another(name):
    own = ".".join(name.split(".")[:2])
    for other in imported(PAPERS[name]):
        assert not below(other, "slurm", "bench", "tests"), other
        assert not below(other, "papers") or below(other, own), other


@pytest.mark.parametrize(
    "name", [n for n in COMMON if below(n, "common.advantages", "common.losses", "common.metrics")]
)
def test_the_maths_imports_only_maths_types_and_errors(name):
    allowed = ["common.types", "common.errors", ".".join(name.split(".")[:2])]
    if name == "common.metrics.__main__":
        allowed.append("common.cli")
    for other in imported(COMMON[name]):
        top = other.split(".")[0]
        if top in OURS:
            assert below(other, *allowed), other
        else:
            assert top in MATHS or top in sys.stdlib_module_names, other


EVALUATORS = {"eval", "exec", "compile", "__import__"}
UNSAFE = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


# Runs programs inside the sandbox; imports nothing of ours and is imported by nothing.
CONTAINED = "common.verifiers.code.sandbox_child"


def test_what_runs_programs_is_apart():
    assert not any(below(other, *OURS) for other in imported(COMMON[CONTAINED]))
    for file in (*COMMON.values(), *PAPERS.values(), *SLURM.values()):
        assert CONTAINED not in imported(file), file


@pytest.mark.parametrize("name", sorted({**COMMON, **PAPERS, **SLURM}.keys() - {CONTAINED}))
def test_text_is_never_evaluated(name):
    file = {**COMMON, **PAPERS, **SLURM}[name]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            assert node.id not in EVALUATORS, f"{file.name}, line {node.lineno}: {node.id}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            where = f"{file.name}, line {node.lineno}"
            owner = getattr(node.func.value, "id", "")
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            assert not (owner == "yaml" and node.func.attr in {"load", "unsafe_load"}), where
            assert not (owner == "os" and node.func.attr in {"system", "popen"}), where
            assert getattr(words.get("shell"), "value", False) is False, where
            if owner == "torch" and node.func.attr == "load":
                assert getattr(words.get("weights_only"), "value", False) is True, where
    assert not {other.split(".")[0] for other in imported(file)} & UNSAFE


@pytest.mark.parametrize("module", ["papers.f_grpo", "papers.f_grpo.reproduce"])
def test_help_is_quick(module):
    program = (
        "import runpy, sys\n"
        f"sys.argv = [{module!r}, '--help']\n"
        "try:\n"
        f"    runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "heavy = {'torch', 'transformers', 'wandb', 'scipy', 'matplotlib'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "seed" in done.stdout
    assert done.stdout.endswith("heavy: []\n")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


# Written in pieces, or this file would find itself.
ABSOLUTE = re.compile(
    r"(?<![\w.:/~}])/" + r"(home|root|work|Users|tmp|mnt|scratch|data|opt|var)/\w"
)
HOSTS = re.compile("|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", "extra-index" + "-url"]))
HOSTS = re.compile(HOSTS.pattern + "|index" + "-url|download" + r"\.pytorch\.org|find" + "-links")


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [(ABSOLUTE, "x = '/" + "home/somebody/results'"), (HOSTS, "--index" + "-url https://x")],
    ids=["absolute paths", "index hosts"],
)
def test_tracked_files_name_no_machine(pattern, seen):
    assert pattern.search(seen)
    found = []
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # figures and gzipped tables
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found, "\n".join(found)
