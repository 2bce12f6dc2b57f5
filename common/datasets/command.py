"""List, download and show the public sets.

    rlvr data
        every set: hub id, split, rows, verifier, and whether it can be loaded without a network
    rlvr data prefetch=true [eval=math500,aime24] [data=deepscaler]
        download all or these for machines without a network (run it on the login node), read every
        row once, and print the commit that a revision stands for, so that it can be pinned
    rlvr data eval=math500 [index=0] [chat=plain]
        one prompt as the model reads it, and its reference

The sets are configs/eval/*.yaml and configs/data/*.yaml; docs/data.md describes them.
"""

from functools import cache, partial

from common.config.compose import group_file
from common.config.files import names
from common.config.resolve import resolve
from common.config.strict import strict
from common.config.words import options
from common.datasets.benchmark import Benchmark
from common.datasets.commits import fetched, read_from, read_whole
from common.errors import UserError, one_of, require

OWN = "hub"  # hub.yaml is for any other set and names none itself


@cache
def sets() -> dict[str, dict]:
    """Return the sets that `load` makes: "eval=math500" -> its prompts node and `verifier`."""
    from omegaconf import OmegaConf

    configured = {}
    for group, key in (("eval", "prompts"), ("data", "train")):
        for name in names(group):
            config = group_file(group, name)
            if config[key]["_target_"] == "common.datasets.load" and name != OWN:
                node = OmegaConf.to_container(config, resolve=True)
                if group == "eval":
                    strict(Benchmark, node)
                verifier = node["verifier"]["_target_"].split(".")[-2]
                configured[f"{group}={name}"] = node[key] | {"verifier": verifier}
    return configured


def _node(key: str, chat: str = "plain") -> dict:
    node = {name: value for name, value in sets()[key].items() if name != "verifier"}
    return node | {"chat": chat}


def _list() -> None:
    print(f"{'set':24} {'hub':44} {'split':11} {'rows':>6} {'verifier':9} here")
    for key, node in sets().items():
        try:
            here = "local file" if "sha256:" in read_from(node)[node["name"]] else "cached"
        except UserError:
            here = "no"
        hub = f"{node['hub']} {node['config'] or ''}"
        rows = "?" if node["rows"] is None else node["rows"]
        print(f"{key:24} {hub:44} {node['split']:11} {rows:>6} {node['verifier']:9} {here}")


def main(words: list[str]) -> None:
    defaults = {"prefetch": "false", "eval": "", "data": "", "index": "0", "chat": "plain"}
    given = options(words, defaults)
    chosen = [
        f"{group}={name}" for group in ("eval", "data") for name in given[group].split(",") if name
    ]
    for key in chosen:
        group, _, name = key.partition("=")
        one_of(group, name, [one.partition("=")[2] for one in sets() if one.startswith(group)])
    one_of("prefetch", given["prefetch"], ("true", "false"))
    require(given["index"].isdecimal(), "index", given["index"], "must be a whole number")
    if given["prefetch"] == "true":
        wanted = chosen or list(sets())
        fetched((key, partial(read_whole, _node(key))) for key in wanted)
    elif not chosen:
        _list()
    for key in chosen if given["prefetch"] == "false" else ():
        prompts, index = resolve(_node(key, given["chat"]), key)(), int(given["index"])
        require(0 <= index < len(prompts), "index", index, f"must be in 0..{len(prompts) - 1}")
        prompt = prompts[index]
        print(f"id: {prompt.id}\nreference: {prompt.reference[:2000]}\n\n{prompt.text}")
