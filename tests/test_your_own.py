import re
import shlex
from pathlib import Path

import documents
import pandas as pd
import pytest
from forks import command
from processes import FORK
from tiny import ROOT, network

DOCUMENT = ROOT / "docs" / "your-own.md"
CHAT = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
pytestmark = [pytest.mark.process, pytest.mark.trains]


def chat_model(folder: Path) -> None:
    """A random Qwen2 on bytes' characters with a template of its own and two end tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GenerationConfig, PreTrainedTokenizerFast

    letters = ["<pad>", "<end>", "<stop>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", chat_template=CHAT
    ).save_pretrained(folder)
    model = network(vocab_size=len(letters), max_position_embeddings=512)
    model.generation_config = GenerationConfig(eos_token_id=[1, 2], pad_token_id=0)
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The page's files and the model."""
    home = tmp_path_factory.mktemp("own")
    chat_model(home / "model")
    documents.written(DOCUMENT, home)
    return home


def run_in(folder: Path, words: list[str], *streams: str) -> None:
    process = FORK.Process(target=command, args=(words, folder, *streams))
    process.start()
    process.join(600)
    assert process.exitcode == 0, f"{words}\n{(folder / streams[1]).read_text()[-3000:]}"


def executed(folder: Path, section: str) -> tuple[list[str], str]:
    """(what its commands print, all that they say beside) of a section of the page."""
    streams = [f"{section}.out", f"{section}.err"]
    for words in documents.commands(DOCUMENT, section):
        run_in(folder, words, *streams)
    out, said = [(folder / name).read_text() for name in streams]
    return out.splitlines(), said


def finished(folder: Path, below: str) -> set[Path]:
    return {mark.parent for mark in (folder / "results" / below).glob("*/DONE")}


def test_a_chat_model_is_evaluated_on_a_file(folder):
    _, said = executed(folder, "Evaluate any chat model on a file of yours")
    runs = finished(folder, "evaluations")
    counts = sorted(tuple(pd.read_csv(run / "counts.csv")["n"]) for run in runs)
    assert counts == [(1, 1), (4, 4, 4), (4, 4, 4)]
    assert re.search(r"warning: \d+ % of the responses were cut off at max_tokens=12", said)
    (asked,) = [run for run in runs if "boxed_user" in (run / "config.yaml").read_text()]
    texts = pd.read_json(asked / "problems.jsonl.gz", lines=True)["text"]
    assert texts[0].startswith("<system>You are a helpful assistant.\n<user>What is 2 + 3?\n")
    assert texts[0].endswith("\\boxed{}.\n<assistant>")


def test_it_is_trained(folder):
    before = finished(folder, "own")
    _, said = executed(folder, "Train it")
    (run,) = finished(folder, "own") - before
    assert "cut off at sampling.max_tokens=12" in said
    config = (run / "config.yaml").read_text()
    for words in ("lr: 1.0e-06", "max_tokens: 12", "common.verifiers.math.verify", "focal"):
        assert words in config, words
    assert (run / "model" / "config.json").exists()
    (line,) = re.findall(r"^next:  (.*)$", said, re.MULTILINE)
    sets = finished(folder, "evaluations")
    run_in(folder, shlex.split(line), "next.out", "next.err")  # as it stands
    (again,) = finished(folder, "evaluations") - sets
    text = pd.read_json(again / "problems.jsonl.gz", lines=True)["text"][0]
    assert text.startswith("<system>You are")  # the template and the instruction of the training
    assert text.endswith("\\boxed{}.\n<assistant>")
    for words in (" model.chat=model", " eval.prompts.instruction=boxed_user"):
        line = line.replace(words, "")
    run_in(folder, shlex.split(line), "bare.out", "bare.err")
    assert "model.chat=null leaves out" in (folder / "bare.err").read_text()
    assert "model.chat=null" not in (folder / "next.err").read_text()


def test_a_plain_function_is_the_reward(folder):
    before = finished(folder, "own")
    executed(folder, "A reward of your own")
    (run,) = finished(folder, "own") - before
    assert "rewards.py:short_and_right" in (run / "config.yaml").read_text()


def test_a_method_is_a_file_in_the_folder(folder):
    before = finished(folder, "own")
    lines, _ = executed(folder, "A method of your own")
    assert any('"m_S": 0.09326171875' in line for line in lines)
    (run,) = finished(folder, "own") - before
    assert run.name.startswith("shrunken-s1-")


def test_the_library_runs(folder):
    lines, _ = executed(folder, "As a library")
    assert lines[0] == "correct [[0.375, 1.0], [0.0, 0.0]]"
    assert lines[1].startswith("method=gpro: ")
