"""A fork that has drifted, carried as a base of its own beside the release."""

import contextlib
import os
import random
import re
import signal
import time

import pytest
from project import CMAKE, CONTEXT, SERIES, TEXT, Project, drift, git, write
from test_export import changed, kept
from test_faults import settled, start, until

OTHER = "".join(f"other {number};\n" for number in range(1, 31))
ALL = ["Add queues", "Add events", "Add streams", "Add hooks", "Add devices"]


def with_patch(project: Project, change: str, edits: dict[str, tuple[str, str]]) -> None:
    project.patch(change, edits)
    write(project.folder, {f"patches/texts/{change}.md": TEXT.format(title=f"Add {change[7:]}s")})


def series(project: Project) -> None:
    """Five changes, the last two in files that the fork has edited."""
    drift(project, "other.txt", OTHER)
    with_patch(project, "stream/event", {"other.txt": ("other 10;", "other 10; // event")})
    with_patch(project, "stream/queue", {"other.txt": ("other 20;", "other 20; // queue")})
    text = SERIES.replace(
        "files: [c10_xpu/stream]\n",
        "files: [c10_xpu/stream]\n      - name: event\n        files: [aten_xpu/stream]\n"
        "      - name: queue\n",
    )
    write(project.folder, {"patches/series.yaml": text})
    write(project.folder, {"aten_xpu/stream/aten/Event.cpp": "int event;\n"})


@pytest.fixture
def fork(project: Project) -> Project:
    """A fork whose stack is on the release, with the patches as export writes them."""
    series(project)
    own = project.folder / ".xpu/pytorch-v1.13.1"
    git(project.folder, "clone", "-q", str(project.checkout), str(own))
    git(own, "branch", "base")
    project.ok("apply")
    project.ok("export")
    return project


def drifted(project: Project) -> str:
    """The fork's own commits, on its branch main."""
    git(project.checkout, "switch", "-q", "main")
    git(project.checkout, "mv", "aten/Context.h", "aten/GlobalContext.h")
    drift(project, "aten/GlobalContext.h", CONTEXT.replace("int member_1;", "int member_one;"))
    drift(project, "c10/CMakeLists.txt", CMAKE.replace("# line 20\n", "# ours\n"))
    reformatted = OTHER.replace("other 10;", "    other(10);").replace(" 20;", " 20; // queue")
    drift(project, "other.txt", reformatted)
    commit = git(project.checkout, "rev-parse", "HEAD").strip()
    git(project.checkout, "switch", "-q", "xpu-stack")
    return commit


def resolve(project: Project, files: dict[str, str]) -> None:
    (conflict,) = project.folder.glob(".xpu/work/pytorch-*/conflict")
    write(conflict, files)
    git(conflict, "add", ".")


def rebased(project: Project) -> str:
    """The stack on the fork, conflicts resolved; its commit."""
    commit = drifted(project)
    ended = project.run("rebase", "--onto", "main", "--drop", "stream/queue")
    assert "c10/CMakeLists.txt:20-25" in ended.err
    resolve(project, {"c10/CMakeLists.txt": CMAKE.replace("# line 20\n", "# ours\n# xpu\n")})
    ended = project.run("continue")
    assert "other.txt:" in ended.err
    text = (project.checkout / "other.txt").read_text()
    reformatted = git(project.checkout, "show", f"{commit}:other.txt")
    resolve(project, {"other.txt": reformatted.replace("(10);", "(10); // event")})
    assert text != reformatted
    project.ok("continue")
    return commit


def tree(project: Project, at: str = "HEAD") -> str:
    return git(project.checkout, "rev-parse", f"{at}^{{tree}}").strip()


def trees(project: Project) -> tuple[str, str]:
    """What the tool's own checkouts have, of the release and of the fork."""
    project.ok("apply", source=False)
    project.ok("apply", "--base", "fork", source=False)
    own = [project.folder / f".xpu/pytorch-{base}" for base in ("v1.13.1", "fork")]
    release, fork = (git(one, "rev-parse", "HEAD^{tree}").strip() for one in own)
    return release, fork


