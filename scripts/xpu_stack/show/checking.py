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

from pathlib import Path
from typing import Any

from xpu_stack.core.bases.export_base import ExportBase, Source
from xpu_stack.core.edit import sources
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import Stop
from xpu_stack.core.series.change import Change, unwritten
from xpu_stack.core.series.series_file import SUMMARY
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.git import CommitId


def check(work: Workspace, base: CommitId) -> int:
    """Checks the series on `base`, the release it is written for; how many changes."""
    changes = [one for one in work.series.all_changes() if one.id not in work.series.without]
    _check_payload_is_new(work, base, changes)
    tip = _build(work, base, changes)
    commits = list(reversed(work.repository.history(tip, len(changes))))
    asked = "".join(f"{commit.id}\n" for commit in commits).encode()
    if work.repository.run("diff-tree", "--stdin", "--check", input=asked, check=False).code:
        for change, commit in zip(changes, commits, strict=True):
            _check_whitespace(work, change, commit.parents[0], commit.id)
    for source in sources.of(ExportBase(work), commits):
        if source.differs:
            name = _name(work, source.path)
            raise SeriesError(
                name,
                "apply and export give another file: " + _difference(source),
                next=f"{commands.make('apply')} && {commands.make('export')}",
            )
    _check_written(work)
    return len(changes)


def as_json(base: str, changes: int | None, problems: list[tuple[str, str]]) -> dict[str, Any]:
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


def _difference(source: Source) -> str:
    if source.content is None:
        return "it would go"
    if not source.path.exists():
        return "it is not there"
    if not isinstance(source.content, bytes):
        return "it is large"
    old, new = source.path.read_bytes().splitlines(), source.content.splitlines()
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
                raise SeriesError(
                    _name(work, file.source),
                    f"{file.target} exists in {work.base.name}: an edit of it is a patch",
                )
        there |= {file.target for file in change.files}
        for path in change.patched_paths():
            if path not in there:
                assert change.patch is not None
                name = _name(work, change.patch)
                raise SeriesError(name, f"edits {path}, which is not there at this point")


def _build(work: Workspace, base: CommitId, changes: list[Change]) -> CommitId:
    with progress(len(changes), "laying the changes on the base") as bar:
        builder = Builder(
            work.repository, work.series, lambda: base, lambda change: bar.step(change.id)
        )
        try:
            return builder.build(base, changes)[-1]
        except Stop as stop:
            problem = stop.misfit.messages.strip() if stop.misfit else "alters nothing"
            raise SeriesError(stop.change.place, f"{stop.change.id}: {problem}") from None


def _check_whitespace(work: Workspace, change: Change, old: str, new: str) -> None:
    found = work.repository.run("diff-tree", "--check", old, new, check=False)
    if found.code:
        first = found.text.splitlines()[0]
        path = first.split(":")[0]
        kept = {file.target: _name(work, file.source) for file in change.files}
        place, _, problem = first.partition(": ")
        if path in kept:
            raise SeriesError(place.replace(path, kept[path], 1), f"{change.id}: {problem}")
        assert change.patch is not None  # the file is the base's: it is the patch's line
        name = _name(work, change.patch)
        raise SeriesError(name, f"{change.id}: {place}: {problem}")
