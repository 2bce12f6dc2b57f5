import torch

from common.types import RolloutBatch, concatenate


def batch(prompt: list[int], response: list[int]) -> RolloutBatch:
    ids, answer = torch.tensor([prompt]), torch.tensor([response])
    mask = torch.ones(1, len(response))
    return RolloutBatch(
        ids, torch.ones_like(ids), answer, mask, -0.5 * mask, torch.tensor([len(response) < 3])
    )


def test_prompts_are_padded_on_the_left_and_responses_on_the_right():
    both = concatenate([batch([4, 5, 6], [7]), batch([8], [1, 2, 3])], pad_id=9)
    assert both.prompt_ids.tolist() == [[4, 5, 6], [9, 9, 8]]
    assert both.prompt_mask.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert both.response_ids.tolist() == [[7, 9, 9], [1, 2, 3]]
    assert both.mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert both.log_probs.tolist() == [[-0.5, 0, 0], [-0.5, -0.5, -0.5]]
    assert both.stopped.tolist() == [True, False]
