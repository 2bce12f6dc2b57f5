"""The page docs/methods.md, made from the method files and the docstrings of their functions.

rlvr methods             the methods, a line each
rlvr methods NAME        one method: its values, formula and source
rlvr docs                writes the page
"""

import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable

from common.config.resolve import module
from common.config.words import options
from common.errors import one_of
from common.losses import regularizers
from common.methods.files import as_written, introduction, names
from common.results.tables import markdown as to_markdown

PARTS = {  # key of a method file -> the kind of function that it names
    "advantage": "Advantage",
    "loss": "Loss",
    "token_weights": "Token weights",
    "aggregation": "Aggregation",
    "controller": "Controller",
}
# The same, but without a column in the table of all methods, as few methods have it.
RARE = {"rehearsal.divergence": "Divergence"}
INTRODUCTION = """\
# Methods

<!-- Written by `make docs` from docstrings and method files: change those, not this page. -->

A method is a file of [configs/method](../configs/method) that names pure functions:

- an **advantage**, from the rewards of a group of responses to their weights;
- a **loss**, from log-probabilities and weights to a loss for each token;
- an **aggregation**, from the losses of the tokens to one number;
- some have a **controller**, which sets arguments of the advantage from step to step;
- some have **token weights**, made from a whole mini-batch before it is split;
- DPH-F and DPH-JS have a **divergence** to the base model, on prompts that it solves already.

```sh
python -m papers.f_grpo method=NAME                        # train on the laptop testbed
python -m papers.f_grpo method=power_alpha method.advantage.alpha=3
rlvr theory method=NAME                        # its gradient masses, exactly
python -m common.backends.verl.main method=NAME ...        # in verl
```

In verl every name works as `rlvr_NAME`; [its package](../common/backends/verl/__init__.py) says
what differs there.
Methods with a divergence (`rehearsal`) run on `backend=local` alone: neither peer's trainer has a
set of responses beside its rollouts, and both refuse them before anything is computed.

Peers are stock verl 0.9.1 and TRL 1.16.0. The table names a peer where it has all parts of the
method, on the conditions of the "Peers" lines below; its defaults are often others.
"""


def function(path: str) -> Callable:
    return getattr(module({"_target_": path}), path.rpartition(".")[2])


def parts(entries: dict) -> dict[str, Callable]:
    """Return the functions that a method is made of, by key."""
    targets = {part: entries.get(f"{part}._target_") for part in PARTS | RARE}
    return {part: function(target[0]) for part, target in targets.items() if target}


def peers(functions) -> list[str]:
    """Return the peers that have all of `functions`, according to their "Peers" lines."""
    lines = [re.search("^Peers: (?!none)(.*)$", inspect.getdoc(f), re.M) for f in functions]
    marks = {"verl": "verl ", "TRL": "TRL GRPOTrainer"}
    return [peer for peer, text in marks.items() if all(line and text in line[1] for line in lines)]


