"""A fork of the real release that has drifted, carried as a base of its own."""

import re
from pathlib import Path

import pytest
from project import git
from real import Home

pytestmark = pytest.mark.real

DROPPED = "lazy_init/device-lazy-init"
FORMATTED = """\
    for one in fwd_gpu_devices:
        with torch.cuda.device(
            one
        ):
            fwd_gpu_states.append(
                torch.cuda.get_rng_state()
            )
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def drifted(home: Home, fork: Path) -> None:
    """A renamed file, lines of its own, a reformatted hunk, and a change of the series."""
    git(fork.parent, "clone", "-q", "--branch", "base", str(home.checkout), str(fork))
    home.ok("apply", f"PYTORCH_SRC={fork}")
    git(fork, "switch", "-q", "-c", "main", "base")
    git(fork, "mv", "cmake/Summary.cmake", "cmake/Report.cmake")
    edit(fork / "CMakeLists.txt", "include(cmake/Summary", "include(cmake/Report")
    edit(
        fork / "c10/CMakeLists.txt",
        "if(USE_ROCM)\n",
        "if(USE_OURS)\n  add_subdirectory(ours)\nendif()\n\nif(USE_ROCM)\n",
    )
    path = fork / "torch/utils/checkpoint.py"
    head, loop, tail = path.read_text().partition("    for device in fwd_gpu_devices:\n")
    assert loop
    path.write_text(head + FORMATTED + tail[tail.index("\n    return fwd_gpu_devices") :])
    git(fork, "commit", "-qam", "Ours")
    git(fork, "cherry-pick", f"xpu-stack^{{/XPU-Change: {DROPPED}}}")
    git(fork, "commit", "-q", "--amend", "-m", "Initialise lazily")
    git(fork, "switch", "-q", "xpu-stack")


def resolve(home: Home, name: str, resolution: str) -> None:
    """`resolution` says what is in place of the conflict, from (ours) and (theirs)."""
    (conflict,) = home.folder.glob("work/fork-*/conflict")
    text = (conflict / name).read_text()
    sides = re.compile(r"<{7} .*?\n(?P<ours>.*?)={7}\n(?P<theirs>.*?)>{7} .*?\n", re.S)
    assert len(sides.findall(text)) == 1
    (conflict / name).write_text(sides.sub(resolution, text))
    git(conflict, "add", name)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it compiles
def test_a_fork_as_a_base(home: Home, tmp_path: Path) -> None:
    home = home.copied(tmp_path)
    home.ok("apply")
    release = git(home.checkout, "rev-parse", "HEAD^{tree}")
    fork = tmp_path / "fork"
    drifted(home, fork)

    here = f"PYTORCH_SRC={fork}"
    done = home.make("rebase", "ONTO=main", f"DROP={DROPPED}", here)
    assert "c10/CMakeLists.txt:" in done.stderr
    resolve(home, "c10/CMakeLists.txt", r"\g<ours>endif()\n\n\g<theirs>")
    done = home.make("continue", here)
    assert "torch/utils/checkpoint.py:" in done.stderr
    resolve(home, "torch/utils/checkpoint.py", FORMATTED.replace("torch.cuda", "_gpu_module()"))
    home.ok("continue", here)
    edit(fork / "c10/xpu/XPUMacros.h", "#pragma once\n", "#pragma once\n\n// As our fork has it.\n")
    home.ok("export", "BASE=ours", here)
    written = git(
        home.project, "status", "--porcelain", "-uall", "patches/ours", ":!patches/v1.13.1"
    )
    assert sorted(line[3:] for line in written.splitlines()) == [
        "patches/ours/base.yaml",
        "patches/ours/device/runtime.patch",
        "patches/ours/frontend/random-state.patch",
        "patches/ours/payload/c10_xpu/device/c10/xpu/XPUMacros.h",
    ]
    assert git(home.project, "diff", "--stat") == ""
    assert f"without:\n  - {DROPPED}\n" in (home.project / "patches/ours/base.yaml").read_text()
    for base in ("ours", "v1.13.1"):
        assert "are in order" in home.ok("check", f"BASE={base}")
    home.ok("apply", "BASE=ours")
    own = home.folder / "pytorch-ours"
    tree = git(fork, "rev-parse", "HEAD^{tree}")
    assert git(own, "rev-parse", "HEAD^{tree}") == tree
    assert git(home.checkout, "rev-parse", "HEAD^{tree}") == release
    assert "cmake/Report.cmake" in (home.project / "patches/ours/device/runtime.patch").read_text()
    # and it is a base like the release: what a stage brings builds there and passes
    told = home.ok("test", "BASE=ours", "STAGE=device")
    assert re.search(r"^device/runtime: [1-9]\d* passed, 0 failed", told, re.M)
    assert re.search(r"^device/aten: [1-9]\d* passed, 0 failed", told, re.M)
