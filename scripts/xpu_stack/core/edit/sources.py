"""The files of the series that give the commits of a checkout: texts, patches, payload."""

import os
from collections.abc import Mapping
from pathlib import Path
from unicodedata import category

from xpu_stack.core.bases.export_base import ExportBase, Payload, Source
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.change import (
    SECTIONS,
    Change,
    ChangeText,
    own_text,
    split_id,
    template,
    trailers,
)
from xpu_stack.core.series.series_file import base_text
from xpu_stack.core.system import commands
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.errors import InvalidSeriesError, SeriesError, ToolError
from xpu_stack.core.system.git import Commit, Entry, Repository
from xpu_stack.core.system.settings import settings


def of(target: ExportBase, commits: list[Commit]) -> list[Source]:
    """What the texts, patches, payload and base.yaml must be to give these commits."""
    work, payload = target.work, Payload(target)
    patches = work.repository.patches([commit.id for commit in commits])
    found: dict[Path, Source] = {}
    for id_, commit in by_change(work.repository, commits).items():
        change = work.series.by_id.get(id_) or _begun(work.repository, id_, commit)
        for source in _sources_of(target, change, commit, payload, patches[commit.id]):
            # A file that leaves one change may have come to another.
            if source.content is not None or source.path not in found:
                found[source.path] = source
    found |= {source.path: source for source in payload.left_over(found)}
    if work.base.differences.like:
        path = work.base.folders[0] / "base.yaml"
        text = base_text(path, work.base.name, work.base.git, payload.differences())
        found[path] = Source(path, text)
    return list(found.values())


def by_change(repository: Repository, commits: list[Commit]) -> dict[str, Commit]:
    """Change -> its commit, in order."""
    found: dict[str, Commit] = {}
    for commit in commits:
        told = trailers(commit.message)
        assert told is not None
        if told.change in found:
            raise ToolError(
                f"Two commits belong to the change {told.change}.",
                why=f"{found[told.change].id[:12]} and {commit.id[:12]}",
                next=f"{reorder(repository, commits)} "
                f"# squash them; or reword one: only the trailer {settings().trailer}-Change: "
                "<stage>/<new name>",
            )
        found[told.change] = commit
    return found


def reorder(repository: Repository, commits: list[Commit]) -> str:
    return commands.git(repository.folder, "rebase", "-i", commits[0].parents[0][:12])


def _begun(repository: Repository, id_: str, commit: Commit) -> Change:
    """A change that the series does not have yet: a person has made its commit."""
    parts = split_id(id_)
    if parts is None:
        raise InvalidSeriesError(
            f"'{id_}' is not a valid name for a change.",
            why=f"{commit.id[:12]} says {settings().trailer}-Change: {id_}",
            next=f"{commands.git(repository.folder, 'rebase', '-i', f'{commit.id[:12]}~')} "
            "# reword it: <stage>/<change>, of small letters, digits, '-' and '_'",
        )
    title, _, body = own_text(commit.message).partition("\n")
    return Change(*parts, 0, 0, ChangeText(title, body.strip()), (), None, id_)


def files_of(work: Workspace, change: Change, *, everywhere: bool = True) -> list[Path]:
    """All that a change has: on every base, or what the base of `work` uses."""
    if not everywhere:
        patch = work.layout.patch(work.base.name, change.id)
        return [_text(work, change), patch, *(file.source for file in change.files)]
    patches = [work.layout.patch(base, change.id) for base in base_names(work.layout)]
    kept = [file.kept_at for file in change.files]
    kept += [one for one, id_ in work.series.elsewhere.items() if id_ == change.id]
    return [_text(work, change), *patches, *(path for one in kept for path in _places(work, one))]


def owners(work: Workspace, written: Mapping[Path, Source]) -> dict[str, str]:
    """Payload file -> its change, as it will be, of all bases."""
    found = {
        kept_at: id_
        for kept_at, id_ in work.series.owners.items()
        if any(
            os.path.lexists(path) and (path not in written or written[path].content is not None)
            for path in _places(work, kept_at)
        )
    }
    for source in written.values():
        if source.content is not None and source.change:
            found[source.kept_at] = source.change
    return found


def _places(work: Workspace, kept_at: str) -> list[Path]:
    """Where a payload file may be: shared, and in the variants of each base."""
    layout = work.layout
    variants = [layout.variants(base) for base in base_names(layout)]
    return [folder / kept_at for folder in (layout.repository, *variants)]


def _text(work: Workspace, change: Change) -> Path:
    return work.layout.patches / "texts" / change.stage / f"{change.name}.md"


def _sources_of(
    target: ExportBase, change: Change, commit: Commit, payload: Payload, edits: bytes
) -> list[Source]:
    """edits: the patch of the files that the commit alters."""
    work = target.work
    entries = work.repository.edits_of(commit)
    for entry in entries:
        if any(category(one) in ("Cc", "Cs", "Zl", "Zp") for one in entry.path):
            raise InvalidSeriesError(
                f"{change.id} has a file whose name cannot be kept in the series.",
                why=f"{entry.path!a} has a control character, or is not UTF-8",
                next=f"{reorder(work.repository, [commit])} # give the file another name",
            )
    brought = [entry for entry in entries if not entry.old_mode]
    text, patch = _text(work, change), work.layout.patch(work.base.name, change.id)
    return [
        Source(text, _text_of(work, change, commit, text)),
        Source(patch, _patch_of(target, change, commit, entries, edits)),
        *payload.sources(change, brought),
    ]


def _text_of(work: Workspace, change: Change, commit: Commit, path: Path) -> bytes:
    told = own_text(commit.message)
    if change.number == 0 and not any(section in told.splitlines() for section in SECTIONS):
        told = template(change.text.title, change.text.body)
    shown = path.relative_to(work.layout.repository).as_posix()
    try:
        ChangeText.parse(told, shown)
    except SeriesError as error:  # it could not be read again
        raise InvalidSeriesError(
            f"The message of {commit.id[:12]} cannot be the text of {change.id}.",
            why=error.problem,
            next=f"{commands.git(work.repository.folder, 'rebase', '-i', f'{commit.id[:12]}~')} "
            "# reword it",
        ) from None
    return f"{told.rstrip()}\n".encode()


def _patch_of(
    target: ExportBase, change: Change, commit: Commit, entries: list[Entry], edits: bytes
) -> bytes | None:
    """What the base's own patch is to be; None: there is none."""
    work = target.work
    drifted = [entry.path for entry in entries if entry.old_mode and entry.path in target.drifted]
    if drifted:
        if change.patch and _gives(work.repository, commit, entries, change.patch):
            return change.patch.read_bytes()
        raise as_a_base(
            f"{drifted[0]} has drifted from {work.base.name}.",
            f"what {change.id} edits in it cannot be made a patch for {work.base.name}",
        )
    like = work.base.differences.patches_of
    shared = work.layout.patch(like, change.id) if like else None
    if shared is None or not shared.exists() or not shared.stat().st_size:
        return edits or None
    if change.patch == shared and _gives(work.repository, commit, entries, shared):
        return None
    return edits


def _gives(repository: Repository, commit: Commit, entries: list[Entry], patch: Path) -> bool:
    """Whether a patch makes the commit of its parent and the files that the commit brings."""
    files = {entry.path: entry.file for entry in entries if not entry.old_mode}
    tree, _ = patches.applied(repository, commit.parents[0], patch, files=files)
    return tree == commit.tree


def as_a_base(what: str, why: str) -> ToolError:
    return ToolError(
        what,
        why=why,
        next=commands.make("export", BASE="<name>") + " # makes this fork a base of its own",
    )
