"""DAPO's dynamic sampling in verl with a limit that is enforced.

verl's buffer draws two new groups for each group of equal rewards, without end if few groups are
mixed. Here a step draws at most `sampling.dynamic_batches` times its prompts; then groups without a
gradient replace the missing ones, as on the local backend.
"""

import logging
from collections import Counter
from collections.abc import Callable

from common.backends.verl.rows import PREFIX
from common.backends.verl.v1 import Buffer

logger = logging.getLogger(__name__)


class BoundedBuffer(Buffer):
    """verl's buffer of the synchronous trainer; `sampler_kwargs.batches` is the limit."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._submit: Callable[[int], None] = vars(self)["refill_fn"]
        self.refill_fn = self._refill

    def _refill(self, count: int) -> None:
        if (count := min(count, self._left)) > 0:
            self._left -= count
            self._submit(count)

    def sample(self, global_steps: int, partition_id: str, batch_size: int):
        if partition_id == "val" or self.filter_groups_metric is None:
            return super().sample(global_steps, partition_id, batch_size)
        self._size, self._left = batch_size, batch_size * (self.sampler_kwargs["batches"] - 1)
        self._flat = set[str]()  # groups of equal rewards that may fill the step
        drawn = self._left + batch_size
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        drawn -= self._left
        chosen = {key.split("_")[0] for key in batch.keys}
        filled = len(chosen & self._flat)
        self._clear_groups(partition_id, self._flat - chosen)
        if filled:
            logger.warning(
                f"step {global_steps}: {filled} of {batch_size} groups have no gradient; "
                f"sampling.dynamic_batches={self.sampler_kwargs['batches']} allows no more draws"
            )
        seen = {"rollout_batches": drawn / batch_size, "filled_groups": filled}
        return batch, metrics | {PREFIX + name: value for name, value in seen.items()}

    def _terminal_eviction_reasons(self, global_steps: int, partition_id: str):
        stale, flat, failed, _ = super()._terminal_eviction_reasons(global_steps, partition_id)
        if partition_id == "val" or self.filter_groups_metric is None:
            return stale, flat, failed, _
        flat -= self._flat  # groups in self._flat are counted already
        rewards = self._dapo_classification_cache[partition_id]
        return stale, flat, failed, Counter(rewards[uid] for uid in flat)

    def _evict_terminal_groups(self, global_steps: int, partition_id: str, eviction_reasons):
        if partition_id == "val" or self.filter_groups_metric is None:
            return super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)
        stale, flat, failed, rewards = eviction_reasons
        held = set(sorted(flat)[: self._size - len(self._flat)])
        self._flat |= held
        evicted, old, count, metrics = super()._evict_terminal_groups(
            global_steps, partition_id, (stale, flat - held, failed, rewards)
        )
        return evicted | held, old, count + len(held), metrics

    def _sampleable_terminal_keys(self, partition_id: str, eviction_reasons) -> set[str]:
        keys = super()._sampleable_terminal_keys(partition_id, eviction_reasons)
        if partition_id == "val" or self.filter_groups_metric is None:
            return keys
        keys -= self._flat
        runs = self.pending_keys[partition_id] or self.running_keys[partition_id]
        lacking = 0 if runs or self._left else max(0, self._size - len(keys))
        return keys | set(sorted(self._flat)[:lacking])

    def _materialize_batch(self, partition_id: str, uids: list[str], tags: dict[str, dict]):
        """Return verl's batch in the order in which prompts were drawn, not responses ended."""
        drawn = {uid: i for i, uid in enumerate(self.prompt_global_steps[partition_id])}
        parts = ((key.split("_"), key) for key in tags)
        keys = sorted((drawn.get(uid, -1), [int(i) for i in rest], k) for (uid, *rest), k in parts)
        return super()._materialize_batch(partition_id, uids, {key: tags[key] for *_, key in keys})
