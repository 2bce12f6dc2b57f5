"""Problems of reasoning-gym (arXiv 2505.24760; PyPI, Apache-2.0), whose generators make as many as
are wanted. An optional package: pip install -e '.[reasoning-gym]'.

Its tasks are judged here by the math verifier, so only those whose every answer is a whole number
or a fraction are taken. What other tasks need is a scorer of reasoning-gym's own for each, and some
of these evaluate what the model wrote; they are refused by name.
"""

import hashlib
import re

from common.errors import UserError, require

SPLITS = {"train": range(0, 80), "dev": range(80, 90), "test": range(90, 100)}
NUMBER = re.compile(r"-?[0-9]+(/[0-9]+)?")
DRAWN = 100  # problems that are looked at for each one wanted: splits and repetitions take some


def problems(
    *, task: str, split: str, size: int, seed: int, options: dict | None = None
) -> list[dict]:
    """`size` distinct rows (id, problem, answer) of a split of a task; the same call, the same
    list. Splits are by a hash of the question, so they share none whatever the seed.

    options: of the task's own configuration, such as {min_terms: 2, max_terms: 3}. UserError where
    the package is missing, the task or an option unknown, an answer not a number, or the split does
    not hold so many.
    """
    require(split in SPLITS, "split", split, f"one of {sorted(SPLITS)}")
    require(size > 0, "size", size, "must be above 0")
    gym = _package()
    require(task in gym.factory.DATASETS, "task", task, f"one of {', '.join(gym.factory.DATASETS)}")
    try:
        drawn = gym.create_dataset(task, size=DRAWN * size, seed=seed, **(options or {}))
    except (TypeError, ValueError, AssertionError) as error:
        raise UserError(f"task={task} options={options}: {error}") from error
    rows: dict[str, dict] = {}
    for entry in drawn:
        question, answer = entry["question"], str(entry["answer"]).strip()
        name = hashlib.sha256(question.encode()).hexdigest()[:16]
        if name in rows or int(name[:8], 16) % 100 not in SPLITS[split]:
            continue
        require(
            NUMBER.fullmatch(answer) is not None,
            "task",
            task,
            f"has answers such as {answer[:40]!r}, which our verifiers do not judge; use a task "
            "whose answers are whole numbers or fractions (chain_sum, gcd, lcm, products)",
        )
        rows[name] = {"id": f"{task}-{name}", "problem": question, "answer": answer}
        if len(rows) == size:
            return list(rows.values())
    raise UserError(
        f"size={size}: {split} of task={task} has only {len(rows)} different problems among "
        f"{DRAWN * size}; lower it, or give options that make more"
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
