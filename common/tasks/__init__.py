"""Tasks that are made here: Countdown, arithmetic and mazes, their problems and demonstrations."""
