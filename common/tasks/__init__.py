"""Tasks that are made here: Countdown, arithmetic, expressions and mazes."""