def in_order(project: Project) -> None:
    """Both bases give what export would write, byte for byte."""
    for base in ("v1.13.1", "fork"):
        assert "are in order" in project.ok("check", "--base", base, source=False)


def test_an_edit_that_no_drifted_change_touches_is_exported(fork: Project) -> None:
    rebased(fork)
    before = kept(fork)
    write(fork.checkout, {"c10/xpu/Stream.cpp": "int edited;\n"})
    fork.ok("export")
    assert changed(fork, before) == {"c10_xpu/stream/c10/xpu/Stream.cpp"}
    assert "0 file(s) of the series differ" in fork.ok("export")
    fork.ok("undo")
    assert changed(fork, before) == set()


def test_a_fork_becomes_a_base(fork: Project) -> None:
    release = tree(fork)
    commit = rebased(fork)
    before = kept(fork)
    fork.ok("export")  # nothing was edited
    assert changed(fork, before) == set()
    write(fork.checkout, {"aten/Hooks.cpp": "int hooks_of_the_fork;\n"})
    ended = fork.run("export")
    assert ended.code == 3
    assert "next: make export BASE=<name> PYTORCH_SRC=CHECKOUT" in ended.err
    for name in ("texts", "../outside"):
        ended = fork.run("export", "--base", name)
        assert f"'{name}' cannot be the name of a base." in ended.err
    before = kept(fork)
    moved = fork.snapshot()["commit"]
    out = fork.ok("export", "--base", "fork")
    assert "wrote patches/fork/payload/aten_xpu/device/aten/Hooks.cpp" in out
    # the patch of stream/stream, and all other files, are shared
    assert changed(fork, before) == {
        "patches/fork/base.yaml",
        "patches/fork/device/aten.patch",
        "patches/fork/device/runtime.patch",
        "patches/fork/payload/aten_xpu/device/aten/Hooks.cpp",
        "patches/fork/stream/event.patch",
    }
    assert kept(fork)["patches/fork/base.yaml"].decode() == (
        "# A base like v1.13.1: what is not said here, and not in this folder, is as it is there.\n"
        f"name: fork\nlike: v1.13.1\ngit:\n  url: {fork.checkout}\n  commit: {commit}\n"
        "without:\n  - stream/queue\n"
    )
    assert b"a/aten/GlobalContext.h" in kept(fork)["patches/fork/device/aten.patch"]
    assert fork.log()[:5] == [*ALL[1:], "Drift of other.txt"]
    in_order(fork)
    assert trees(fork) == (release, tree(fork))
    assert "is already at stage 'stream': 4 change(s)" in fork.ok("apply", "--base", "fork")
    # nothing of the fork's base needs a merge, nor the conflicts' resolutions
    assert not (fork.folder / "patches/fork/resolutions").exists()
    (row,) = re.findall("^stream/queue .*$", fork.ok("status", "--base", "fork"), re.M)
    assert "skipped" in row
    assert "index.html" in fork.ok("review", "--base", "fork")
    ended = fork.run("status")
    assert "This checkout is on the base fork, not on v1.13.1." in ended.err
    assert "next: make status BASE=fork PYTORCH_SRC=CHECKOUT" in ended.err
    fork.ok("undo", "--base", "fork")
    assert changed(fork, before) == set()
    assert fork.snapshot()["commit"] == moved
    assert fork.log()[:5] == [*ALL[1:], "Drift of other.txt"]


@pytest.fixture
def carried(fork: Project) -> Project:
    """With the fork as a base, whose hooks are its own; in no need of a person."""
    git(fork.checkout, "switch", "-q", "main")
    git(fork.checkout, "mv", "aten/Context.h", "aten/GlobalContext.h")
    git(fork.checkout, "commit", "-qm", "Rename")
    git(fork.checkout, "switch", "-q", "xpu-stack")
    fork.ok("rebase", "--onto", "main")
    write(fork.checkout, {"aten/Hooks.cpp": "int hooks_of_the_fork;\n"})
    out = fork.ok("export", "--base", "fork")
    assert "3 file(s)" in out
    return fork


