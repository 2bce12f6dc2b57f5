"""Problems of reasoning-gym (arXiv 2505.24760; PyPI, Apache-2.0), whose generators make as many as
are wanted. The package is optional: pip install -e '.[reasoning-gym]'. Its verifier is
common/verifiers/reasoning_gym.py."""

import hashlib

from common.errors import UserError, require

SPLITS = {"train": range(0, 80), "dev": range(80, 90), "test": range(90, 100)}
# These make other problems in every process, whatever the seed (0.1.25): they iterate over sets.
UNREPEATABLE = ("isomorphic_strings", "polynomial_multiplication", "ransom_note")
DRAWN = 100  # problems drawn for each one wanted: other splits and repetitions are dropped


def problems(
    *, task: str, split: str, size: int, seed: int, options: dict | None = None
) -> list[dict]:
    """Return `size` distinct rows of a split of a task; the same call gives the same list. Splits
    are made by a hash of the question, so no two of them share a question, whatever the seed.

    options: settings of the task's own configuration, such as {min_terms: 2, max_terms: 3}. A row
    has id, problem, answer (None where several are right) and `made`, which is what makes the
    problem again. Raises UserError if the package is missing, the task or an option is unknown, the
    task is unrepeatable, or the split does not hold so many problems.
    """
    require(split in SPLITS, "split", split, f"one of {sorted(SPLITS)}")
    require(size > 0, "size", size, "must be above 0")
    require(task not in UNREPEATABLE, "task", task, "makes other problems in every process")
    gym = _package()
    require(task in gym.factory.DATASETS, "task", task, f"one of {', '.join(gym.factory.DATASETS)}")
    many, own = DRAWN * size, dict(options or {})
    made = {"task": task, "size": many, "seed": seed, "options": own}
    try:
        drawn = gym.create_dataset(task, size=many, seed=seed, **own)
    except (TypeError, ValueError, AssertionError) as error:
        raise UserError(f"task={task} options={options}: {error}") from error
    rows: dict[str, dict] = {}
    for index in range(many):
        entry = drawn[index]
        question, answer = entry["question"], entry["answer"]
        name = hashlib.sha256(question.encode()).hexdigest()[:16]
        if name in rows or int(name[:8], 16) % 100 not in SPLITS[split]:
            continue
        answer = None if answer is None else str(answer).strip()
        row = {"id": f"{task}-{name}", "problem": question, "answer": answer}
        rows[name] = row | {"made": made | {"index": index, "question": name}}
        if len(rows) == size:
            return list(rows.values())
    raise UserError(
        f"size={size}: {split} of task={task} has only {len(rows)} different problems among "
        f"{many}; lower it, or give options that make more"
    )


def _package():
    try:
        import reasoning_gym
        import reasoning_gym.factory
    except ImportError as error:
        raise UserError(
            f"data=reasoning_gym: the package reasoning-gym cannot be imported here ({error}); "
            "pip install -e '.[reasoning-gym]'"
        ) from error
    return reasoning_gym
