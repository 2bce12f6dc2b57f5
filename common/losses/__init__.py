"""Losses on token log-probabilities, and how they are summed: pure functions with equation and
source."""
