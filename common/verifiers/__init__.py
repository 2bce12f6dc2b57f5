"""Verifiers decide what is right: one module each, run in worker processes (`pool`) that a guard tests
before each step."""
