"""Functions that moved: what was stored under their first path is still found and still read.

A run's folder is named after a hash of its configuration, dotted paths included. Hashes are of the
first path (`first_paths`), so a move renames no run; imports are of today's (`today`), so a stored
or a user's own file may name either.
"""

MOVED = {  # first path: today's; both up to the function's own name
    "common.dataset_rows.": "common.datasets.rows.",
    "common.prompts.": "common.datasets.prompts.",
    "papers.cov_grpo.statistics.": "papers.cov_grpo.covariance.formulas.",
    "papers.fade.training_set.": "papers.fade.code_rewards.training_set.",
}


def today(path: str) -> str:
    """Where the function that `path` names stands now."""
    return _with(path, MOVED)


def first_paths(config):
    """`config` (dicts, lists, values) with every `_target_` as it was first called."""
    if isinstance(config, dict):
        first = {new: old for old, new in MOVED.items()}
        return {
            key: _with(value, first) if key == "_target_" else first_paths(value)
            for key, value in config.items()
        }
    return [first_paths(value) for value in config] if isinstance(config, list) else config


def _with(path: str, renamed: dict[str, str]) -> str:
    for old, new in renamed.items():
        if path.startswith(old):
            return new + path.removeprefix(old)
    return path
