"""The loop that all five papers share: rollout, verify, weigh, step, evaluate, compare.

As a library it is `rlvr_papers`: common/api.py has the names.
"""
