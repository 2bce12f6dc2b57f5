"""Prompt texts: an instruction (what is asked) in the chat markup that the model was trained on.

    text = CHATS["qwen"](*INSTRUCTIONS["boxed_system"](row))

The benchmark and the paper decide the instruction, a function from a data row to (system, user);
the model decides the chat markup, a function from these to the text that it continues. The markup
is written out here, so no tokenizer is needed, except for the chat `model`, the template of the
model's own tokenizer. A chat text contains its begin token: tokenise it without special tokens.

Papers print prompts without reliable line breaks; where one was chosen, the function says so.
Prompts that papers do not print (code, letters) are in our own words.
"""

from functools import cache
from pathlib import Path
from string import ascii_uppercase

from common.errors import require

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
HELPFUL = "You are a helpful assistant."
CWM_REASONS = (
    "You are a helpful AI assistant. You always reason before responding, using the following "
    "format:\n\n<think>\nyour internal reasoning\n</think>\nyour external response"
)

Message = tuple[str | None, str]  # system (None: no system turn), user


def question(row: dict) -> str:
    """Return the problem and, if the row has choices, one line "A. text" for each below it."""
    choices = row.get("choices") or row.get("options") or []
    lines = [f"{letter}. {text}" for letter, text in zip(ascii_uppercase, choices, strict=False)]
    return "\n".join([row["problem"], *lines])


# ---- instructions: row -> (system, user)


def bare(row: dict) -> Message:
    return None, question(row)


def helpful(row: dict) -> Message:
    """Ask with the prompt of F-GRPO Table 8 for IFEval and SynLogic."""
    return HELPFUL, question(row)


def boxed_system(row: dict) -> Message:
    """Ask for a box in the system prompt: F-GRPO App. H.1 (training) and Table 8 (maths, GPQA)."""
    return BOXED, question(row)


def boxed_user(row: dict) -> Message:
    """Ask for a box on a new line: two_stage App. C.2, the prompt of SimpleRL-Zoo."""
    return HELPFUL, f"{question(row)}\n{BOXED}"


def think_tags(row: dict) -> Message:
    r"""Ask with the prompt of cov_grpo Fig. 4, as the system prompt as in Open-RS. The print has
    lost the `\boxed{}` after "within"."""
    return (
        "A conversation between User and Assistant. The user asks a question, and the Assistant "
        "solves it. The assistant first thinks about the reasoning process in the mind and then "
        "provides the user with the answer, and put your final answer within \\boxed{}. The "
        "reasoning process and answer are enclosed within <think> </think> and <answer> </answer> "
        "tags, respectively, i.e., <think> reasoning process here </think> <answer> answer here "
        "</answer>. Note that respond by English, NOT use other languages.",
        question(row),
    )


def simple_evals(row: dict) -> Message:
    """Ask as the authors of cov_grpo do when they evaluate (WangCheng0116/CW-GRPO, evaluate.py: the
    words of simple-evals, through Open-R1), without a system prompt."""
    return (
        None,
        "Solve the following math problem efficiently and clearly.  The last line of your response "
        "should be of the following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I "
        "hope it is correct' (without quotes) where ANSWER is just the final number or expression "
        f"that solves the problem. Think step by step before answering.\n\n{question(row)}",
    )


def simple_evals_boxed(row: dict) -> Message:
    """Ask as `simple_evals`, with BOXED in place of Qwen2.5-Math-Instruct's system prompt."""
    return BOXED, simple_evals(row)[1]


def letter(row: dict) -> Message:
    """Ask for a letter at the end, in words that MMLU-Pro's extraction looks for first."""
    return (
        None,
        f"{question(row)}\n\nThink step by step, then finish your response with "
        '"the answer is (X)", where X is the letter of the correct choice.',
    )


def code(row: dict) -> Message:
    """Ask for a Python program for stdin tests, or for the row's completed starter code."""
    starter = (row.get("starter_code") or "").rstrip()
    if starter:
        task = f"Complete this starter code; keep its names.\n\n```python\n{starter}\n```"
    else:
        task = "Write a Python program that reads the input from stdin and prints to stdout."
    return (
        HELPFUL,
        f"{row['problem']}\n\n{task}\n\n"
        "Give the whole program in one ```python code block at the end of your response.",
    )


# ---- chats: (system, user) -> text


def plain(system: str | None, user: str) -> str:
    """Return the turns as paragraphs without markup, for base models."""
    return "\n\n".join(filter(None, (system, user))) + "\n"


