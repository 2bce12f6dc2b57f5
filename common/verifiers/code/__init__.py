"""The code verifier. Configurations name `common.verifiers.code.verify` and `.reference`."""

from common.verifiers.code.verifier import example, prepare, reference, response, verify

__all__ = ["example", "prepare", "reference", "response", "verify"]
