"""Logits of response tokens only, on a CPU.

verl computes the logits of prompt tokens too and drops the values computed from them. With a
vocabulary of 150,000 the logits of one token take a core some milliseconds, and in a row of the
papers' size a step has a hundred times more prompt tokens than response tokens.
"""

import torch
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional as functional


def install(engine) -> None:
    """Make `engine`, verl's FSDPEngineWithLMHead without remove_padding, compute logits of response
    tokens only. The values that it returns for prompt tokens are 0."""
    inputs, seen = engine.prepare_model_inputs, {}

    def only_responses(_, given):
        return (given[0][seen["positions"]].unsqueeze(0),)

    def prepare_model_inputs(micro_batch):
        made, arguments = inputs(micro_batch)
        seen["positions"] = positions(micro_batch, made["input_ids"].shape[1])
        return made, arguments

    def prepare_model_outputs(output, output_args, micro_batch, logits_processor_func):
        ids, kept = micro_batch["input_ids"], seen["positions"]
        lengths = ids.offsets().diff()
        real = torch.arange(kept.shape[1]) < lengths.unsqueeze(1)
        packed = kept[real]  # for all tokens, row after row, as verl packs them
        temperature = output_args["temperature"].repeat_interleave(kept.sum(1))
        logits = output.logits[0] / temperature.unsqueeze(1)
        labels = output_args["input_ids_rmpad_rolled"][packed]
        found = {"log_probs": functional.logprobs_from_logits(logits=logits, labels=labels)}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            found["entropy"] = functional.entropy_from_logits(logits)
        return {
            name: torch.nested.nested_tensor_from_jagged(
                torch.zeros(len(packed)).masked_scatter(packed, values), ids.offsets()
            )
            for name, values in found.items()
        }

    engine.module.get_output_embeddings().register_forward_pre_hook(only_responses)
    engine.prepare_model_inputs = prepare_model_inputs
    engine.prepare_model_outputs = prepare_model_outputs


def positions(micro_batch, width: int) -> torch.Tensor:
    """Return (B, width), true where a response token is predicted, which is one position before it.
    Rows are padded on the right."""
    ends = micro_batch["input_ids"].offsets().diff().unsqueeze(1)
    at = torch.arange(width)
    return (at >= ends - response_lengths(micro_batch).unsqueeze(1) - 1) & (at < ends - 1)


def response_lengths(micro_batch) -> torch.Tensor:
    """Return the lengths of the responses, (B,), from packed rows, or from padded rows with a mask
    as verl's own helpers read them."""
    responses = micro_batch["responses"]
    if responses.is_nested:
        return responses.offsets().diff()
    return micro_batch["attention_mask"][:, -responses.shape[1] :].sum(1)
