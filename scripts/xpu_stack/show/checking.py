"""`make check`: validates the whole series without touching a checkout.

What is checked, each with an error that points at the file:

- the series file, the texts, every payload file claimed by exactly one change
  (series.py, when it is loaded);
- no payload file exists in the base, no patch edits a file that is not there;
- every patch applies, in order, on the base;
- nothing that `make new` has left to fill in is still empty;
- white space: none at the ends of lines, no blank line at the end of a file;
- the round trip: exporting what apply makes gives the same files, byte for
  byte.

Exit code 6 if the series is not valid.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpu_stack.core.edit import sources
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import Stop
from xpu_stack.core.series.change import Change, unwritten
from xpu_stack.core.series.series_file import SUMMARY
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import CommitId


def check(work: Workspace, base: CommitId) -> int:
    """Checks the series on `base`, the release it is written for; how many changes."""
    changes = [one for one in work.series.all_changes() if one.id not in work.series.without]
    _check_payload_is_new(work, base, changes)
    tip = _build(work, base, changes)
    commits = work.repository.history(tip, len(changes))[::-1]
    _check_whitespace(work, {one.id: change for change, one in zip(changes, commits, strict=True)})
    for path, wanted in sources.Export(work).of(commits).contents.items():
        if not files.is_as(path, wanted):
            raise SeriesError(
                _name(work, path),
                "apply and export give another file: " + _difference(path, wanted),
                next=f"{commands.make('apply')} && {commands.make('export')}",
            )
    _check_written(work)
    return len(changes)


def as_json(
    base: str, changes: int | None, problems: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """What `make check JSON=1` prints. changes: None where the series is not valid."""
    listed = [{"place": place, "problem": problem} for place, problem in problems]
    valid = changes is not None
    return {"version": 1, "base": base, "valid": valid, "changes": changes, "problems": listed}


def _name(work: Workspace, path: Path) -> str:
    """How messages name a file of the series."""
    return path.relative_to(work.layout.repository).as_posix()


def _check_written(work: Workspace) -> None:
    """Refuses what `make new` has left to fill in, and lists all of it."""
    left: list[tuple[str, str]] = []
    for stage in work.series.stages:
        if stage.summary == SUMMARY:
            problem = f"the summary of '{stage.name}' is not written yet"
            left.append((stage.changes[0].place, problem))
        for change in stage.changes:
            line = unwritten(change.text)
            if line is not None:
                text = f"patches/texts/{change.stage}/{change.name}.md:{line}"
                left.append((text, f"{change.id}: its text is not written yet"))
            if not change.is_begun and change.id not in work.series.without:
                problem = f"{change.id} is empty: amend its commit, {commands.make('export')}"
                left.append((change.place, problem))
    if left:
        error = SeriesError(*left[0])
        error.problems = left
        error.detail = "\n".join(f"{place}: {problem}" for place, problem in left)
        raise error


def _difference(path: Path, wanted: Content) -> str:
    if wanted is None:
        return "it would go"
    if not path.exists():
        return "it is not there"
    if not isinstance(wanted[1], bytes):
        return "it is large"
    old, new = path.read_bytes().splitlines(), wanted[1].splitlines()
    for number, (was, now) in enumerate(zip(old, new, strict=False), start=1):
        if was != now:
            return f"line {number} would be {now.decode(errors='backslashreplace')!r}"
    return f"it has {len(old)} lines, and would have {len(new)}"


def _check_payload_is_new(work: Workspace, base: CommitId, changes: list[Change]) -> None:
    wanted = {path for change in changes for path in change.touched_paths()}
    there = set(work.repository.files(base, sorted(wanted)))
    for change in changes:
        for file in change.files:
            if file.target in there:
                problem = f"{file.target} exists in {work.base.name}: an edit of it is a patch"
                raise SeriesError(_name(work, file.source), problem)
        there |= {file.target for file in change.files}
        for path in change.patched_paths():
            if path not in there:
                assert change.patch is not None
                problem = f"edits {path}, which is not there at this point"
                raise SeriesError(_name(work, change.patch), problem)


def _build(work: Workspace, base: CommitId, changes: list[Change]) -> CommitId:
    with progress(len(changes), "laying the changes on the base") as bar:
        builder = Builder(work.repository, work.series, lambda: base)
        try:
            return builder.build(base, changes, bar=bar)[-1]
        except Stop as stop:
            problem = stop.misfit.messages.strip() if stop.misfit else "alters nothing"
            raise SeriesError(stop.place, f"{stop.id}: {problem}") from None


def _check_whitespace(work: Workspace, changes: Mapping[str, Change]) -> None:
    """changes: by the ids of their commits."""
    asked = "".join(f"{one}\n" for one in changes).encode()
    found = work.repository.run("diff-tree", "--stdin", "--check", input=asked, check=False)
    if found.code:
        # each commit's id, and what git says of its lines
        told = found.text.splitlines()
        number = next(n for n, line in enumerate(told) if line not in changes)
        change, problem = changes[told[number - 1]], told[number]
        place, _, what = problem.partition(": ")
        path, _, line = place.partition(":")
        kept = {file.target: _name(work, file.source) for file in change.files}
        if path in kept:
            raise SeriesError(f"{kept[path]}:{line}", f"{change.id}: {what}")
        assert change.patch is not None  # the file is the base's: it is the patch's line
        raise SeriesError(_name(work, change.patch), f"{change.id}: {problem}")