def test_edits_on_one_base_and_on_the_other(carried: Project) -> None:
    before = kept(carried)
    streams = "int stream;\nint more;\n"
    write(carried.checkout, {"c10/xpu/Stream.cpp": streams, "aten/Hooks.cpp": "int ours;\n"})
    write(carried.checkout, {"c10/xpu/Device.cpp": "int device;\nint streams_of_ours;\n"})
    assert "wrote c10_xpu/stream/c10/xpu/Stream.cpp" in carried.ok("export", "--base", "fork")
    assert changed(carried, before) == {
        "c10_xpu/stream/c10/xpu/Stream.cpp",  # shared
        "patches/fork/payload/aten_xpu/device/aten/Hooks.cpp",
        "patches/fork/stream/stream.patch",  # was shared
    }
    in_order(carried)
    carried.ok("apply", source=False)
    release = carried.folder / ".xpu/pytorch-v1.13.1"
    assert (release / "c10/xpu/Stream.cpp").read_text() == streams
    assert (release / "aten/Hooks.cpp").read_text() == "int hooks;\n"
    assert (release / "c10/xpu/Device.cpp").read_text() == "int device;\nint streams;\n"

    before = kept(carried)
    write(release, {"aten/Hooks.cpp": "int theirs;\n", "aten/Event.cpp": "int events;\n"})
    said = carried.ok("export", source=False)
    assert "fork keeps its own variant of aten_xpu/device/aten/Hooks.cpp" in said
    assert changed(carried, before) == {
        "aten_xpu/device/aten/Hooks.cpp",
        "aten_xpu/stream/aten/Event.cpp",
    }
    carried.ok("apply", "--base", "fork")
    assert (carried.checkout / "aten/Event.cpp").read_text() == "int events;\n"
    assert (carried.checkout / "aten/Hooks.cpp").read_text() == "int ours;\n"
    in_order(carried)


