"""Losses on token log-probabilities, and how they are summed: pure functions, each with its
source."""
