"""What keeps the tool quick: few modules, few processes, little memory; and still right."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, cpu_seconds, drift, git, release, write
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.git import File, Repository
from xpu_stack.core.system.objects import GITLINK

HEAVY = {"rich", "jinja2", "ruamel", "ghstack", "xpu_stack.core.lay.applying"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)


def loaded(project: Project, *words: str) -> set[str]:
    """The modules that a verb has run, with the packages that they are in."""
    code = "import runpy, sys\n"
    code += f"sys.argv = {['xpu_stack', *words]}\n"
    code += "try: runpy.run_module('xpu_stack', run_name='__main__')\n"
    code += "except SystemExit: pass\n"
    code += "lazy = [name for name, one in sys.modules.items() if 'Lazy' in type(one).__name__]\n"
    code += "print('LOADED', *(set(sys.modules) - set(lazy)))\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=project.environment(),
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    names = done.stdout.rpartition("LOADED ")[2].split()
    return {name for one in names for name in (one, one.partition(".")[0])}


def test_help_imports_nothing_that_a_verb_needs(project: Project) -> None:
    assert HEAVY & loaded(project, "--help") == set()


def test_status_imports_nothing_heavy(project: Project) -> None:
    project.ok("apply")
    modules = loaded(project, "status", "--pytorch-src", str(project.checkout))
    assert "xpu_stack.report.status" in modules
    assert {"rich", "difflib", "xpu_stack.review.diff"} & modules == set()


def test_the_tool_is_compiled_once(project: Project, tmp_path: Path) -> None:
    """Also where PYTHONDONTWRITEBYTECODE is set, as in many containers."""
    told = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    project.ok("--help", source=False, env=told)
    assert list((tmp_path / "compiled").rglob("xpu_stack/cli/changing.*.pyc"))


def test_apply_starts_few_processes(project: Project) -> None:
    project.ok("apply")
    text = (project.folder / ".xpu/logs/apply.log").read_text()
    # some for the project as a whole, two of them for edits that git hides, and none
    # for each change
    assert text.count(" $ git ") < 33
    assert "git apply" not in text or text.count("git apply") <= 3


def peak(project: Project, *words: str) -> int:
    """The memory of the largest process of a verb.

    Linux counts what a process was before its exec, and pytest is large: a small one starts it.
    """
    start = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2)"
    told = "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}; {told}", *project.command(*words)],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.slow
def test_a_large_file_takes_little_memory(project: Project) -> None:
    with (project.folder / "c10_xpu/device/c10/xpu/large.bin").open("wb") as file:
        file.truncate(200 << 20)
    for verb in ("apply", "status", "export"):
        assert peak(project, verb) < 100 << 10, verb  # KB
    assert (project.checkout / "c10/xpu/large.bin").stat().st_size == 200 << 20
    assert git(project.checkout, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_large_file_is_edited_in_little_memory_and_time(project: Project) -> None:
    """Also one that does not get smaller when it is compressed."""
    project.ok("apply")
    large = project.checkout / "c10/xpu/Stream.cpp"
    noise = os.urandom(1 << 20)
    for verb in ("export", "undo", "redo", "edit"):
        if verb in ("export", "edit"):
            with large.open("wb") as file:
                for number in range(300):
                    file.write(b"%d" % number + noise + verb.encode())
        words = ("--change", "stream/stream") if verb == "edit" else ()
        sizes: list[int] = []
        hashing = cpu_seconds(lambda: git(project.checkout, "hash-object", str(large)))
        taken = cpu_seconds(lambda: sizes.append(peak(project, verb, *words)))  # noqa: B023
        assert sizes[0] < 100 << 10, verb  # KB
        assert taken < 14 * hashing, verb
    kept = project.folder / "c10_xpu/stream/c10/xpu/Stream.cpp"
    assert filecmp.cmp(kept, large, shallow=False)
    assert git(project.checkout, "status", "--porcelain") == ""


EDITS = {
    "an edit": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "at both ends": (b"a\nb\nc\nd\ne\nf\ng\nh\ni\n", b"A\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"),
    "no newline before": (b"a\nb", b"a\nb\nc\n"),
    "no newline after": (b"a\nb\n", b"a\nb"),
    "no newline at all": (b"a\nb", b"A\nb"),
    "CRLF": (b"a\r\nb\r\n", b"a\r\nB\r\n"),
    "a lone CR": (b"a\rb\nc\n", b"a\rb\nC\n"),
    "bytes": (b"\xff\n\xfe\nc\n", b"\xff\n\xfe\nC\n"),
    "looks like a header": (b"-- a/x\nb\n", b"++ b/x\nb\n"),
    "only lines that go": (b"a\nb\nc\n", b"a\nc\n"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_patch_of_the_file_that_is_there_needs_no_search(tmp_path: Path, name: str) -> None:
    before, after = EDITS[name]
    git(tmp_path, "init", "-q")
    repository = Repository(tmp_path)
    old, new = (repository.store_bytes(content) for content in (before, after))
    empty = repository.empty_tree()
    trees = [repository.with_files(empty, {"a b/ü.txt": File(0o100644, one)}) for one in (old, new)]
    patch = tmp_path / "patch"
    patch.write_bytes(repository.patch(*trees, ["a b/ü.txt"]))
    assert patches.applied(repository, trees[0], patch, exact=True) == (trees[1], "")
    # without the ids git searches, and finds the same
    patch.write_bytes(b"".join(x for x in patch.read_bytes().splitlines(True) if x[:5] != b"index"))
    assert set(patches.originals(patch.read_bytes()).values()) == {""}
    assert patches.applied(repository, trees[0], patch) == (trees[1], "")


def test_trees_are_those_that_git_makes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    repository = Repository(tmp_path)
    blob = repository.store_bytes(b"a\n")
    names = ("a-b", "a.c", "a/a", "a0", "b/.c", "b/c-d/e", "b/c.d", "b/c/d", "z/ü")
    modes = (0o100644, 0o100755, 0o120000, GITLINK)
    files = {name: File(modes[number % 4], blob) for number, name in enumerate(names)}
    odd = {"\udcff": File(0o100644, blob)}
    repository.put_into(tmp_path / "index", {**files, **odd})
    env = {"GIT_INDEX_FILE": str(tmp_path / "index")}
    wanted = repository.run("write-tree", env=env).text.strip()
    some = repository.with_files(repository.empty_tree(), dict(list(files.items())[::-2]))
    assert repository.with_files(some, {**files, **odd}) == wanted


def test_trees_differ_as_git_says(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    repository = Repository(tmp_path)
    one, other = (repository.store_bytes(content) for content in (b"a\n", b"b\n"))
    names = ("a", "a/b", "c\nd", "c\n/\n", "\udcff", "e f/ü")
    sides = [
        repository.with_files(
            repository.empty_tree(), {name: File(0o100644, blob) for name in some}
        )
        for some, blob in ((names[1:], one), ((names[0], *names[2:]), other))
    ]
    found = repository.diff(*sides)
    assert [entry.path for entry in found] == sorted(names, key=os.fsencode)
    assert {(entry.old, entry.new) for entry in found[2:]} == {(one, other)}
    assert repository.diff(sides[0], sides[0]) == []


def test_a_patch_that_was_edited_by_hand_is_what_its_lines_say(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    repository = Repository(tmp_path)
    empty = repository.empty_tree()
    contents = b"a\nb\nc\n", b"a\nB\nc\n", b"a\nX\nc\n"
    trees = [
        repository.with_files(empty, {"f": File(0o100755, repository.store_bytes(one))})
        for one in contents
    ]
    patch = tmp_path / "patch"
    patch.write_bytes(repository.patch(trees[0], trees[1], ["f"]).replace(b"+B", b"+X"))
    assert patches.applied(repository, trees[0], patch) == (trees[2], "")
    assert patches.applied(repository, trees[2], patch)[0] is None


def test_a_patch_that_deletes_a_file_needs_no_search(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    repository = Repository(tmp_path)
    empty = repository.empty_tree()
    kept, gone, other, own = (
        {name: File(0o100644, repository.store_bytes(content))}
        for name, content in (("k", b"k\n"), ("d", b"a\nb"), ("d", b"a\nb\n"), ("n", b"n\n"))
    )
    trees = [repository.with_files(empty, files) for files in (kept | gone, kept)]
    patch = tmp_path / "patch"
    patch.write_bytes(repository.patch(*trees, ["d"]))
    assert patches.applied(repository, trees[0], patch, exact=True) == (trees[1], "")
    after = repository.with_files(trees[1], own)
    assert patches.applied(repository, trees[0], patch, files=own) == (after, "")
    # of a file with other lines it is refused, as by git
    assert patches.applied(repository, repository.with_files(empty, kept | other), patch)[0] is None


def test_an_edit_where_a_conflict_has_no_files_is_a_part_of_the_resolution(
    project: Project,
) -> None:
    write(project.checkout, {"far/away.txt": "far\n"})
    release(project)
    drift(project, "aten/Context.h", "int drifted;\n")
    assert project.run("apply").code == 5
    (worktree,) = (project.folder / ".xpu/work").glob("*/conflict")
    assert not (worktree / "far").exists()
    assert "far" not in git(worktree, "status", "--porcelain")
    write(worktree, {"aten/Context.h": "int resolved;\n", "far/away.txt": "farther\n"})
    git(worktree, "add", "aten/Context.h")
    project.ok("continue")
    assert (project.checkout / "far/away.txt").read_text() == "farther\n"
    assert (project.checkout / "aten/Context.h").read_text() == "int resolved;\n"
