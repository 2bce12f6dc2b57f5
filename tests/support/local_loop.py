"""A loop with a verifier that may be made up, and a verifier in this process."""

from common.backends.local import Loop
from common.config.resolve import resolve
from common.types import Verdict


def made_up(response: str, reference: str) -> Verdict:
    """Half of all responses are right, whatever the model can do; none where the target ends in
    4 or 8. So some groups are mixed and some are not."""
    right = sum(map(ord, response)) % 2 == 0 and not reference.endswith(("4", "8"))
    return Verdict("correct" if right else "wrong", float(right), parsed=response)


def make_loop(x, folder) -> Loop:
    """A loop whose verifier needs no workers and no canaries: it may be made up."""
    verifier = resolve(x.data.verifier, "data.verifier")
    return Loop(x, folder, lambda pairs: [verifier(*pair) for pair in pairs])


BONUS = "method.entropy_coef=0.01"
