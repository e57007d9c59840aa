"""`make test EACH=1` and `make bisect`, on real CMake, ninja, g++ and GoogleTest.

The base is a library with a CMake of its own; the series adds tests to it and
breaks one of them. Everything is compiled: MODE=full.
"""

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from hypothesis import given
from hypothesis import strategies as st
from project import TEXT, Project, git, write
from xpu_stack.build.packages import missing_apt
from xpu_stack.testing.bisecting import search

MISSING = missing_apt(["g++", "libgtest-dev"])
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(Torch CXX)
enable_testing()
add_library(calc SHARED calc.cpp)
file(GLOB tests CONFIGURE_DEPENDS test/*.cpp)
foreach(source ${tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} calc gtest gtest_main)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
"""
CALC = """\
int sum(int a, int b) {
  return a + b;
}

// one
// two
// three
// more
// five
// six
// seven

int product(int a, int b) {
  return a * b;
}
"""
TEST = """\
#include <gtest/gtest.h>

int sum(int, int);
int product(int, int);

TEST(CalcTest, Sum) {
  EXPECT_EQ(sum(2, 3), 5);
}
TEST(CalcTest, Product) {
  EXPECT_EQ(product(2, 3), 6);
}
TEST(CalcTest, Skipped) {
  GTEST_SKIP() << "for a reason";
}
class CalcSweep : public ::testing::TestWithParam<int> {};
TEST_P(CalcSweep, Zero) {
  EXPECT_EQ(product(GetParam(), 0), 0);
}
INSTANTIATE_TEST_SUITE_P(Few, CalcSweep, ::testing::Values(1, 2));
"""
SERIES = """\
author: xpu-stack <xpu-stack@invalid>
stages:
  - name: first
    summary: tests
    changes:
      - name: tests
        files: [c10_xpu/first]
  - name: second
    summary: edits
    changes:
      - name: comment
      - name: sum
      - name: product
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder for all tests of this file: the builds are of one checkout."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def calc(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Project:
    project = Project.make(tmp_path_factory.mktemp("calc"))
    for folder in ("patches/texts", "patches/v1.13.1/device", "patches/v1.13.1/stream"):
        shutil.rmtree(project.folder / folder)
    for folder in ("c10_xpu", "aten_xpu"):
        shutil.rmtree(project.folder / folder)
    write(project.folder, {"patches/series.yaml": SERIES, "c10_xpu/first/test/calc_test.cpp": TEST})
    write(project.folder, {"patches/texts/first/tests.md": TEXT.format(title="Add tests")})
    for name in ("comment", "sum", "product"):
        text = TEXT.format(title=f"Change the {name}")
        write(project.folder, {f"patches/texts/second/{name}.md": text})
    git(project.checkout, "rm", "-qrf", ".")
    write(project.checkout, {"CMakeLists.txt": CMAKE, "calc.cpp": CALC, "c10/CMakeLists.txt": ""})
    git(project.checkout, "add", ".")
    git(project.checkout, "commit", "-qm", "calc")
    for name, old, new in (
        ("comment", "// more", "// even more"),
        ("sum", "a + b", "b - a"),
        ("product", "  return a * b;", "  return b * a;"),
    ):
        project.patch(f"second/{name}", {"calc.cpp": (old, new)})
        # the next one is made for what this one leaves
        git(project.checkout, "apply", str(project.folder / f"patches/v1.13.1/second/{name}.patch"))
        git(project.checkout, "commit", "-qam", name)
    git(project.checkout, "reset", "-q", "--hard", "HEAD~3")
    # The small project needs no SYCL; the tool wants one to be there.
    (home / "sycl/lib").mkdir(parents=True)
    (home / "sycl/lib/libsycl.so").touch()
    (home / "sycl/include/sycl").mkdir(parents=True)
    git(project.folder, "init", "-q")
    write(project.folder, {".gitignore": "/.xpu/\n__pycache__/\n"})
    save(project, "The series")
    return project


def save(project: Project, title: str) -> None:
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-qm", title)


def environment(home: Path) -> dict[str, str]:
    return {"XPU_STACK_HOME": str(home), "SYCL_ROOT": str(home / "sycl")}


def bisect(project: Project, home: Path, *words: str, code: int = 0) -> str:
    ended = project.run("bisect", "--mode", "full", *words, env=environment(home))
    assert ended.code == code, ended.err + ended.out
    return ended.lines if code else ended.out


def test_each_change_is_tested_and_the_run_goes_on_where_it_stopped(
    calc: Project, home: Path
) -> None:
    words = ("test", "--mode", "full", "--each")
    ended = calc.run(*words, env=environment(home))
    assert ended.code == 8
    assert [line for line in ended.out.splitlines() if line.startswith("--")] == [
        "-- first/tests (1/4)",
        "-- second/comment (2/4)",
        "-- second/sum (3/4)",
    ]
    assert "second/sum: has no tests of its own" in ended.out
    assert "1 program(s) passed before and have not changed" in ended.out  # but for a comment
    assert "CPU-2: calc_test: CalcTest.Sum" in ended.err
    assert calc.log()[0] == "Change the sum"  # where the person mends it
    again = calc.run(*words, env=environment(home))
    assert again.out.count("passed before on this tree") == 2
    results = list((home / "work").glob("*/results/*/*/calc_test.xml"))
    assert [path.parent.name for path in results] == ["CPU-2"] * 3  # JUnit of each change


def test_a_stage_may_be_a_change(calc: Project, home: Path) -> None:
    told = calc.ok("test", "--mode", "full", "--stage", "second/comment", env=environment(home))
    assert "'second/comment' and all below it pass" in told
    # Below the last point each test runs once; at the last one in all that it needs.
    assert "first: passed before on this tree" in told
    assert "first/tests: 12 passed, 0 failed, 3 skipped in 3 configuration(s)" in told
    again = calc.ok("test", "--mode", "full", "--stage", "first", env=environment(home))
    assert "3 configuration(s)" in again
    again = calc.ok("test", "--mode", "full", "--stage", "first", env=environment(home))
    assert "first: passed before on this tree" in again
    words = ("--stage", "second/comment", "--each", "--again")
    assert "passed before" not in calc.ok("test", "--mode", "full", *words, env=environment(home))
    last = calc.ok("test", "--mode", "full", *words[:2], "--last", "--again", env=environment(home))
    assert [line for line in last.splitlines() if line.startswith("--")] == [
        "-- second/comment (1/1)"
    ]
    ended = calc.run("apply", "--stage", "second/nothing", env=environment(home))
    assert ended.code == 2
    assert "the changes of its stage are: second/comment, second/sum" in ended.err


def test_the_change_that_broke_a_test(calc: Project, home: Path) -> None:
    calc.ok("apply", "--stage", "second/comment", env=environment(home))
    before = calc.snapshot()
    assert_expected_inline(
        bisect(calc, home, "--test", "CalcTest.Sum"),
        """\
  second/product: the test fails (CPU, CPU-2, GPU)
  first/tests: the test passes
  second/comment: the test passes
  second/sum: the test fails (CPU, CPU-2, GPU)
CalcTest.Sum was broken by second/sum: Change the sum
in CPU it says:
  test/calc_test.cpp:7
  Expected equality of these values:
    sum(2, 3)
      Which is: 1
    5
""",
    )
    assert calc.snapshot() == before


def test_by_program_and_between_two_stages(calc: Project, home: Path) -> None:
    told = bisect(calc, home, "--test", "calc_test", "--good", "first", "--bad", "second/sum")
    assert "calc_test was broken by second/sum: Change the sum" in told


@pytest.mark.slow
def test_a_checkout_that_the_tool_has_not_touched_is_put_back(
    calc: Project, home: Path, tmp_path: Path
) -> None:
    for name in (("-b", "mine"), ("--detach",)):
        fork = tmp_path / name[0]
        git(tmp_path, "clone", "-q", "--branch", "main", str(calc.checkout), str(fork))
        git(fork, "checkout", "-q", *name)
        mine = Project(calc.folder, fork)
        before = mine.snapshot()
        assert "was broken by second/sum" in bisect(mine, home, "--test", "CalcTest.Sum")
        assert mine.snapshot() == before
        assert git(fork, "for-each-ref", "refs/xpu-stack/moves") == ""


def test_a_search_is_no_move_to_undo(calc: Project, home: Path) -> None:
    calc.ok("apply", "--stage", "base", env=environment(home))
    calc.ok("apply", "--stage", "first", env=environment(home))
    assert "was broken by second/sum" in bisect(calc, home, "--test", "CalcTest.Sum")
    assert "undone: apply" in calc.ok("undo", env=environment(home))
    assert calc.log()[0] == "calc"


def test_without_a_name(calc: Project, home: Path) -> None:
    ended = calc.run("bisect", env=environment(home))
    assert ended.code == 2
    assert_expected_inline(
        ended.lines,
        """\
error: 'make bisect' needs TEST= or RUN=, and not both.
  why: it runs a test of the series, or a command, at each place
  next: make bisect TEST=<test> PYTORCH_SRC=CHECKOUT # or: make bisect RUN=<command> PYTORCH_SRC=CHECKOUT""",
    )


def test_a_command_on_what_is_built(calc: Project, home: Path) -> None:
    """`calc_test` itself, of the build that the command's environment names."""
    calc.ok("apply", "--stage", "second/comment", env=environment(home))
    before = calc.snapshot()
    command = '"${PYTHONPATH%%/site*}"/calc_test --gtest_filter=CalcTest.Sum'
    told = bisect(calc, home, "--run", command, "--good", "first", "--build")
    assert "was broken by second/sum: Change the sum\nit says:\n" in told
    assert "Expected equality of these values" in told
    assert calc.snapshot() == before


def test_what_cannot_be_searched(calc: Project, home: Path) -> None:
    assert_expected_inline(
        bisect(calc, home, "--test", "CalcTest.Product", code=2).split("error: ")[1],
        """\
There is nothing to search: at second/product the test passes.
  why: a search needs a place at which it fails
  next: make bisect TEST=CalcTest.Product BAD=<where it fails> PYTORCH_SRC=CHECKOUT # AGAIN=1: runs it anew""",
    )
    skipped = bisect(calc, home, "--test", "CalcTest.Skipped", code=2)
    assert "at second/product the test is skipped." in skipped
    assert "why: for a reason" in skipped
    assert "the nearest names: CalcTest.Sum" in bisect(calc, home, "--test", "CalcTest.Sun", code=2)
    wrong = bisect(
        calc, home, "--test", "CalcTest.Sum", "--good", "second", "--bad", "first", code=2
    )
    assert "second/product does not come before first/tests." in wrong
    good = bisect(calc, home, "--test", "CalcTest.Sum", "--good", "second/sum", code=2)
    assert "There is no good end: at second/sum the test fails." in good
    unknown = bisect(calc, home, "--test", "CalcTest.Sum", "--good", "nothing", code=2)
    assert "'nothing' is not a stage, a change or a version of the series." in unknown


def test_a_change_that_does_not_build_is_gone_around(calc: Project, home: Path) -> None:
    """The comment is no C++ until the last change mends it."""
    calc.ok("apply", "--stage", "base", env=environment(home))
    source = calc.checkout / "calc.cpp"
    broken = CALC.replace("// more", "even more;")
    summed = broken.replace("a + b", "b - a")
    mended = summed.replace("even more;", "// more")
    try:
        for name, text in (("comment", broken), ("sum", summed), ("product", mended)):
            source.write_text(text)
            calc.write_patch(f"second/{name}", git(calc.checkout, "diff", "--full-index"))
            git(calc.checkout, "commit", "-qam", name)
        git(calc.checkout, "reset", "-q", "--hard", "HEAD~3")
        told = bisect(calc, home, "--test", "CalcTest.Sum")
    finally:
        git(calc.folder, "checkout", "-q", ".")
    assert "second/comment: cannot be judged" in told
    assert "second/sum: cannot be judged" in told
    assert (
        "CalcTest.Sum was broken by one of these; all but the last could not be tested:\n"
        "  second/comment: Change the comment\n"
        "  second/sum: Change the sum\n"
        "  second/product: Change the product\n"
    ) in told


def test_the_version_that_broke_a_test(calc: Project, home: Path) -> None:
    """It fails with the change that brought it: what broke it is an edit of the series."""
    start = git(calc.folder, "rev-parse", "HEAD").strip()
    test = calc.folder / "c10_xpu/first/test/calc_test.cpp"
    text = calc.folder / "patches/texts/first/tests.md"
    try:
        text.write_text(text.read_text() + "\nMore.\n")
        save(calc, "Say more")
        test.write_text(TEST.replace("product(2, 3), 6", "product(2, 3), 7"))
        save(calc, "Expect seven")
        text.write_text(text.read_text() + "\nAnd more.\n")
        told = bisect(calc, home, "--test", "CalcTest.Product")
        assert "CalcTest.Product fails from the start: since first/tests" in told
        found = bisect(calc, home, "--test", "CalcTest.Product", "--good", start)
        assert "CalcTest.Product was broken by " in found
        assert " 'Expect seven'\nit edits first/tests\n" in found
        assert "the series as it is now, not committed: the test fails" in found
        now = bisect(calc, home, "--test", "CalcTest.Product", "--good", "HEAD~1", "--bad", "HEAD")
        assert " 'Expect seven'\n" in now
    finally:
        git(calc.folder, "reset", "-q", "--hard", start)


@contextmanager
def ended_by(number: signal.Signals, project: Project, home: Path) -> Iterator[int]:
    """A bisect is ended by a signal while a test runs that does not end by itself; its code."""
    start = git(project.folder, "rev-parse", "HEAD").strip()
    sign = home / f"it-runs-{number.name}"
    sign.unlink(missing_ok=True)
    os.mkfifo(sign)
    hang = f'#include <fstream>\n#include <unistd.h>\nTEST(CalcTest, Hangs) {{ std::ofstream("{sign}") << getpid() << std::flush; pause(); }}\n'
    (project.folder / "c10_xpu/first/test/calc_test.cpp").write_text(TEST + hang)
    project.ok("apply", "--stage", "base", env=environment(home))
    project.ok("apply", "--stage", "first", env=environment(home))
    ear = os.open(sign, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with subprocess.Popen(
            project.command("bisect", "--mode", "full", "--test", "CalcTest.Hangs"),
            cwd=project.folder,
            env={**project.environment(), **environment(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # a shell's background job, which may be what runs the tests, ignores it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            heard, _, _ = select.select([ear], [], [], 120)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert heard, errors.decode()
        running = int(os.read(ear, 20))
        if number is signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.kill(running, number)  # where CTest, ended with the tool, has not
        yield process.returncode
    finally:
        os.close(ear)
        git(project.folder, "reset", "-q", "--hard", start)
    project.ok("apply", env=environment(home))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_the_checkout_is_put_back(
    calc: Project, home: Path, number: signal.Signals
) -> None:
    with ended_by(number, calc, home) as code:
        assert code == 130
        assert calc.log()[0] == "Add tests"
        assert git(calc.checkout, "status", "--porcelain") == ""
        assert "undone: apply" in calc.ok("undo", env=environment(home))
        assert calc.log()[0] == "calc"


def test_killed_the_next_command_puts_it_back(calc: Project, home: Path) -> None:
    with ended_by(signal.SIGKILL, calc, home) as code:
        assert code == -signal.SIGKILL
        assert calc.log()[0] == "Change the product"  # where the search was
        told = calc.ok("undo", env=environment(home))
        assert "an earlier search was interrupted; the checkout is back where it was" in told
        assert calc.log()[0] == "calc"  # the apply is undone, no move of the search
        assert "interrupted" not in calc.ok("status", env=environment(home))


def test_killed_and_edited_since(calc: Project, home: Path) -> None:
    """What a person has typed meanwhile stays; the command to type is named."""
    with ended_by(signal.SIGKILL, calc, home):
        source = calc.checkout / "calc.cpp"
        source.write_text("// mine\n" + source.read_text())
        for verb in ("status", "apply"):
            ended = calc.run(verb, env=environment(home))
            assert ended.code == 3
            assert "could not be put back where it was before the search" in ended.err
            assert (
                "next: git -C CHECKOUT stash && make status PYTORCH_SRC=CHECKOUT # puts it back"
                in ended.err
            )
            assert source.read_text().startswith("// mine\n")
        git(calc.checkout, "stash", "-q")
        assert "back where it was" in calc.ok("status", env=environment(home))
        assert calc.log()[0] == "Add tests"
        git(calc.checkout, "stash", "drop", "-q")


def test_killed_and_committed_since(calc: Project, home: Path) -> None:
    """Then the checkout is the person's."""
    with ended_by(signal.SIGKILL, calc, home):
        git(calc.checkout, "commit", "-q", "--allow-empty", "-m", "mine")
        told = calc.ok("status", env=environment(home))
        assert "the checkout has changed since, and is left as is" in told
        assert calc.log()[0] == "mine"
        git(calc.checkout, "reset", "-q", "--keep", "HEAD~1")


def test_a_test_that_hangs_is_ended_and_counted(calc: Project, home: Path) -> None:
    start = git(calc.folder, "rev-parse", "HEAD").strip()
    test = calc.folder / "c10_xpu/first/test/calc_test.cpp"
    test.write_text("#include <unistd.h>\n" + TEST + "TEST(CalcTest, Hangs) { fork(); pause(); }\n")
    try:
        ended = calc.run(
            *("test", "--mode", "full", "--stage", "first"),
            env={**environment(home), "TEST_TIMEOUT": "1"},
        )
    finally:
        git(calc.folder, "reset", "-q", "--hard", start)
    assert ended.code == 8
    assert "CPU: calc_test: calc_test.process" in ended.err  # the first of its configurations


def test_tests_take_no_part_in_the_jobs_of_a_make_above(calc: Project, home: Path) -> None:
    start = git(calc.folder, "rev-parse", "HEAD").strip()
    test = calc.folder / "c10_xpu/first/test/calc_test.cpp"
    asks = 'TEST(CalcTest, Alone) { EXPECT_STREQ(std::getenv("MAKEFLAGS"), ""); }\n'
    test.write_text(f"#include <cstdlib>\n{TEST}{asks}")
    try:
        calc.ok(
            *("test", "--mode", "full", "--stage", "first"),
            env={**environment(home), "MAKEFLAGS": " -j2 --jobserver-auth=fifo:/nowhere"},
        )
    finally:
        git(calc.folder, "reset", "-q", "--hard", start)


# -- the search ------------------------------------------------------------------


@given(st.data())
def test_the_search_finds_the_first_failure_or_says_how_near_it_came(data: st.DataObject) -> None:
    last = data.draw(st.integers(1, 200))
    broke = data.draw(st.integers(1, last))
    unfit = data.draw(st.sets(st.integers(0, last), max_size=10)) - {0, last}
    asked: list[int] = []

    def passes(number: int) -> bool | None:
        asked.append(number)
        return None if number in unfit else number < broke

    good, bad = search(0, last, passes)
    assert good < broke <= bad
    assert all(number in unfit for number in range(good + 1, bad))
    assert len(asked) == len(set(asked))
    if not unfit:
        assert len(asked) <= last.bit_length()
