"""Edits made in a checkout go back into payload, patches and texts.

A person works where the code builds: edits files, amends a change's commit, or
rewords it. Export writes that back into the repository of the series, so that
apply gives the same again. An edit that is not committed belongs to the last
change that touches its file.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from xpu_stack.core.edit import plan, sources
from xpu_stack.core.lay import applying
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.moves import Rewrite
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve.merging import Merge
from xpu_stack.core.series import authors
from xpu_stack.core.series.base import base_names
from xpu_stack.core.series.change import own_text
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands, files, transaction
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, File, Repository, TreeId
from xpu_stack.core.system.layout import Layout, settings

_SHOWN = 5  # files that are listed one by one


def export(work: Workspace, base: str) -> Mapping[Path, Content]:
    """Writes what differs back; the files written, or removed.

    base: the name of the base that the checkout is to be exported to, which is added
    if it is not there. work: the checkout with it, or with the one that it is like.
    """
    repository = work.repository
    stack.refuse_operation(repository)
    there = stack.read(repository)
    trailer = f"{settings().trailer}-Change: <stage>/<new name>"
    advice = f"squash it into one, or give it the trailer {trailer}"
    stack.refuse_others(repository, there, advice)
    if not there.applied:
        raise UsageError(
            "Nothing to export.",
            why="no change of the series is applied",
            next=commands.make("apply", BASE=work.base.name),
        )
    target = sources.target(work, base, there)
    edited = edits(repository, there)
    commits = with_edits(repository, there, edited)
    concerned = _concerned(work, there, commits, fresh=target.fresh)
    wanted = _with_shape(target, there, commits, concerned)
    edit = Rewrite.to(work.layout, wanted.contents, repository)
    say_untracked(repository)
    for path in edit.after:
        kept_at = path.relative_to(work.layout.repository)
        if kept_at.parts[0] in settings().payload:  # bases share it
            variants = {one: work.layout.variants(one) / kept_at for one in base_names(work.layout)}
            own = [one for one, variant in variants.items() if wanted.stays(variant)]
            if own:
                say(f"{', '.join(own)} keeps its own variant of {kept_at}")
    for commit in there.above:
        say(f"not exported: {stack.named(commit)}, your own above the stack")
    before = as_commit(repository, edited).id if edited else None
    with trial(target.work, edit.after) as tried:
        after = applying.state_at(tried, there, applying.current_goal(tried, there))
    if edit.after or after.commit != moves.current(repository).commit:
        # the files are those of the series already, edited or committed by hand
        moves.move(repository, moves.Operation("export", edits=before), after, edit, files=False)
    return edit.after


@contextmanager
def trial(work: Workspace, contents: Mapping[Path, Content]) -> Iterator[Workspace]:
    """The edited series in a folder of its own; what is wrong with it is found there."""
    if not contents:  # it is the series as it is
        yield applying.of_base(work, work.base.name)
        return
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder, top = Path(name), work.layout.repository

        def edited(at: str, names: list[str]) -> list[str]:
            return [one for one in names if Path(at, one) in contents]  # it may be large

        for part in ("patches", *settings().payload):
            if (top / part).exists():
                shutil.copytree(top / part, folder / part, symlinks=True, ignore=edited)
        there = {folder / path.relative_to(top): one for path, one in contents.items()}
        transaction.put_all(there, for_good=False)
        yield applying.of_base(
            replace(work, layout=Layout(folder, work.layout.state)), work.base.name
        )


def say_untracked(repository: Repository) -> None:
    _, names = repository.uncommitted()
    for name in names[:_SHOWN]:
        add = commands.git(repository.folder, "add", "--", name)
        say(f"not exported: {name} is not tracked; {add}, and amend its change")
    if len(names) > _SHOWN:
        say(f"not exported: {len(names) - _SHOWN} other file(s) that are not tracked")


def _concerned(
    work: Workspace, there: stack.Stack, commits: list[Commit], *, fresh: bool
) -> list[Commit]:
    """The commits but for those that were merged into a drifted fork, and not edited since.

    What the series has for these does not make them, and stays. Refuses when the series
    was edited, too, since it was applied. fresh: all are exported, to a new base.
    """
    edits_of, before = work.repository.edits_of, moves.left(work.repository) or {}
    builder, found = applying.builder(work), []
    for was, now in zip(there.applied, commits, strict=True):
        change = work.series.by_id.get(was.trailers.change)
        # Of a commit that a person has made anew, what it was before.
        made = was if was.as_made else before.get(was.trailers.change)
        if change is None or made is None:
            found.append(now)  # the checkout's word counts
            continue
        below = made.commit.parents[0]
        tree: TreeId | Merge | None = builder.lay_directly(below, change)[0]
        merged = tree is None and not fresh
        if not (merged and was.as_made and edits_of(was.commit) == edits_of(now)):
            found.append(now)
            if merged and was.as_made:
                of_merged = sources.Export(work).of([was.commit]).contents.items()
                if not all(files.is_as(path, content) for path, content in of_merged):
                    raise sources.as_a_base(
                        f"{change.id} was merged into this checkout, which has drifted from "
                        f"{work.base.name}.",
                        f"what it is here does not apply to {work.base.name}",
                    )
            if merged:
                continue
        if tree != made.commit.tree:
            tree = builder.attempt(below, change)
        same = isinstance(tree, Merge) or tree == made.commit.tree
        if not same or own_text(made.commit.message) != change.text.message:
            raise ToolError(
                f"The series' {change.id} was edited since it was applied.",
                why="exporting would undo that edit",
                next=f"{commands.git(work.layout.repository, 'stash')} && "
                f"{commands.make('export')} && "
                + commands.git(work.layout.repository, "stash", "pop"),
            )
    return found


def _with_shape(
    target: sources.Export, there: stack.Stack, commits: list[Commit], concerned: list[Commit]
) -> sources.Written:
    """All that must be written: the sources, less what is gone, and the series file."""
    work = target.work
    applied = list(sources.by_change(work.repository, commits))
    ids = list(work.series.by_id)
    ends = max((ids.index(one) for one in applied if one in ids), default=-1)
    # Without a log: what is missing below the last one was taken out.
    left = moves.left(work.repository)
    had = set(ids[:ends]) if left is None else set(ids) & left.keys()
    gone = had - set(applied) - work.dropped
    written = target.of(concerned)
    written.remove(work, gone)
    file = SeriesFile.read(work.layout.series_file)
    file.arrange(order(ids, applied, gone), sources.reorder(work.repository, commits))
    file.settle(written.all_owners(work))
    _credit(work, file, there)
    written.contents[file.path] = 0o100644, file.text.encode()
    return written


def _credit(work: Workspace, file: SeriesFile, there: stack.Stack) -> None:
    """Has the authors of commits that a person has made or amended in the series."""
    for one in there.applied:
        change, author = one.trailers.change, one.commit.author
        known = work.series.by_id.get(change)
        if one.as_made or author == ((known and known.author) or work.series.author):
            continue
        if author == work.series.author:
            file.put(change, "author", "")
        elif why := authors.problem(author):
            say(f"{change}: its author is not kept: {why}")
        elif authors.is_reachable(author):
            file.put(change, "author", author)
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
    owner = {  # the last change that touches a file
        entry.path: number
        for number, commit in enumerate(commits)
        for entry in repository.edits_of(commit)
    }
    for path in [path for path in edited if path not in owner]:
        options = ("-c", "sequence.editor=true", "rebase", "--interactive", "--autosquash")
        fixup = ("commit", "--fixup=<commit>")
        steps = [("add", "--", path), fixup, (*options, commits[0].parents[0])]
        raise ToolError(
            f"No change of the series touches {path}.",
            why="an edit goes to the last change that touches its file",
            # what puts it into a change that the person names
            next=" && ".join(commands.git(repository.folder, *step) for step in steps),
        )
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
