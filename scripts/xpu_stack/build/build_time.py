"""Estimates how long a build will still take."""

from collections import deque

_WINDOW = 30 * 60.0  # seconds: what is looked back on
_SAID_EVERY = 5 * 60.0  # seconds


class Pace:
    """Estimates from the steps of the last half hour.

    Earlier steps say little: a build that continues takes its first steps from the
    cache, and PyTorch's largest files come one after the other.
    """

    def __init__(self, now: float) -> None:
        self._seen: deque[tuple[float, int]] = deque([(now, 0)])
        self._said = now

    def at(self, now: float, done: int) -> None:
        """Notes that `done` steps are done."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    def left(self, total: int) -> float | None:
        """Seconds until `total` steps are done; None: nothing to go by."""
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        if done <= before:
            return None
        return (now - then) / (done - before) * (total - done)

    def to_say(self, total: int) -> str | None:
        """A line for a log, where there is no bar to look at; None: not yet again."""
        now, done = self._seen[-1]
        left = self.left(total)
        if left is None or now - self._said < _SAID_EVERY:
            return None
        self._said = now
        return f"{done} of {total} steps, about {minutes(left)} left"


def minutes(seconds: float) -> str:
    """A time as a person says it."""
    whole = round(seconds / 60)
    if whole < 1:
        return "less than a minute"
    return f"{whole} min" if whole < 60 else f"{whole // 60} h {whole % 60:02} min"
