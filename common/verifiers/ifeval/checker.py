"""lm-eval's official IFEval checker, imported so that it neither downloads, prints nor logs.

Importing this module takes 4-6 s, so only the mother process of `common.verifiers.ifeval`'s workers
does it, once. lm-eval downloads NLTK's "punkt_tab" at import if it is missing, but only in the
process of local rank 0, so another rank is set during the import. The checker logs whole responses
whose language it cannot detect, so that logger is off. langdetect is random unless seeded.
"""

import logging
import os
from unittest.mock import patch

from common.errors import UserError

try:
    with patch.dict(os.environ, {"LOCAL_RANK": "1"}):
        from langdetect import DetectorFactory, detector_factory
        from lm_eval.tasks.ifeval import instructions, utils
        from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT
except ImportError as error:
    raise UserError(
        f"verifier=ifeval: lm-eval with its ifeval extra is not installed ({error}); "
        "pip install 'lm-eval[ifeval]'"
    ) from error

logging.getLogger("lm_eval.tasks.ifeval.instructions").disabled = True
DetectorFactory.seed = 0
detector_factory.init_factory()  # 55 language profiles, 1 s: once, not in each forked worker

_is_json = instructions.JsonFormat.check_following


def _check_json(self, value):
    """As the original, but JSON that nests too deep for Python is no JSON."""
    try:
        return _is_json(self, value)
    except RecursionError:
        return False


instructions.JsonFormat.check_following = _check_json
CHECKS = {
    "strict": utils.test_instruction_following_strict,
    "loose": utils.test_instruction_following_loose,
}
Example = utils.InputExample

__all__ = ["CHECKS", "INSTRUCTION_DICT", "Example"]
