"""Tasks that are made here: Countdown, expressions and mazes."""
