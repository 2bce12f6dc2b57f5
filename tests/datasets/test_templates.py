import pytest
from refuses import refuses

from common.datasets import templates
from common.errors import UserError

ROW = {"problem": "1+1?", "choices": ["1", "2"]}


def test_instructions():
    made = {name: f(ROW) for name, f in templates.INSTRUCTIONS.items()}
    assert made["bare"] == (None, "1+1?\nA. 1\nB. 2")
    boxed = "Please reason step by step, and put your final answer within \\boxed{}."
    assert made["boxed_system"] == (boxed, "1+1?\nA. 1\nB. 2")
    assert made["boxed_user"] == (templates.HELPFUL, f"1+1?\nA. 1\nB. 2\n{boxed}")
    assert made["helpful"] == (templates.HELPFUL, "1+1?\nA. 1\nB. 2")
    assert "<think> </think> and <answer> </answer>" in made["think_tags"][0]
    assert '"the answer is (X)"' in made["letter"][1]
    assert "reads the input from stdin" in templates.code(ROW)[1]
    assert "def f(x):\n```" in templates.code(ROW | {"starter_code": "def f(x):\n"})[1]


def test_chats():
    assert templates.plain(None, "u") == "u\n"
    assert templates.plain("s", "u") == "s\n\nu\n"
    assert templates.qwen("s", "u") == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    )
    assert templates.qwen(None, "u") == ("<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n")
    assert templates.qwen_no_think(None, "u").endswith("assistant\n<think>\n\n</think>\n\n")
    assert templates.llama("s", "u") == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\ns<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert templates.llama_chatml("s", "u") == "<|begin_of_text|>" + templates.qwen("s", "u")
    opened = "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜><think>\n"
    assert templates.r1_distill("s", "u") == opened


def test_code_world_model():
    """As facebookresearch/cwm's PROMPTING_GUIDE.md and cwm/rl/envs/prompts.py have it: no date, the
    words that turn reasoning on first, bodies stripped, the thought opened."""
    said = (
        "You are a helpful AI assistant. You always reason before responding, using the following "
        "format:\n\n<think>\nyour internal reasoning\n</think>\nyour external response"
    )
    asked = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|>"
    opened = "<|start_header_id|>assistant<|end_header_id|>\n\n<think>\n"
    head = f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{said}"
    assert templates.cwm(None, "u\n") == head + asked + opened
    assert templates.cwm(templates.HELPFUL, "u") == head + asked + opened
    assert templates.cwm("s", "u") == f"{head}\n\ns{asked}{opened}"


OF_THE_MODEL = (
    "{% for m in messages %}({{ m.role }}: {{ m.content }}){% endfor %}"
    "{% if add_generation_prompt %}(answer:{% endif %}"
)


def test_the_models_own_template(tokenizer):
    path = tokenizer("own@home", OF_THE_MODEL)
    node = templates.of_model({"chat": "model", "rows": 2}, path, None)
    assert node == {"chat": f"model:{path}", "rows": 2}
    text = templates.render(ROW, instruction="boxed_system", chat=node["chat"])
    assert text == f"(system: {templates.BOXED})(user: 1+1?\nA. 1\nB. 2)(answer:"
    text = templates.render(ROW, instruction="bare", chat=node["chat"])
    assert text == "(user: 1+1?\nA. 1\nB. 2)(answer:"


def test_a_template_that_is_not_there(tmp_path, tokenizer):
    path = tokenizer("words")
    with pytest.raises(UserError, match="its tokenizer has no template; use one of"):
        templates.render(ROW, instruction="bare", chat=f"model:{path}")
    with refuses("model.path", tmp_path / "none"):
        templates.render(ROW, instruction="bare", chat=f"model:{tmp_path / 'none'}")
    with refuses("chat", "model"):
        templates.render(ROW, instruction="bare", chat="model")
