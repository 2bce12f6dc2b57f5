import io
import sys

from common.progress import tracked


def test_a_log_and_a_terminal_show_how_far_a_loop_is_and_its_last_numbers(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream in (io.StringIO(), Terminal()):
        seen: list[int] = []
        monkeypatch.setattr(sys, "stderr", stream)
        for item in tracked(iter("ab"), "run", total=5, done=3, note=lambda s=seen: f"x {len(s)}"):
            seen.append(item)
        assert seen == ["a", "b"]
        assert "x 2" in stream.getvalue()
        assert ("5 of 5" in stream.getvalue()) != stream.isatty()
