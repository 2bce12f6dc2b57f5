import re
import shutil
import subprocess
import sys
from dataclasses import asdict, fields

import pytest
from compositions import composed
from refuses import refuses
from tiny import ROOT, TINY

from common.backends.prompts import prompts
from common.config import compose, rows
from common.config.strict import strict
from common.errors import UserError
from common.experiment import Experiment, load

METHODS = [path.stem for path in sorted(ROOT.glob("configs/method/[!_]*.yaml"))]


def refused(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load([*overrides], "f_grpo")
    return str(caught.value)


# ---- every file


@pytest.mark.parametrize("name", METHODS)
def test_every_method_composes_and_runs(name):
    x = composed((f"method={name}",), "f_grpo")  # which runs it on a group (binding.check)
    assert x.method.name == x.name == name


def test_a_curve_has_no_more_samples_than_the_end():
    assert load(["eval.n=8", "eval.k=[1]"], "f_grpo").eval.curve_n == 8


def test_an_unknown_chat_is_refused_before_any_prompt():
    with refuses("model.chat", "qwenn"):
        prompts(load(["model.chat=qwenn"], "f_grpo"))


def test_other_data_and_models_compose():
    words = ["data=jsonl", "data.train.path=a.jsonl", "data.benchmarks.test.path=b.jsonl"]
    x = load(words, "f_grpo")
    assert (x.data.train["path"], x.data.train["chat"]) == ("a.jsonl", None)
    fields = load([*words, "data.train.fields.problem=q"], "f_grpo").data.benchmarks["test"][
        "fields"
    ]
    assert fields == {"id": "id", "problem": "q", "answer": "answer"}
    own = ["data.train.fields.problem=q", "data.benchmarks.test.fields.problem=p"]
    x = load([*words, *own], "f_grpo")
    assert x.data.train["fields"]["problem"] == "q"
    assert x.data.benchmarks["test"]["fields"]["problem"] == "p"
    asked = [*words, "model=huggingface", "model.path=x", "model.chat=qwen"]
    x = load([*asked, "data.train.instruction=boxed_user"], "f_grpo")
    for node in (x.data.train, x.data.benchmarks["test"]):
        assert (node["instruction"], node["chat"]) == ("boxed_user", "qwen")
    assert x.identity["data"] == asdict(x.data)
    assert list(x.data.benchmarks) == ["test"]
    x = load(["model=huggingface", "model.path=some/model"], "f_grpo")
    assert (x.model.name, x.model.path, x.model.pretrain) == ("some/model", "some/model", None)


# ---- mistakes: one message with key, value and remedy


@pytest.mark.parametrize(
    "word",
    [
        # unknown or misspelt
        "+optim.lrr=1", "+x=1", "+model.pretrain.head=2",
        # wrong type
        "optim.lr='fast'", "seed=1.5", "seed='one'", "eval.k=8", "optim='adam'",
        "data.benchmarks='natural'",
        # out of range
        "optim.lr=0", "optim.lr=-0.0001", "optim.lr=nan", "optim.grad_clip=0",
        "optim.weight_decay=-1", "optim.warmup_steps=-1", "optim.steps=-1",
        "optim.mini_batches=0", "optim.mini_batches=5", "optim.micro_batch=0", "eval.k=[]",
        "eval.n=0", "eval.every=0", "eval.batch=0", "eval.max_tokens=0",
        "eval.temperature=0", "eval.rare_nll_samples=-1", "sampling.temperature=0",
        "sampling.log_prob_temperature=0", "sampling.group_size=0", "sampling.prompts=0",
        "sampling.max_tokens=0",
        "reward.correct=-1.0", "method.kl_coef=-1", "method.entropy_coef=-1", "seed=-1",
        "threads=0", "checkpoint_every=0", "device=gpu", "wandb=on", "model.pretrain.layers=0",
        "model.pretrain.heads=3",
        # combinations
        "model.path=folder", "name=mine/first", "name=../out",
        # the functions that a method file names
        "+method.advantage.gama=1", "method.loss._target_=common.losses.clip.ppo",
        "+data.verifier.tolerance=1",
    ],
)  # fmt: skip
def test_a_mistake_on_the_command_line_is_named_as_it_was_given(word):
    with refuses(*word.removeprefix("+").split("=")):
        load([word], "f_grpo")


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("+evall.n=1", "did you mean eval?"),
        ("seed", "seed"),
        ("optim.betas=[0.9]", "optim.betas"),
        ("optim.betas=[0.9,1.0]", "optim.betas.1=1.0"),
        ("optim.lr=???", "optim.lr"),
        ("model=huggingface", "model.path"),
        ("data=jsonl", "data.train.path"),
        ("eval.k=[1,257]", "eval.k=257"),
        ("eval.k=[0]", "eval.k=0"),
        ("model.pretrain=null", "model.path=None"),
        ("~method.advantage.epsilon", "['epsilon']"),
        ("~method.loss._target_", "method.loss._target_=None"),
    ],
)
def test_other_mistakes_on_the_command_line(word, named):
    assert named in refused(word)


