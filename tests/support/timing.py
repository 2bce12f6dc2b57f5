"""CPU seconds of a call, for tests that what is quadratic must not pass."""

import time


def cpu_seconds(function, *args, **named):
    """(the least of two calls' CPU seconds in this thread, what the last returned): a busy machine
    and what else this process does (collecting garbage) can spoil one, not both."""
    seconds = []
    for _ in range(2):
        began = time.thread_time()
        result = function(*args, **named)
        seconds.append(time.thread_time() - began)
    return min(seconds), result
