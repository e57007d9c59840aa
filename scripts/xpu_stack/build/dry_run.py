"""Python, as PyTorch's CMake calls it, that does not repeat a dry run of torchgen:

    python dry_run.py -m torchgen.gen --source-path S ... --output-dependencies F --dry-run

lists in F, and in files beside it, what torchgen would generate. It takes some seconds each
time that a build is configured. The lists are kept by all that they are made from.
"""

import hashlib
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def _inputs(source: Path) -> Iterator[Path]:
    yield from Path("torchgen").rglob("*.py")
    yield from (source / "native").glob("*.yaml")
    yield from (path for path in (source / "templates").rglob("*") if path.is_file())


def key(words: list[str]) -> str:
    source = Path(words[words.index("--source-path") + 1])
    digest = hashlib.sha256("\0".join([sys.version, *words]).encode())
    for path in sorted(_inputs(source)):
        digest.update(f"\0{path}\0{hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def main(words: list[str]) -> None:
    listed = Path(words[words.index("--output-dependencies") + 1])
    kept = listed.parent / "dry-runs" / key(words)
    if not kept.is_dir():
        sys.argv[1:] = words[2:]
        sys.path[0] = ""  # as -m has it
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        draft = kept.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for path in listed.parent.glob(f"*{listed.name}"):
            shutil.copyfile(path, draft / path.name)
        draft.rename(kept)
        return
    for path in kept.iterdir():
        to = listed.parent / path.name
        # CMake configures again after a list that is newer
        if not to.exists() or to.read_bytes() != path.read_bytes():
            shutil.copyfile(path, to)


if __name__ == "__main__":
    main(sys.argv[1:])
