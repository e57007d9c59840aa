"""How long a long build will still take."""

from xpu_stack.build.cmake import Pace, minutes


def test_goes_by_the_steps_so_far() -> None:
    pace = Pace(0)
    assert pace.left(100) is None
    pace.at(600, 10)
    assert pace.left(100) == 600 / 10 * 90


def test_forgets_steps_that_came_from_the_cache() -> None:
    pace = Pace(0)
    pace.at(10, 1000)  # from the cache
    for step in range(1, 61):
        pace.at(10 + 60 * step, 1000 + step)
    assert pace.left(1100) == 60 * 40


def test_says_a_line_every_five_minutes() -> None:
    pace = Pace(0)
    said = []
    for minute in range(1, 13):
        pace.at(minute * 60, minute)
        said.append(pace.to_say(24))
    assert [line for line in said if line] == [
        "5 of 24 steps, about 19 min left",
        "10 of 24 steps, about 14 min left",
    ]


def test_times_as_a_person_says_them() -> None:
    assert [minutes(one) for one in (20, 60, 3599, 3600, 3700 + 60 * 60)] == [
        "less than a minute",
        "1 min",
        "1 h 00 min",
        "1 h 00 min",
        "2 h 02 min",
    ]
