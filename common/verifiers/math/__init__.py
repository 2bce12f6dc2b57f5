"""The math verifier. Configurations name `common.verifiers.math.verify` and `.reference`."""

from common.verifiers.math.verifier import (
    CONVENTIONS,
    PRELOAD,
    example,
    reference,
    response,
    verify,
)

__all__ = ["CONVENTIONS", "PRELOAD", "example", "reference", "response", "verify"]