@pytest.fixture
def own_configs(tmp_path, monkeypatch):
    """A copy of the paper's configs to write into: own_configs("method/x.yaml", text)."""
    folder = tmp_path / "papers" / "f_grpo" / "configs"
    shutil.copytree(ROOT / "papers" / "f_grpo" / "configs", folder)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for module in ("compose", "files", "rows"):
        monkeypatch.setattr(f"common.config.{module}.ROOT", tmp_path)

    def write(name: str, text: str) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        forget()

    def forget() -> None:
        for kept in (rows.stated, rows.rows, rows.is_group, compose._ours, compose._files):
            kept.cache_clear()

    forget()
    yield write
    forget()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("optm.lr: 1", "did you mean optim?"),
        ("eval.n: 8, eval.K: [1]", "eval.K=[1]"),
        ("optim.lr: 0, optim.lr.low: 1", "optim.lr={'low': 1}"),
        ("model.path: x", "model.path=x"),
        ('table: "\\\\${tabel}"', "tabel"),
        ("method: gpro", "method=gpro"),
        ("like: bse", "like=bse"),
        ("like: mistake", "like=mistake"),
        ("like: /famly", "famly"),
        ("optim.lr: 1]", "reproduce.yaml"),  # no YAML
    ],
)
def test_mistakes_in_a_row(own_configs, text, named):
    stated = "rows:\n  base: {label: base}\n  mistake: {label: x, " + text + "}\n"
    own_configs("reproduce.yaml", stated)
    assert named in refused("experiment=mistake")


def test_a_row_takes_what_it_is_like(own_configs):
    own_configs(
        "reproduce.yaml",
        """
rows:
  one: {label: One, like: /cluster, method: dapo, optim.lr: 1.0e-3, sampling.group_size: 4}
  two: {label: Two, like: [one, /equalise_to/grpo], method: f_grpo, method.advantage.gamma: 2}
""",
    )
    x = load(["experiment=two"], "f_grpo")
    assert (x.name, x.label, x.backend) == ("two", "Two", "verl")  # /cluster's backend
    assert (x.method.name, x.method.advantage["gamma"]) == ("f_grpo", 2)
    assert (x.optim.lr, x.sampling.group_size) == (1e-3, 4)
    assert x.optim.equalise_to is not None


def test_wrong_data_is_refused_before_a_model_is_made(tmp_path):
    from common.backends import run_experiment

    for override, named in {
        "+data.train.shuffle=true": "data.train.shuffle=True",
        "+data.benchmarks.rare.n=1": "data.benchmarks.rare.n=1",
        "data.train.split=tran": "split=tran",
        "data.train.size=0": "data.train",
        "data.train.template=html": "template=html",
        "backend=spark": "backend=spark",
    }.items():
        with pytest.raises(UserError, match=re.escape(named)):
            run_experiment(load([*TINY, override, f"results_dir={tmp_path}/r"], "f_grpo"))
    assert not (tmp_path / "r" / "models").exists()


