"""pass@k, intervals, paired differences and fits: pure functions of counts and values."""
