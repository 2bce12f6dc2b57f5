"""Python imports this first where the tests put this folder on PYTHONPATH: in SLURM jobs and verl's
processes. A quarter of importing verl and vLLM would be the collection of garbage."""

import gc

gc.set_threshold(50_000, 50, 50)