@pytest.mark.process
def test_the_command_ends_with_one_message(tmp_path):
    words = ["paper=f_grpo", "sampling.group_size=1", f"results_dir={tmp_path}/results"]
    command = [sys.executable, "-m", "rlvr_papers", "train", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "sampling.group_size=1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


# ---- the frozen object


NOT_NUMBERS = {
    "scope", "table", "label", "keep_checkpoints", "keep_at", "keep_state", "covariances",
    "kl_from_start", "results_dir", "wandb", "stop_rules", "threads", "checkpoint_every",
    "verification", "verl",
}  # fmt: skip


@pytest.mark.sweep
def test_run_id_changes_with_what_the_numbers_depend_on_and_with_nothing_else():
    base = load([], "f_grpo")
    assert base.run_id == load([], "f_grpo").run_id
    assert base.run_id.startswith("grpo-s1-")
    assert set(base.identity) == {field.name for field in fields(Experiment)} - NOT_NUMBERS
    apart = ("scope=cluster", "table=other", "label=other", "results_dir=elsewhere", "threads=2")
    memory = ("checkpoint_every=7", "keep_state=true", "optim.gradient_checkpointing=true")
    same = ("optim.steps=199", "sampling.log_prob_temperature=1.0")  # as in sampling; constant rate
    same += ("sampling.dtype=float32",)
    assert "log_prob_temperature" not in base.identity["sampling"]  # stored runs lack it
    assert "decay_over" not in base.identity["optim"]  # stored runs lack it
    for override in (*apart, *memory, *same):
        assert load([override], "f_grpo").run_id == base.run_id
    changes = [
        "seed=2", "device=cpu", "reward.wrong=-1",
        "sampling.prompts=16", "sampling.group_size=4", "sampling.temperature=0.9",
        "sampling.log_prob_temperature=0.9", "sampling.dtype=bfloat16",
        "sampling.max_tokens=19", "optim.lr=2e-4", "optim.betas=[0.9,0.99]",
        "optim.weight_decay=0", "optim.grad_clip=2", "optim.warmup_steps=1", "optim.steps=0",
        "optim.decay_over=200",
        "optim.mini_batches=4", "eval.n=512", "eval.k=[1,2]", "eval.temperature=0.9",
        "eval.max_tokens=19", "eval.every=10", "eval.curve_n=32", "eval.batch=1024",
        "eval.rare_nll_samples=0", "method.advantage.unbiased=false", "method.kl_coef=0.1",
        "method.entropy_coef=0.1", "method.loss.eps_high=0.3", "method=f_grpo",
        "method.aggregation._target_=common.losses.aggregate.sequence_mean_token_mean",
        "data.train.size=6401", "data.train.template=other", "data.benchmarks.rare.seed=1",
        "model.pretrain.seed=9", "model.pretrain.lr=0.01", "model.name=other",
    ]  # fmt: skip
    ids = [load([change], "f_grpo").run_id for change in changes]
    assert len({base.run_id, *ids}) == len(changes) + 1
    assert load(["experiment=grpo_long", "seed=3"], "study").run_id.startswith("grpo_long-s3-")


def test_the_second_temperature_goes_where_all_log_probs_have_it():
    apart = ["sampling.temperature=0.7", "sampling.log_prob_temperature={}"]
    two, one = ([word.format(t) for word in apart] for t in (1.2, 1))
    assert load(["backend=verl", *one], "f_grpo").sampling.reported == 1
    with refuses("sampling.log_prob_temperature", 1.2):  # vLLM has none but 0.7 and 1
        load(["backend=verl", *two], "f_grpo")
    with refuses("sampling.log_prob_temperature", 1.0):  # a sampler of another distribution
        load(["method=dlc", *one], "f_grpo")
    assert load(["method=dlc", apart[0]], "f_grpo").sampling.reported == 0.7


def test_the_stored_config_makes_the_same_experiment():
    x = load(["experiment=f_grpo_gamma1", "seed=4", "optim.lr=3e-5"], "study")
    again = strict(Experiment, asdict(x))
    assert again == x
    assert again.run_id == x.run_id


def test_a_curve_has_every_step_and_the_further_ones_before_the_last():
    words = ["eval.every=600", "eval.also_at=[40,20,1200,5000]", "eval.full_at=[1300]"]
    x = load(words, "f_grpo")
    assert x.eval.curve(3600) == [20, 40, 600, 1200, 1300, 1800, 2400, 3000]
    assert x.eval.curve(1200) == [20, 40, 600]
    assert x.eval.curve(0) == []
    assert x.run_id != load(words[:1], "f_grpo").run_id
    with refuses("eval.also_at"):
        load([*words, "backend=verl"], "f_grpo")
