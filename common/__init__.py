"""The loop that all five papers share: rollout, verify, weigh, step, evaluate, compare."""