def qwen(system: str | None, user: str) -> str:
    """Return ChatML, for Qwen2.5, Qwen2.5-Math, and Qwen3 with thinking, without the system prompt
    that Qwen2.5's own template adds where there is none."""
    turns = [("system", system), ("user", user)]
    text = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in turns if said)
    return text + "<|im_start|>assistant\n"


def qwen_no_think(system: str | None, user: str) -> str:
    """Return the text for Qwen3 with thinking switched off: it already holds an empty thought."""
    return qwen(system, user) + "<think>\n\n</think>\n\n"


def llama(system: str | None, user: str) -> str:
    """Return the text for Llama 3.2 Instruct. F-GRPO Table 8 prints "Today Date: [date]"; the fixed
    date and the blank line before the system prompt come from the model's own template."""
    head = f"Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n{system or ''}"
    return _headed(head, user)


def _headed(system: str, user: str) -> str:
    """Return the two turns in Llama 3's header tokens, and the begin of the answer's."""
    turns = "".join(
        f"<|start_header_id|>{role}<|end_header_id|>\n\n{said}<|eot_id|>"
        for role, said in (("system", system), ("user", user))
    )
    return f"<|begin_of_text|>{turns}<|start_header_id|>assistant<|end_header_id|>\n\n"


def llama_chatml(system: str | None, user: str) -> str:
    """Return ChatML after Llama's begin token, which vLLM puts before a text by itself."""
    return "<|begin_of_text|>" + qwen(system, user)


def r1_distill(system: str | None, user: str) -> str:
    """Return the text for DeepSeek-R1-Distill, whose template opens the thought, so a response only
    closes it: see `opened` of common/verifiers/format.py."""
    return f"<｜begin▁of▁sentence｜>{system or ''}<｜User｜>{user}<｜Assistant｜><think>\n"


def cwm(system: str | None, user: str) -> str:
    """Return the text for Code World Model with reasoning (facebookresearch/cwm, PROMPTING_GUIDE.md
    at 7930e02): Llama 3's header tokens without a date. The system prompt starts with the words
    that turn reasoning on and replace HELPFUL. The text opens the thought."""
    more = "" if system in (None, HELPFUL) else f"\n\n{system}"
    return _headed((CWM_REASONS + more).strip(), user.strip()) + "<think>\n"


WORDS = (bare, helpful, boxed_system, boxed_user, think_tags, simple_evals, simple_evals_boxed)
WORDS += (letter, code)
OWN = "model"  # the chat that is the template of the model's own tokenizer
INSTRUCTIONS = {f.__name__: f for f in WORDS}
CHATS = {f.__name__: f for f in (plain, qwen, qwen_no_think, llama, llama_chatml, r1_distill, cwm)}


def render(row: dict, *, instruction: str, chat: str | None) -> str:
    """Return a row's prompt. Raises UserError for an unknown instruction or chat, or template."""
    require(instruction in INSTRUCTIONS, "instruction", instruction, f"one of {[*INSTRUCTIONS]}")
    message = INSTRUCTIONS[instruction](row)
    if chat is not None and chat.startswith(f"{OWN}:"):
        return own_template(chat.removeprefix(f"{OWN}:"), *message)
    known = [*CHATS, OWN]
    require(chat in CHATS, "chat", chat, f"say which markup the model was trained on: {known}")
    return CHATS[chat](*message)


def of_model(node: dict, path: str | None, revision: str | None) -> dict:
    """Return the node; chat `model` becomes model:PATH[@REVISION], and needs a path."""
    if "of" in node:  # a part of a set
        return node | {"of": of_model(node["of"], path, revision)}
    if node.get("chat") != OWN:
        return node
    require(path is not None, "model.chat", OWN, "a model made here has no template; use plain")
    return node | {"chat": f"{OWN}:{path}" + (f"@{revision}" if revision else "")}


def own_template(whose: str, system: str | None, user: str) -> str:
    """Return the text that the template of a model's own tokenizer (`whose` is its PATH[@REVISION])
    makes of a message, with the answer's turn begun. Some templates add a system prompt (SmolLM2,
    Qwen2.5). Raises UserError if the tokenizer cannot be read or has no template."""
    turns = [("system", system), ("user", user)]
    messages = [{"role": role, "content": said} for role, said in turns if said]
    return _tokenizer(whose).apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )


@cache
def _tokenizer(whose: str):
    from common.models.load import read_tokenizer

    path, _, revision = (whose, "", "") if Path(whose).is_dir() else whose.partition("@")
    tokenizer = read_tokenizer(path, key="model.path", revision=revision or "main")
    remedy = f"its tokenizer has no template; use one of {[*CHATS]}"
    require(tokenizer.chat_template is not None, "chat", f"{OWN}:{whose}", remedy)
    return tokenizer
