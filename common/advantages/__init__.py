"""Advantages: pure functions from a group's rewards (P, G) to weights, one a method, with equation
and source."""
