"""The command `python -m common.theory`; the code is common/methods/theory.py."""

import sys

from common.cli import guard
from common.methods.theory import main

if __name__ == "__main__":
    guard(lambda: main(sys.argv[1:]))