def test_files_that_only_one_base_has(carried: Project) -> None:
    before = kept(carried)
    git(carried.checkout, "rm", "-q", "aten/Hooks.cpp")  # it has a variant
    write(carried.checkout, {"aten/Event2.cpp": "int event;\n"})
    git(carried.checkout, "add", ".")
    message = git(carried.checkout, "log", "-1", "--format=%B", "HEAD~3")
    assert "device/aten" in message
    git(carried.checkout, "commit", "-q", "--fixup", "HEAD~3")
    git(carried.checkout, "-c", "sequence.editor=:", "rebase", "-qi", "--autosquash", "HEAD~5")
    carried.ok("export", "--base", "fork")
    assert changed(carried, before) == {
        "aten_xpu/device/aten/Event2.cpp",
        "patches/fork/payload/aten_xpu/device/aten/Hooks.cpp",
        "patches/fork/base.yaml",
    }
    assert (
        b"without:\n  - aten_xpu/device/aten/Hooks.cpp\n" in kept(carried)["patches/fork/base.yaml"]
    )
    # it comes back, as all bases have it; nothing is written but that
    before = kept(carried)
    write(carried.checkout, {"aten/Hooks.cpp": "int hooks;\n"})
    git(carried.checkout, "add", ".")
    git(carried.checkout, "commit", "-q", "--fixup", "HEAD~3")
    git(carried.checkout, "-c", "sequence.editor=:", "rebase", "-qi", "--autosquash", "HEAD~5")
    carried.ok("export", "--base", "fork")
    assert changed(carried, before) == {"patches/fork/base.yaml"}
    assert b"without" not in kept(carried)["patches/fork/base.yaml"]
    # when the base moves, what is new is its own
    git(carried.checkout, "switch", "-q", "main")
    text = OTHER.replace("other 12;", "other twelve;")
    drift(carried, "other.txt", text)
    git(carried.checkout, "switch", "-q", "xpu-stack")
    carried.ok("rebase", "--onto", "main", "--base", "fork")
    write(carried.checkout, {"aten/Only.cpp": "int only;\n"})
    git(carried.checkout, "add", ".")
    git(carried.checkout, "commit", "-qa", "--amend", "--no-edit")
    write(carried.checkout, {"c10/xpu/Stream.cpp": "int own;\n"})
    before = kept(carried)
    release, _ = trees(carried)
    carried.ok("export", "--base", "fork")
    assert changed(carried, before) == {
        "patches/fork/base.yaml",
        "patches/fork/stream/event.patch",
        "patches/fork/payload/aten_xpu/stream/aten/Only.cpp",
        "patches/series.yaml",  # stream/queue claims it
        "patches/fork/payload/c10_xpu/stream/c10/xpu/Stream.cpp",
    }
    assert trees(carried) == (release, tree(carried))
    # export deletes the variants that the fork does not need any more
    git(carried.checkout, "switch", "-q", "main")
    drift(carried, "unrelated.txt", "unrelated\n")
    git(carried.checkout, "switch", "-q", "xpu-stack")
    carried.ok("rebase", "--onto", "main", "--base", "fork")
    before = kept(carried)
    git(carried.checkout, "rm", "-q", "aten/Only.cpp")
    git(carried.checkout, "commit", "-q", "--amend", "--no-edit")
    write(carried.checkout, {"c10/xpu/Stream.cpp": "int stream;\n"})
    carried.ok("export", "--base", "fork")
    assert changed(carried, before) == {
        "patches/fork/base.yaml",
        "patches/fork/payload/aten_xpu/stream/aten/Only.cpp",
        "patches/fork/payload/c10_xpu/stream/c10/xpu/Stream.cpp",
        "patches/series.yaml",
    }
    in_order(carried)


def test_a_change_is_reshaped_on_both(carried: Project) -> None:
    own = "patches/fork/payload/aten_xpu"
    at_first = kept(carried)
    carried.ok("rename", "--change", "device/aten", "--to", "device/hooks", "--base", "fork")
    renamed = {
        f"patches/{base}/device/{name}.patch"
        for base in ("v1.13.1", "fork")
        for name in ("aten", "hooks")
    }
    texts = {"patches/texts/device/aten.md", "patches/texts/device/hooks.md"}
    assert changed(carried, at_first) == renamed | texts | {"patches/series.yaml"}
    in_order(carried)
    carried.ok("move", "--change", "device/hooks", "--after", "stream/stream", "--base", "fork")
    files = kept(carried)
    assert files[f"{own}/stream/aten/Hooks.cpp"] == b"int hooks_of_the_fork;\n"
    assert not {f"{own}/device/aten/Hooks.cpp", "patches/fork/device/hooks.patch"} & files.keys()
    in_order(carried)
    before = kept(carried)
    carried.ok("drop", "--change", "stream/hooks", "--base", "fork")
    assert not [name for name in kept(carried) if "ooks" in name]
    in_order(carried)
    carried.ok("undrop", "--change", "stream/hooks", "--base", "fork")
    assert changed(carried, before) == set()
    # what would alter a variant is refused; what makes another patch is not
    carried.ok("apply", source=False)
    release = carried.folder / ".xpu/pytorch-v1.13.1"
    write(release, {"aten/Hooks.cpp": "int theirs;\n"})
    ended = carried.run("edit", "--change", "stream/hooks", source=False)
    assert "error: This does not fit stream/hooks on the base fork." in ended.err
    assert "next: make apply BASE=fork STAGE=stream/hooks" in ended.err
    git(release, "checkout", "-q", ".")
    assert changed(carried, before) == set()
    carried.ok("fold", "--change", "stream/hooks", "--into", "device/runtime", source=False)
    files = kept(carried)
    assert b"GlobalContext.h" in files["patches/fork/device/runtime.patch"]
    assert f"{own}/device/aten/Hooks.cpp" in files
    in_order(carried)
    # of a base whose commit is not at hand the files are carried as they are
    for name, content in files.items():
        if name.startswith("patches/fork/"):
            text = re.sub("commit: .*", f"commit: {'a' * 40}", content.decode())
            text = text.replace("name: fork", "name: far")
            write(carried.folder, {name.replace("/fork/", "/far/"): text})
    carried.ok("rename", "--change", "device/runtime", "--to", "device/all", source=False)
    assert (
        kept(carried)["patches/far/device/all.patch"] == files["patches/fork/device/runtime.patch"]
    )
    in_order(carried)
    words = ("--change", "device/all", "--into", "stream/stream")
    ended = carried.run("fold", *words, source=False)
    assert "error: The base far is not available here." in ended.err


