from common.backends import checkpoint, saving
from common.backends.local import train
from common.backends.saving import Saving


def saved(monkeypatch, every: int | None, step_s: float, save_s: list[float]) -> list[int]:
    """The first five steps that are saved, the n-th in save_s[n] seconds."""
    clock, found, costs = [0.0], [], [*save_s, *save_s[-1:] * 5]
    monkeypatch.setattr(saving, "monotonic", lambda: clock[0])
    one = Saving(every)
    for step in range(1, 1000):
        clock[0] += step_s
        if one.due(step) and len(found) < 5:
            with one.timed(step):
                clock[0] += costs[len(found)]
            found.append(step)
    return found


def test_the_first_step_is_saved_and_its_cost_decides_when_the_next_is_due(monkeypatch):
    assert saved(monkeypatch, None, 100, [40]) == [1, 21, 41, 61, 81]  # 2 % of the time
    assert saved(monkeypatch, None, 99, [40]) == [1, 22, 43, 64, 85]  # at most
    assert saved(monkeypatch, None, 100, [40, 10]) == [1, 21, 26, 31, 36]
    assert saved(monkeypatch, None, 1000, [900]) == [1, 4, 7, 10, 13]  # an hour is the most
    assert saved(monkeypatch, None, 4000, [1]) == [1, 2, 3, 4, 5]
    assert saved(monkeypatch, 7, 100, [40]) == [7, 14, 21, 28, 35]


def test_a_local_run_saves_its_first_step_and_then_by_the_clock(tiny, monkeypatch):
    found = []
    save = checkpoint.save
    monkeypatch.setattr(saving, "steps_between", lambda step_s, save_s: 4)

    def counted(path, loop):
        found.append(loop.step)
        save(path, loop)

    monkeypatch.setattr(checkpoint, "save", counted)
    train(tiny("checkpoint_every=null"), progress=False)  # 6 steps
    assert found == [1, 5, 6]