def prose(text: str) -> str:
    """Return plain text as one line of Markdown, with markup escaped except in `code`."""
    pieces = re.split("(`[^`]*`)", " ".join(text.split()))
    pieces[::2] = [re.sub(r"([*~]|<(?=\w))|(?<!\w)(?=_)", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def markdown(doc: str) -> list[str]:
    """Return a docstring in Markdown: indented paragraphs as code, masses, source, peers listed."""
    out = []
    for paragraph in doc.split("\n\n"):
        if paragraph.startswith("    "):
            out += ["```text", textwrap.dedent(paragraph), "```", ""]
            continue
        marked = re.compile("^(Source|Peers): |^m_S = ")
        facts = [line for line in paragraph.splitlines() if marked.match(line)]
        rest = [line for line in paragraph.splitlines() if not marked.match(line)]
        out += [f"- {prose(f)}" if f[0] != "m" else f"- Masses: `{f}`" for f in facts]
        out += [""] * bool(facts) + [prose("\n".join(rest)), ""] * bool(rest)
    return out


def link(kind: str, name: str) -> str:
    return f"[{name}](#{kind.lower().replace(' ', '-')}-{name})"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    return [*to_markdown(header, rows).splitlines(), ""]


def parameters(entries: dict, base: dict) -> list[str]:
    """Return a table of key, value and comment of all that differs from _base.yaml."""
    rows = []
    for key, (value, comment) in entries.items():
        old, old_comment = base.get(key, ("", ""))
        shared = value == old and comment in ("", old_comment)
        if shared or value == "" or key in ("name", "advantage._target_"):
            continue
        part, _, last = key.rpartition(".")
        shown = f"`{value}`"
        if last == "_target_":
            key, shown = part, link((PARTS | RARE)[part], value.rpartition(".")[2])
            comment = "; ".join(filter(None, [entries[part][1], comment]))
        rows.append([f"`{key}`", shown, prose(comment)])
    return table(["key", "value", "comment"], rows) if rows else ["No values of its own.", ""]


def section(f: Callable, kind: str, users: list[str], methods: dict, base: dict) -> list[str]:
    """Return the section on one function: its docstring and the methods that use it."""
    signature = inspect.signature(f)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    call = signature.replace(parameters=bare, return_annotation=signature.empty)
    file = f.__module__.replace(".", "/") + ".py"
    out = [f"### {kind} `{f.__name__}`", "", f"`{f.__name__}{call}` in [{file}](../{file})", ""]
    out += markdown(inspect.getdoc(f))
    if kind != "Advantage":
        used = ", ".join(link("method", name) for name in users) or "no method file"
        return [*out, f"Used by {used if len(users) < 12 else f'{len(users)} methods'}.", ""]
    for name in users:
        out += [f"#### Method `{name}`", "", prose(introduction(name)), ""]
        out += parameters(methods[name], base)
    return out


def page() -> str:
    base, methods = as_written("_base"), {name: as_written(name) for name in names()}
    made = {name: parts(entries) for name, entries in methods.items()}
    out = [INTRODUCTION, "## All methods", ""]
    rows = []
    for name, used in made.items():
        cells = [link(PARTS[part], used[part].__name__) if part in used else "" for part in PARTS]
        samples = "sampler.mu" in methods[name]  # peers sample from the policy only
        same = [] if samples else peers(used.values())
        rows.append([link("method", name), *cells, ", ".join(same) or "none"])
    out += table(["method", *(kind.lower() for kind in PARTS.values()), "peers"], rows)
    out += ["## What the method files share", "", prose(introduction("_base")), ""]
    out += ["The tables of the methods below show only what differs.", ""]
    out += parameters(base, {})

    kinds = {f: (PARTS | RARE)[part] for used in made.values() for part, f in used.items()}
    kinds |= {f: "KL estimator" for n, f in vars(regularizers).items() if n.startswith("kl_")}
    users = {f: [name for name, used in made.items() if f in used.values()] for f in kinds}
    for name, entries in methods.items():
        if float(entries["kl_coef"][0]) > 0:
            users[getattr(regularizers, f"kl_{entries['kl_estimator'][0]}")].append(name)
    # Order modules by the first kind of function in them, then by how many methods use them.
    order = [*PARTS.values(), "KL estimator", *RARE.values()]
    first, uses = {}, Counter()
    for f, kind in kinds.items():
        first[f.__module__] = min(first.get(f.__module__, 9), order.index(kind))
        uses[f.__module__] += len(users[f])
    for name in sorted(first, key=lambda name: (first[name], -uses[name])):
        doc = inspect.getdoc(sys.modules[name])
        title, rest = re.match(r"(.*?)(?:: |\. ?|, |(?=;))(.*)", doc, re.S).groups()
        out += [f"## {title}", "", *markdown(rest[:1].upper() + rest[1:])]
        for f in vars(sys.modules[name]).values():
            if inspect.isfunction(f) and f in kinds and f.__module__ == name:
                out += section(f, kinds[f], users[f], methods, base)
    return "\n".join(out)


def listed() -> str:
    lines = [textwrap.shorten(f"{name:24}{introduction(name)}", 100) for name in names()]
    return "\n".join([*lines, "next: rlvr methods NAME"]) + "\n"


def one(name: str) -> str:
    """Return the text on one method: its values, and its parts with formula and source."""
    one_of("method", name, names())
    entries = as_written(name)
    out = [f"# Method {name}", "", prose(introduction(name)), ""]
    out += parameters(entries, as_written("_base"))
    for part, f in parts(entries).items():
        out += [f"## {(PARTS | RARE)[part]} {f.__name__}", "", *markdown(inspect.getdoc(f))]
    out += [f"next: rlvr theory method={name}", f"      rlvr train paper=f_grpo method={name}"]
    return re.sub(r"\[([^\]]+)\]\(#[^)]+\)", r"\1", "\n".join(out)) + "\n"


def main(words: list[str]) -> None:
    """Run `rlvr methods [NAME]`; NAME may be written method=NAME."""
    if len(words) == 1 and "=" not in words[0]:
        words = [f"method={words[0]}"]
    name = options(words, {"method": ""})["method"]
    print(one(name) if name else listed(), end="")