def test_a_split_into_another_stage_fits_both(carried: Project) -> None:
    """With a variant, a file that the fork lacks, and the whole patch."""
    write(
        carried.folder,
        {f"aten_xpu/device/aten/{name}.cpp": f"int {name};\n" for name in ("More", "Rest")},
    )
    text = kept(carried)["patches/fork/base.yaml"].decode()
    text += "without:\n  - aten_xpu/device/aten/More.cpp\n"
    write(carried.folder, {"patches/fork/base.yaml": text})
    carried.ok("apply", "--base", "fork")
    before = kept(carried)
    files = ("--files", "aten/*Context.h aten/More.cpp aten/Hooks.cpp")
    name = ("--name", "hooks/hooks", "--title", "Add hooks")
    carried.ok("split", "--change", "device/aten", *files, *name, "--base", "fork")
    own = "patches/fork/payload/aten_xpu"
    assert changed(carried, before) == {
        "aten_xpu/device/aten/Hooks.cpp",
        "aten_xpu/device/aten/More.cpp",
        "aten_xpu/hooks/aten/Hooks.cpp",
        "aten_xpu/hooks/aten/More.cpp",
        "patches/fork/base.yaml",
        "patches/fork/device/aten.patch",
        "patches/fork/hooks/hooks.patch",
        f"{own}/device/aten/Hooks.cpp",
        f"{own}/hooks/aten/Hooks.cpp",
        "patches/series.yaml",
        "patches/texts/hooks/hooks.md",
        "patches/v1.13.1/device/aten.patch",
        "patches/v1.13.1/hooks/hooks.patch",
    }
    files_now = kept(carried)
    assert files_now["patches/fork/base.yaml"].decode() == text.replace(
        "device/aten/M", "hooks/aten/M"
    )
    assert not {"patches/fork/device/aten.patch", f"{own}/device/aten/Hooks.cpp"} & files_now.keys()
    in_order(carried)
    carried.ok("undo", "--base", "fork")
    assert changed(carried, before) == set()


