"""Advantages: pure functions from a group's rewards (P, G) to weights, one for each method."""
