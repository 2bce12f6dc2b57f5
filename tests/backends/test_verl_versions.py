"""Where the code meets what a new version of verl may change."""

import re

from common.config.files import ROOT

NAMED = re.compile(r"transfer_?queue|\btq\b|verl\.trainer\.ppo\.v1|TaskRunner|PPOTrainer", re.I)


def test_one_file_alone_names_verls_v1_trainer_and_its_store():
    folders = ("common", "papers", "slurm", "bench", "rlvr_papers")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in files if NAMED.search(path.read_text())}
    assert found == {"common/backends/verl/v1.py"}