def test_new_files_that_the_fork_has_or_wants_elsewhere(fork: Project) -> None:
    release = tree(fork)
    git(fork.checkout, "switch", "-q", "main")
    git(fork.checkout, "mv", "aten", "tensor")
    git(fork.checkout, "commit", "-qm", "Move")
    drift(fork, "c10/xpu/Stream.cpp", "int theirs;\n")
    git(fork.checkout, "switch", "-q", "xpu-stack")
    assert "aten/Hooks.cpp" in fork.run("rebase", "--onto", "main").err
    resolve(fork, {})  # git has put it into tensor/, and asks
    assert "c10/xpu/Stream.cpp" in fork.run("continue").err
    resolve(fork, {"c10/xpu/Stream.cpp": "int theirs;\nint stream;\n"})
    fork.ok("continue")
    before = kept(fork)
    fork.ok("export", "--base", "fork")
    assert changed(fork, before) == {
        "patches/fork/base.yaml",
        "patches/fork/device/aten.patch",
        "patches/fork/stream/stream.patch",
    }
    assert (
        kept(fork)["patches/fork/base.yaml"]
        .decode()
        .endswith(
            "without:\n  - c10_xpu/stream/c10/xpu/Stream.cpp\n"
            "moved:\n  aten_xpu/device/aten/Hooks.cpp: tensor/Hooks.cpp\n"
        )
    )
    in_order(fork)
    assert trees(fork) == (release, tree(fork))
    # the file stays where the rest of its folder is left out
    text = kept(fork)["patches/fork/base.yaml"].decode()
    text = text.replace("without:\n", "without:\n  - aten_xpu/device\n")
    write(fork.folder, {"patches/fork/base.yaml": text})
    in_order(fork)
    assert trees(fork) == (release, tree(fork))
    write(fork.checkout, {"tensor/Hooks.cpp": "int better;\n"})
    before = kept(fork)
    fork.ok("export", "--base", "fork")
    assert changed(fork, before) == {"aten_xpu/device/aten/Hooks.cpp"}


def test_patches_of_files_that_have_drifted_stay_as_they_are(fork: Project) -> None:
    """The series applies to the fork as it is; its patches are still those of the release."""
    git(fork.checkout, "switch", "-q", "main")
    drift(fork, "c10/CMakeLists.txt", "# new\n" * 5 + CMAKE)
    git(fork.checkout, "switch", "-q", "xpu-stack")
    fork.ok("rebase", "--onto", "main")
    before = kept(fork)
    assert "0 file(s)" in fork.ok("export")
    write(fork.checkout, {"aten/Hooks.cpp": "int better;\n"})
    fork.ok("export")
    assert changed(fork, before) == {"aten_xpu/device/aten/Hooks.cpp"}
    text = (fork.checkout / "c10/CMakeLists.txt").read_text()
    write(fork.checkout, {"c10/CMakeLists.txt": text.replace("# xpu\n", "# more\n")})
    ended = fork.run("export")
    assert ended.code == 3
    assert "error: c10/CMakeLists.txt has drifted from v1.13.1." in ended.err
    assert "next: make export BASE=<name> PYTORCH_SRC=CHECKOUT" in ended.err
    assert changed(fork, before) == {"aten_xpu/device/aten/Hooks.cpp"}


def test_an_export_that_is_killed(fork: Project) -> None:
    git(fork.checkout, "switch", "-q", "main")
    drift(fork, "aten/Context.h", CONTEXT.replace("int member_8;", "int member_eight;"))
    git(fork.checkout, "switch", "-q", "xpu-stack")
    fork.ok("rebase", "--onto", "main")
    before = kept(fork)
    wanted = {
        "patches/fork/base.yaml",
        "patches/fork/device/aten.patch",
        "patches/fork/payload/aten_xpu/device/aten/Hooks.cpp",
    }
    for point in ("gone", "file 1", "The checkout", "index", "refs"):
        write(fork.checkout, {"aten/Hooks.cpp": "int ours;\n"})
        start(fork, "export", "--base", "fork", fault=point).communicate()
        fork.run("status")  # the next run finishes it
        assert changed(fork, before) == wanted, point
        assert git(fork.checkout, "status", "--porcelain") == "", point
        fork.ok("undo", "--base", "fork")
        assert changed(fork, before) == set(), point
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(2):
        write(fork.checkout, {"aten/Hooks.cpp": "int ours;\n"})
        process = start(fork, "export", "--base", "fork")
        time.sleep(chance.uniform(0, 1.5))  # the moment is the test's input
        with contextlib.suppress(ProcessLookupError):  # it may be done
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        settled(fork)
        until(lambda: not (fork.folder / "patches/.transaction/journal.json").exists())
        fork.run("status")
        assert changed(fork, before) in (wanted, set())
        if changed(fork, before):
            fork.ok("undo", "--base", "fork")
