"""Edits made in a checkout go back into payload, patches and texts.

A person works where the code builds: edits files, amends a change's commit, or
rewords it. Export writes that back into the repository of the series, so that
apply gives the same again. An edit that is not committed belongs to the last
change that touches its file.
"""

import os
from collections.abc import Mapping
from dataclasses import replace

from xpu_stack.core.bases import export_base
from xpu_stack.core.bases.export_base import ExportBase, Source
from xpu_stack.core.edit import plan, sources
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, rewrite, stack
from xpu_stack.core.move.stack import Applied
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import Misfit
from xpu_stack.core.series import authors
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.change import Change, own_text
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, File, Repository, TreeId
from xpu_stack.core.system.settings import settings

_SHOWN = 5  # files that are listed one by one


def export(work: Workspace, base: str) -> list[Source]:
    """Writes what differs back; the files written, or removed.

    base: the name of the base that the checkout is to be exported to, which is added
    if it is not there. work: the checkout with it, or with the one that it is like.
    """
    repository = work.repository
    stack.refuse_operation(repository)
    there = stack.read(repository)
    _refuse_nothing(work, there)
    target = export_base.of(work, base, there)
    edited = edits(repository, there)
    commits = with_edits(repository, there, edited)
    concerned = commits if target.fresh else _concerned(work, there, commits)
    _refuse_changed_series(work, there, concerned, fresh=target.fresh)
    wanted = _with_shape(target, there, commits, concerned)
    differing = [source for source in wanted if source.differs]
    say_untracked(repository)
    _say_variants(target.work, differing)
    for commit in there.above:
        say(f"not exported: {stack.named(commit)}, your own above the stack")
    before = as_commit(repository, edited).id if edited else None
    operation = moves.Operation("export", edits=before)
    if differing:
        edit = rewrite.Rewrite.to({one.path: one.file for one in differing}, repository)
        with rewrite.made(target.work, operation, edit, None) as tree:
            applying.adopt(applying.of_base(work, base), tree, operation)
    else:
        applying.adopt(applying.of_base(work, base), None, operation)
    return differing


def _say_variants(work: Workspace, sources: list[Source]) -> None:
    """Says of files that the bases share which bases do not get the edit."""
    for source in sources:
        if source.path == work.layout.repository / source.kept_at:
            others = [
                base
                for base in base_names(work.layout)
                if os.path.lexists(work.layout.variants(base) / source.kept_at)
            ]
            if others:
                say(f"{', '.join(others)} keeps its own variant of {source.kept_at}")


def say_untracked(repository: Repository) -> None:
    _, names = repository.uncommitted()
    for name in names[:_SHOWN]:
        add = commands.git(repository.folder, "add", "--", name)
        say(f"not exported: {name} is not tracked; {add}, and amend its change")
    if len(names) > _SHOWN:
        say(f"not exported: {len(names) - _SHOWN} other file(s) that are not tracked")


def _concerned(work: Workspace, there: stack.Stack, commits: list[Commit]) -> list[Commit]:
    """The commits but for those that were merged into a drifted fork, and not edited since.

    What the series has for these does not make them, and stays.
    """
    edits_of = work.repository.edits_of
    builder = applying.builder(work, lambda _: None)

    def stays(was: Applied, now: Commit) -> bool:
        old, change = was.commit, work.series.by_id.get(was.trailers.change)
        return (
            was.as_made
            and change is not None
            and edits_of(old) == edits_of(now)
            and builder.lay_directly(old.parents[0], change) is None
        )

    return [now for was, now in zip(there.applied, commits, strict=True) if not stays(was, now)]


def _with_shape(
    target: ExportBase, there: stack.Stack, commits: list[Commit], concerned: list[Commit]
) -> list[Source]:
    """All that must be written: the sources, less what is gone, and the series file."""
    work = target.work
    applied = list(sources.by_change(work.repository, commits))
    ids = list(work.series.by_id)
    ends = max((ids.index(one) for one in applied if one in ids), default=-1)
    without = work.dropped
    # Without a log: what is missing below the last one was taken out.
    left = moves.applied(work.repository)
    had = set(ids[:ends]) if left is None else set(ids) & left
    gone = {one for one in had if one not in applied and one not in without}
    written = {source.path: source for source in sources.of(target, concerned)}
    for change in work.series.all_changes():
        if change.id in gone:
            for path in sources.files_of(work, change):
                written.setdefault(path, Source(path, None))
    owner_of = sources.owners(work, written)
    file = SeriesFile.read(work.layout.series_file)
    file.arrange(order(ids, applied, gone), sources.reorder(work.repository, commits))
    file.settle(owner_of)
    _credit(work, file, there)
    return [*written.values(), Source(file.path, file.text.encode())]


def _credit(work: Workspace, file: SeriesFile, there: stack.Stack) -> None:
    """Has the authors of commits that a person has made or amended in the series."""
    for one in there.applied:
        change, author = one.trailers.change, one.commit.author
        known = work.series.by_id.get(change)
        if one.as_made or author == ((known and known.author) or work.series.author):
            continue
        if author == work.series.author:
            file.credit(change, None)
        elif why := authors.problem(author):
            say(f"{change}: its author is not kept: {why}")
        elif authors.is_reachable(author):
            file.credit(change, author)
        else:
            say(f"{change}: its author {author} is not kept, as that address cannot receive mail")


