"""The ifeval verifier. Configurations name `common.verifiers.ifeval.verify` and `.reference`."""

from common.verifiers.ifeval.verifier import KNOWN, PRELOAD, reference, verify

__all__ = ["KNOWN", "PRELOAD", "reference", "verify"]
