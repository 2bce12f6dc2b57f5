"""lm-eval's official IFEval checker, imported so that it neither downloads, prints nor logs.

Importing this takes 4-6 s; only `common.verifiers.ifeval` does, and the mother of its workers,
once. lm-eval fetches NLTK's "punkt_tab" at import where it is missing, in the process of local rank
0 only: while it is imported here, the rank is another. The checker logs whole responses whose
language it cannot tell: that logger is off. langdetect is random unless seeded.
"""

import logging
import os
from unittest.mock import patch

from common.errors import UserError

try:
    with patch.dict(os.environ, {"LOCAL_RANK": "1"}):
        from langdetect import DetectorFactory, detector_factory
        from lm_eval.tasks.ifeval import utils
        from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT
except ImportError as error:
    raise UserError(
        f"verifier=ifeval: lm-eval with its ifeval extra is not installed ({error}); "
        "pip install 'lm-eval[ifeval]'"
    ) from error

logging.getLogger("lm_eval.tasks.ifeval.instructions").disabled = True
DetectorFactory.seed = 0
detector_factory.init_factory()  # 55 language profiles, 1 s: now, not in each forked worker

CHECKS = {
    "strict": utils.test_instruction_following_strict,
    "loose": utils.test_instruction_following_loose,
}
Example = utils.InputExample

__all__ = ["CHECKS", "INSTRUCTION_DICT", "Example"]