def order(ids: list[str], applied: list[str], gone: set[str]) -> list[str]:
    """The series' order: that of the commits, and the changes that have none."""
    found, above = list(applied), ""
    for one in reversed(ids):
        if one not in applied and one not in gone:
            place = found.index(above) if above else len(found)
            found = plan.inserted(found, place, one)
        if one in found:
            above = one
    return found


def as_commit(repository: Repository, edited: Mapping[str, File]) -> Commit:
    """Edits of the work tree as a commit above HEAD."""
    head = repository.head
    return repository.scratch_commit(repository.with_files(head, edited), (head,), "edits\n")


def with_edits(
    repository: Repository, there: stack.Stack, edited: Mapping[str, File]
) -> list[Commit]:
    """The changes' commits with edits of the work tree in those that they belong to."""
    commits = [applied.commit for applied in there.applied]
    if not edited:
        return commits
    touched = [{entry.path for entry in repository.edits_of(commit)} for commit in commits]
    owner: dict[str, int] = {}
    for path in edited:
        numbers = [number for number, paths in enumerate(touched) if path in paths]
        if not numbers:
            raise ToolError(
                f"No change of the series touches {path}.",
                why="an edit goes to the last change that touches its file",
                next=_into_a_change(repository, path, commits[0].parents[0]),
            )
        owner[path] = numbers[-1]
    done: list[Commit] = []
    for number, commit in enumerate(commits):
        # No later change touches the file: from its owner on, it is the edited one.
        own = {path: file for path, file in edited.items() if owner[path] <= number}
        tree = repository.with_files(commit.tree, own)
        parent = done[-1].id if done else commit.parents[0]
        id_ = repository.commit_again(commit.id, tree, parent)
        done.append(replace(commit, id=id_, tree=tree, parents=(parent,)))
    return done


def edits(repository: Repository, there: stack.Stack) -> dict[str, File]:
    """The edits that are not committed, but for those of files of the commits above the stack."""
    own = {
        entry.path: stack.named(commit)
        for commit in there.above
        for entry in repository.edits_of(commit)
    }
    edited = {}
    for path in repository.uncommitted(untracked=False)[0]:
        if path in own:
            say(f"not exported: the edit of {path}, which your own {own[path]} touches")
        else:
            edited[path] = repository.store_edited(path)
    return edited


def _into_a_change(repository: Repository, path: str, base: CommitId) -> str:
    """What puts an edit of a file into a change that the person names."""
    options = ("-c", "sequence.editor=true", "rebase", "--interactive", "--autosquash")
    steps = [("add", "--", path), ("commit", "--fixup=<commit>"), (*options, base)]
    return " && ".join(commands.git(repository.folder, *step) for step in steps)


def _refuse_nothing(work: Workspace, there: stack.Stack) -> None:
    trailer = f"{settings().trailer}-Change: <stage>/<new name>"
    advice = f"squash it into one, or give it the trailer {trailer}"
    stack.refuse_others(work.repository, there, advice)
    if not there.applied:
        raise UsageError(
            "Nothing to export.",
            why="no change of the series is applied",
            next=commands.make("apply", BASE=work.base.name),
        )


def _refuse_changed_series(
    work: Workspace, there: stack.Stack, concerned: list[Commit], *, fresh: bool
) -> None:
    """Refuses when the series was edited, too, since it was applied."""
    edited = sources.by_change(work.repository, concerned)
    before = moves.left(work.repository)
    builder = applying.builder(work, lambda _: None)
    for applied in there.applied:
        change = work.series.by_id.get(applied.trailers.change)
        # Of a commit that a person has made anew, what it was before.
        made = applied if applied.as_made else before.get(applied.trailers.change)
        if change is None or made is None:
            continue  # the checkout's word counts
        tree: TreeId | Misfit | None = builder.lay_directly(made.commit.parents[0], change)
        if tree is None and not fresh and change.id in edited:
            if applied.as_made:
                _refuse_merged(work, change, applied.commit)
            continue
        if tree != made.commit.tree:
            tree = builder.attempt(made.commit.parents[0], change)
        same = isinstance(tree, Misfit) or tree == made.commit.tree
        if not same or own_text(made.commit.message) != change.text.message:
            raise ToolError(
                f"The series' {change.id} was edited since it was applied.",
                why="exporting would undo that edit",
                next=f"{commands.git(work.layout.repository, 'stash')} && "
                f"{commands.make('export')} && "
                + commands.git(work.layout.repository, "stash", "pop"),
            )


def _refuse_merged(work: Workspace, change: Change, commit: Commit) -> None:
    """Refuses a change that fits this base only after a merge, if its files would differ."""
    if any(source.differs for source in sources.of(ExportBase(work), [commit])):
        raise sources.as_a_base(
            f"{change.id} was merged into this checkout, which has drifted from {work.base.name}.",
            f"what it is here does not apply to {work.base.name}",
        )
