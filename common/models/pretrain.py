"""Tiny language models: a Qwen2 of random weights is trained on a task's demonstrations."""

import math
from functools import partial
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from common.config.resolve import resolve
from common.config.schema import Pretrain
from common.models.muon import Muon
from common.models.recorded import Recorded, passes
from common.models.store import save
from common.results.files import write
from common.tasks import countdown, expressions, maze
from common.types import RolloutBatch

PAD, EOS = "<pad>", "<eos>"
# By the value of `model.pretrain.task`
TASKS = {"countdown": countdown, "expressions": expressions, "maze": maze}


def tokenizer(words: tuple[str, ...] = countdown.WORDS):
    r"""Return a tokenizer with one token per word of a task, such as a number, an operator or
    `\\boxed{`; it ignores blanks before a token. All words are added tokens: AutoTokenizer turns
    every qwen2 tokenizer into Qwen2Tokenizer, whose own pre-tokenizer only these survive."""
    from tokenizers import AddedToken

    from common.models.hf import Qwen2Tokenizer

    made = Qwen2Tokenizer(vocab={PAD: 0, EOS: 1}, unk_token=None, pad_token=PAD, eos_token=EOS)
    made.add_tokens([AddedToken(word, lstrip=True, normalized=False) for word in words])
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return made


def pretrain(config: Pretrain, path: Path, device: str = "cpu") -> None:
    """Train a random-init Qwen2 on its task's demonstrations (cross-entropy on the response) and
    save it as a Hugging Face checkpoint that transformers, vLLM and verl load like any other. Its
    `DONE` file is written last. Raises UserError for an option that the task's demonstrations do
    not have."""
    from rich.progress import track

    task = TASKS[config.task]
    tok = tokenizer(task.WORDS)
    model = random_model(config, tok).to(device)
    node = {"_target_": f"{task.__name__}.demonstrations", **config.options}
    drawn = resolve(node, "model.pretrain.options", ("count", "seed"))
    rows = drawn(count=config.demonstrations, seed=config.seed)
    tensors = _pack(tok, rows)
    optimizers = _optimizers(model, config)
    policy = passes(model, temperature=1.0, dtype=torch.float32)
    generator = torch.Generator().manual_seed(config.seed)
    per_epoch = len(rows) // config.batch_size
    steps, warmup = per_epoch * config.epochs, 50
    for step in track(range(steps), f"pretraining {path.name}"):
        if step % per_epoch == 0:
            order = torch.randperm(len(rows), generator=generator)
        chosen = order[step % per_epoch * config.batch_size :][: config.batch_size]
        scale = min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * step / steps)))
        scale = 1.0 if config.optimizer == "adamw" else scale
        batch = RolloutBatch(*(tensor[chosen].to(device) for tensor in tensors))
        log_prob, _ = policy(batch)
        loss = -(log_prob * batch.mask).sum() / batch.mask.sum()
        model.zero_grad(set_to_none=not isinstance(policy, Recorded))  # as in backends/local.py
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, lr in optimizers:
            optimizer.param_groups[0]["lr"] = lr * scale
            optimizer.step()
    save(model, tok, path)
    write(path / "DONE", f"final training loss {loss.item():.4f}\n")


def _optimizers(model, config: Pretrain) -> list[tuple[torch.optim.Optimizer, float]]:
    """Return Muon for the weight matrices of the layers and AdamW for embeddings, norms and biases,
    with their peak learning rates. After one epoch pass@1 on dev prompts of Countdown is 26 % with
    Muon, 15-19 % with AdamW alone. `adamw` has the betas and weight decay of MaxRL's maze/sft.py
    (tajwarfahim/maxrl), whose cosine over ten epochs is constant within 1,500 steps."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "layers" in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "layers" not in n]
    if config.optimizer == "adamw":
        return [
            (torch.optim.AdamW(part, lr=lr, betas=(0.9, 0.95), weight_decay=0.01, fused=True), lr)
            for part, lr in ((matrices, config.lr), (others, config.embedding_lr))
        ]
    muon = Muon(matrices, lr=config.lr, weight_decay=0.01)
    adamw = torch.optim.AdamW(others, lr=config.embedding_lr, betas=(0.9, 0.99), fused=True)
    return [(muon, config.lr), (adamw, config.embedding_lr)]


def random_model(config: Pretrain, tok):
    from common.models.hf import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(config.seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tok),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.positions,
            initializer_range=config.initializer_range,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=True,
            eos_token_id=tok.eos_token_id,
            pad_token_id=tok.pad_token_id,
            bos_token_id=None,
        )
    )


def _pack(tok, rows: list[tuple[str, str]]) -> list[torch.Tensor]:
    texts = [prompt for prompt, _ in rows], [answer + EOS for _, answer in rows]
    made = []
    for some, side in zip(texts, ("left", "right"), strict=True):
        ids = [torch.tensor(row) for row in tok(some, add_special_tokens=False)["input_ids"]]
        padded = partial(pad_sequence, batch_first=True, padding_side=side)
        made.append(padded(ids, padding_value=tok.pad_token_id))
        made.append(padded([torch.ones_like(row) for row in ids]))
    mask = made[-1].float()
    stopped = torch.ones(len(rows), dtype=torch.bool)
    return [*made[:3], mask, torch.zeros_like(mask), stopped]
