import pytest
import torch
from late import Late
from tiny import network

from common.errors import UserError
from common.models import pretrain
from common.results.files import write_json

verl, hf, transformers = map(
    Late, ("common.backends.verl.export", "common.models.hf", "transformers")
)


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def checkpoint(request, tmp_path):
    """(the folder that verl leaves of a model on one GPU, the model)."""
    tokenizer = pretrain.tokenizer()
    model = network(vocab_size=len(tokenizer), tie_word_embeddings=request.param)
    folder = tmp_path / "actor"
    model.config.save_pretrained(folder / "huggingface")
    tokenizer.save_pretrained(folder / "huggingface")
    write_json(folder / "fsdp_config.json", {"world_size": 1})
    torch.save(model.state_dict(), folder / "model_world_size_1_rank_0.pt")
    return folder, model


@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.float32), ("cuda", torch.bfloat16)])
def test_the_weights_are_the_checkpoints_and_none_are_drawn(checkpoint, tmp_path, device, dtype):
    folder, model = checkpoint
    before = torch.get_rng_state()
    for _ in range(2):  # the second replaces the first
        verl.export(folder, tmp_path / "model", device)
    assert torch.equal(torch.get_rng_state(), before)
    made = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=dtype)
    expected = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    torch.testing.assert_close(dict(made.state_dict()), expected, rtol=0, atol=0)
    assert {path.name for path in tmp_path.iterdir()} == {"actor", "model"}


def test_every_end_token_is_kept(checkpoint, tmp_path):
    folder, _ = checkpoint
    transformers.GenerationConfig(eos_token_id=[3, 5]).save_pretrained(
        folder / "huggingface"
    )  # as verl has it
    verl.export(folder, tmp_path / "model", "cpu")
    assert transformers.GenerationConfig.from_pretrained(tmp_path / "model").eos_token_id == [3, 5]


def test_what_does_not_fit_is_refused_and_leaves_nothing(checkpoint, tmp_path):
    folder, model = checkpoint
    weights = model.state_dict()
    del weights["model.norm.weight"]
    torch.save(weights, folder / "model_world_size_1_rank_0.pt")
    with pytest.raises(UserError, match=r"model\.norm\.weight"):
        verl.export(folder, tmp_path / "model", "cpu")
    assert not (tmp_path / "model").exists()
