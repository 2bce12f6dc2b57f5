"""Python imports this first where the tests put this folder on PYTHONPATH: in SLURM jobs and verl's
processes. Collecting garbage would take a quarter of the time that importing verl and vLLM takes.
"""

import gc

gc.set_threshold(50_000, 50, 50)
