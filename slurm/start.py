"""`python -m slurm.start FILE` runs a task of the list in FILE (records.write_tasks): this array
element's, else the first."""

import json
import os
import sys
from pathlib import Path

from slurm.stop import withhold

if __name__ == "__main__":
    withhold()  # until slurm.job listens: a job that is stopped while it imports must come back
    from slurm.job import Task

    tasks = json.loads(Path(sys.argv[1]).read_text())
    Task(**tasks[int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))])()
