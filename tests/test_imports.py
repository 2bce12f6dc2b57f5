"""What the source may contain: imports run one way, no text is evaluated, no machine is named."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import ROOT

# Rooms and modules of common/, lowest floor first: a room imports its own modules and lower floors.
FLOORS = [
    "errors palette progress seeds types",
    "advantages config controllers losses results tasks watch",
    "cli models plotting",
    "methods metrics rollout verifiers",
    "claims datasets experiment",
    "comparison evaluation",
    "backends",
    "sweeps",
    "pretrained yardstick",
    "report",
    # commands that keep their names; the code is in the rooms
    "api evaluate explain_gap import_runs theory train",
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
MATHS = {"torch", "numpy", "scipy", "pandas"}
OURS = {"common", "papers", "slurm", "configs", "bench", "tests", "rlvr_papers"}


def modules(folder: str) -> dict[str, Path]:
    """Dotted name -> file of every module below `folder`."""
    files = sorted((ROOT / folder).rglob("*.py"))
    names = [file.relative_to(ROOT).with_suffix("").parts for file in files]
    return {".".join(n for n in name if n != "__init__"): f for name, f in zip(names, files)}  # noqa: B905


def imported(file: Path) -> set[str]:
    """Every module that `file` imports anywhere, functions included; `from a import b` as a.b."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def below(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


COMMON, PAPERS, SLURM = modules("common"), modules("papers"), modules("slurm")
# Runs programs inside the sandbox; imports nothing of ours and is imported by nothing.
CONTAINED = "common.verifiers.code.sandbox_child"


def test_the_source_was_found():
    assert "common.backends.local" in COMMON
    assert "papers.f_grpo.reproduce" in PAPERS
    assert "common.experiment.Experiment" in imported(COMMON["common.backends.local"])
    assert "common.backends.local.BACKEND" in imported(COMMON["common.backends"])  # in a function


def arrows(source: dict[str, Path]) -> dict[str, set[str]]:
    """Module -> the modules of `source` that it imports; a name from a package's __init__ is of
    the package."""
    targets = {}
    for name, file in source.items():
        others = {one if one in source else one.rpartition(".")[0] for one in imported(file)}
        targets[name] = (others & source.keys()) - {name}
    return targets


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """What still imports each other when all that imports nothing else has been taken away."""
    left = dict(arrows)
    while free := [name for name in left if not left[name] & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def room(module: str) -> str:
    return module.split(".")[1]


def upward(arrows: dict[str, set[str]]) -> list[str]:
    """Imports of a room that is not on a lower floor."""
    return [
        f"{name} imports {other}"
        for name, others in arrows.items()
        for other in sorted(others)
        if room(name) != room(other) and FLOOR[room(other)] >= FLOOR[room(name)]
    ]


def test_a_circle_and_an_import_upwards_are_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert upward({"common.claims.judge": {"common.metrics.passk", "common.claims.file"}}) == []
    planted = {
        "common.metrics.passk": {"common.claims.judge"},
        "common.cli": {"common.models.load"},
    }
    assert upward(planted) == [
        "common.metrics.passk imports common.claims.judge",
        "common.cli imports common.models.load",
    ]


def test_every_room_has_a_floor():
    assert {room(name) for name in COMMON if name != "common"} == FLOOR.keys()


def test_no_room_imports_a_higher_one():
    assert not upward(arrows({n: f for n, f in COMMON.items() if n != "common"}))


def test_no_modules_import_each_other():
    assert not circles(arrows({**COMMON, **PAPERS, **SLURM}))


# Functions that import what a string names.
IMPORTERS = {"import_module", "__import__", "find_spec", "get_object", "get_class", "get_method"}
IMPORTERS |= {"resolve_name", "run_module"}
# Where the string is no literal: what each module imports by it.
BY_NAME = {
    "common.config.resolve": "what a `_target_` names: the only place",
    "common.verifiers.worker": "libraries that a verifier names in PRELOAD",
    "common.verifiers.code.sandbox": "packages that judged programs may import: where they lie",
    CONTAINED: "libraries that judged programs may use",
}


def by_string(tree: ast.AST) -> list[tuple[str, bool | None]]:
    """(call, does its string name a module of ours; None where that is not known)."""
    calls = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if getattr(node.func, "id", called) not in IMPORTERS:
            continue
        first = node.args[0]
        if isinstance(first, ast.JoinedStr):  # f"papers.{name}": by how it begins
            first = first.values[0]
        text = first.value if isinstance(first, ast.Constant) else None
        ours = None if text is None else text.split(".")[0] in OURS
        calls.append((f"line {node.lineno}: {ast.unparse(node)}", ours))
    return calls


@pytest.mark.parametrize(
    ("source", "ours"),
    [
        ("importlib.import_module(f'papers.{paper}.compare')", True),
        ("import_module('slurm.cost')", True),
        ("__import__('common.cli')", True),
        ("importlib.util.find_spec('verl')", False),
        ("importlib.import_module(name)", None),
        ("get_object(f'{name}.SPEC')", None),
    ],
)
def test_an_import_by_a_string_is_seen(source, ours):
    assert [seen for _, seen in by_string(ast.parse(source))] == [ours]


def test_no_module_is_imported_by_a_string():
    """Except by `_target_`, in one place, and libraries of others."""
    unknown = set()
    for name, file in {**COMMON, **PAPERS, **SLURM}.items():
        calls = by_string(ast.parse(file.read_text()))
        assert not [call for call, ours in calls if ours], f"{name}: import it, or use a _target_"
        unknown |= {name} if any(ours is None for _, ours in calls) else set()
    assert unknown == BY_NAME.keys()


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
    paper = ".".join(name.split(".")[:2])
    for other in imported(PAPERS[name]):
        launcher = name == f"{paper}.launch" and below(other, "slurm.launch")
        assert launcher or not below(other, "slurm", "bench", "tests"), other
        assert not below(other, "papers") or below(other, paper), other


@pytest.mark.parametrize(
    "name", [n for n in COMMON if below(n, "common.advantages", "common.losses", "common.metrics")]
)
def test_the_maths_imports_only_maths_types_and_errors(name):
    allowed = ["common.types", "common.errors", ".".join(name.split(".")[:2])]
    if name == "common.metrics.__main__":
        allowed += ["common.cli", "common.config.words"]
    for other in imported(COMMON[name]):
        top = other.split(".")[0]
        if top in OURS:
            assert below(other, *allowed), other
        else:
            assert top in MATHS or top in sys.stdlib_module_names, other


EVALUATORS = {"eval", "exec", "compile", "__import__"}
UNSAFE = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


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


@pytest.mark.process
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
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
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
    places = []
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # figures and gzipped tables
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                places.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not places, "\n".join(places)
