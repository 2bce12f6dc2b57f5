"""The command `python -m common.import_runs`; the code is common/comparison/import_runs.py."""

from common.cli import guard
from common.comparison.import_runs import command

if __name__ == "__main__":
    guard(command)
