import re

from common.config.files import ROOT

NAMED = re.compile(r"transfer_?queue|\btq\b|verl\.trainer\.ppo\.v1|TaskRunner|PPOTrainer", re.I)


def test_two_files_alone_name_verls_v1_trainer_and_its_store():
    """v1.py, and stock.py, which verl imports while it is imported itself, too early for v1.py."""
    folders = ("common", "papers", "slurm", "bench", "rlvr_papers")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in files if NAMED.search(path.read_text())}
    assert found == {f"common/backends/verl/{name}.py" for name in ("v1", "stock")}
