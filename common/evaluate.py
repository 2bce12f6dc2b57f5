"""The command `python -m common.evaluate`; the code is in common/evaluation/."""

from common.evaluation.__main__ import main

if __name__ == "__main__":
    main()
