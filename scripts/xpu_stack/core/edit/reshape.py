"""Drop, undrop, fold, split, move, rename and edit changes of the series.

Note [An edit of the series]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The commits that the series gives on its release are made, and then those that
the edited series is to give: each change's diff is merged onto what is below it
now. The series' files follow from the commits, as in an export, and only those
of changes that differ are written. Where another base has patches of its own,
the same is done for them. Of a base that is like another one, the files go with
their change, and of its patches those are made anew that would not fit.

The checkout follows the edited series, which is first tried in a folder of its
own. So all conflicts come up before a file is written: those between the
changes, and those with the checkout's base. `make continue` starts again from
the beginning, with the answer.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from xpu_stack.core.bases import providers
from xpu_stack.core.bases.export_base import ExportBase
from xpu_stack.core.bases.own_files import OwnFiles
from xpu_stack.core.bases.payload import Source
from xpu_stack.core.edit import export, plan
from xpu_stack.core.edit.plan import Diff, Given, Piece, Plan
from xpu_stack.core.lay import applying
from xpu_stack.core.lay.builder import Builder, Stop
from xpu_stack.core.move import moves, rewrite, stack
from xpu_stack.core.move.goal import Goal, Request
from xpu_stack.core.move.moves import Move, Operation, State
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.resolve.merging import Conflict, Misfit, merge
from xpu_stack.core.series.base import Differences, base_names
from xpu_stack.core.series.change_text import ChangeText
from xpu_stack.core.series.series import NO_STAGE, Change, Series
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands, transaction
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import ExitCode, SeriesError, ToolError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, Repository, TreeId
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


def run(work: Workspace, request: Request) -> Rewrite:
    """Edits the series, and has the checkout follow; what was done to the series' files."""
    repository = work.repository
    conflicts.refuse_pending(repository)
    there = stack.read(repository)
    _refuse_unsafe(repository, there, request)
    taken = _taken(work, request) if request.verb == "undrop" else None
    given = Given(repository, request, _extra(work, there, request, taken))
    with progress(None, str(_operation(request))):
        root = _root(work)
        shape = _Shape(root, given, there.base if root is work else None)
        others = [_Shape(one, given, None) for one in _other_bases(root)]
        contents: dict[Path, Content] = {}
        for one in others:
            contents |= one.contents
        sources = shape.sources | _carried(work, shape, taken)
        contents |= {path: one.file for path, one in sources.items()}
        contents |= _keyed_by_change(work, shape, taken)
        contents |= shape.series_file(sources, _series_file_before(work, taken))
        if taken is None:
            for own in OwnFiles.of_all(work.layout):
                contents |= _refitted(work, own, shape, contents)
        edit = _differing(contents)
    with _trial(work, edit) as tried:
        after = _followed(work, tried, shape.after, request)
    edits = given.extra[0].id if request.verb == "edit" else None
    operation = replace(_operation(request), commit=_dropped(shape, request), edits=edits)
    with rewrite.made(work, operation, edit, after) as tree:
        moves.move(repository, operation, after, tree)
    conflicts.forget_answers(repository)
    return edit


def undrop(work: Workspace, change: str) -> Rewrite:
    """Brings a change back: one that the checkout skips, or that was dropped from the series."""
    if change in work.series.without:
        raise ToolError(
            f"{change} is not for the base {work.base.name}.",
            why=f"patches/{work.base.name}/base.yaml says so",
            next=f"remove it there, then: {commands.make('apply', BASE=work.base.name)}",
            code=ExitCode.USAGE,
        )
    skipped = moves.dropped(work.repository)
    if change not in skipped:
        return run(work, Request("undrop", {"CHANGE": change}))
    applying.refuse_unsafe(work)
    applied = stack.read(work.repository).applied
    top = applied[-1].trailers.change if applied else NO_STAGE
    rest = [one.id for one in work.series.all_changes()][len(work.series.changes(top)) :]
    if change in takewhile(lambda one: one in skipped, rest):
        top = change  # it is the next to be applied
    applying.reach(work, Goal(top, skipped - {change}), "undrop")
    return Rewrite({}, {})


def _refuse_unsafe(repository: Repository, there: Stack, request: Request) -> None:
    stack.refuse_unsafe(repository, edits=request.verb == "edit")
    stack.refuse_others(
        there,
        next=f"{commands.git(repository.folder, 'rebase', '-i', there.base[:12])} "
        "# squash it into a change, or move it above the stack",
    )
    changed = [one for one in there.applied if not one.as_made]
    if changed:
        raise ToolError(
            f"The commit of {changed[0].trailers.change} was changed by hand.",
            why=f"{changed[0].commit.id[:12]} is not as the tool made it",
            next=f"{commands.make('export')} && {request.command()}",
        )


# -- what goes in ------------------------------------------------------------------


def _extra(
    work: Workspace, there: Stack, request: Request, taken: Move | None
) -> tuple[Commit, ...]:
    if taken is not None and taken.operation.commit is not None:
        limit = len(list(work.series.all_changes())) + 1
        return tuple(work.repository.history(taken.operation.commit, limit))
    if request.verb == "edit":
        return (_edits(work.repository, there, request),)
    return ()


def _taken(work: Workspace, request: Request) -> Move:
    """The drop that took a change out."""
    for one in moves.entries(work.repository):
        if one.operation.verb == "drop" and one.operation.about == request.change:
            return one
    raise ToolError(
        f"'{request.change}' was never dropped here.",
        why="neither the checkout skips it, nor is it in the log of operations",
        next=commands.git(
            work.layout.repository, "log", "--", f"patches/texts/{request.change}.md"
        ),
        code=ExitCode.USAGE,
    )


def _edits(repository: Repository, there: Stack, request: Request) -> Commit:
    """The edits of the work tree, as a commit above HEAD."""
    if request.change not in [one.trailers.change for one in there.applied]:
        raise ToolError(
            f"The change '{request.change}' is not applied.",
            why="edits go into a change that the checkout has",
            next=commands.make("status"),
            code=ExitCode.USAGE,
        )
    export.say_untracked(repository)
    edits = export.edits(repository, there)
    if not edits:
        raise ToolError(
            f"There are no edits to put into {request.change}.",
            why="the work tree matches its commit",
            next=f"{commands.make('apply', STAGE=request.change)} "
            f"# edit, then: {request.command()}",
            code=ExitCode.USAGE,
        )
    return export.as_commit(repository, edits)


# -- the commits -------------------------------------------------------------------


def _root(work: Workspace) -> Workspace:
    """The series on the base that is described in full: the checkout's, or what that is like."""
    like = work.base.differences.like
    return applying.of_base(work, like) if like else work


def _other_bases(root: Workspace) -> Iterator[Workspace]:
    """The series on the other bases that are described in full and have patches of their own."""
    for name in base_names(root.layout):
        like = Differences.load(root.layout, name).like
        patches = root.layout.base_folder(name).glob("*/*.patch")
        if name != root.base.name and not like and any(patches):
            yield applying.of_base(root, name)


class _Shape:
    """The series on one base, as it is and as it is to be.

    ground: where its patches fit if the release cannot be had.
    """

    def __init__(self, work: Workspace, given: Given, ground: CommitId | None) -> None:
        self.work = work
        self.given = given
        below = providers.pristine_commit(work.layout, work.base, work.repository) or ground
        if below is None:
            raise ToolError(
                f"The base {work.base.name} is not available here.",
                why="it has patches of its own, which must be rebuilt, too",
                next=commands.make("apply", BASE=work.base.name, STAGE=NO_STAGE),
                code=ExitCode.MISSING,
            )
        self._old = self._commits(below)
        self.before = plan.of_commits(work.repository, self._old)
        self.after = self._reshaped()
        self._new = self._laid(below)

    def _reshaped(self) -> Plan:
        try:
            return plan.reshaped(self.given, self.before)
        except ToolError as error:
            if self.work.base.differences.like:
                error.why = f"on the base {self.work.base.name}: {error.why}"
            raise

    def _commits(self, ground: CommitId) -> list[Commit]:
        """The series' commits; a change that is not for the base has an empty one."""
        repository, series = self.work.repository, self.work.series
        changes = list(series.all_changes())
        try:
            builder = Builder(repository, series, lambda: ground)
            made = builder.build(ground, changes, series.without)
        except Stop as stop:
            raise SeriesError(
                stop.reason.change.place,
                f"{stop.reason.change.id} does not fit {self.work.base.name}",
            ) from None
        commits = repository.history(made[-1] if made else ground, len(made) + 1)[::-1]
        (tip, *rest), found = commits, list[Commit]()
        for change in changes:
            if change.id in series.without:
                message = f"{change.text.message}\n\n{settings().trailer}-Change: {change.id}\n"
                found.append(repository.scratch_commit(tip.tree, (tip.id,), message))
            else:
                tip = rest.pop(0)
                found.append(tip)
        return found

    def _laid(self, ground: CommitId) -> list[Commit]:
        """The commits of the plan, with the trees that the edited series gives."""
        (tip,) = self.work.repository.history(ground, 1)
        made = []
        for number, piece in enumerate(self.after, start=1):
            tree = tip.tree
            for diff in piece.diffs:
                tree = self._merged(tip, tree, number, diff)
            if tree == tip.tree and any(one.commit.tree != one.before for one in piece.diffs):
                raise ToolError(
                    f"Nothing would be left of {piece.id}.",
                    why="what it did is undone, or done below it",
                    next=f"{commands.make('drop', CHANGE=piece.origin or piece.id)} "
                    f"&& {self.given.request.command()}",
                    code=ExitCode.CONFLICT,
                )
            message = f"{piece.text}\n\n{settings().trailer}-Change: {piece.id}\n"
            tip = self.work.repository.scratch_commit(tree, (tip.id,), message)
            made.append(tip)
        return made

    def _merged(self, tip: Commit, tree: TreeId, number: int, diff: Diff) -> TreeId:
        if diff.before == tree:
            return diff.commit.tree
        repository, piece = self.work.repository, self.after[number - 1]
        merged = merge(repository, tree, diff.commit.id)
        if not merged.stages:
            return merged.tree
        if diff.commit in self.given.extra and self.given.request.verb == "edit":
            raise self._does_not_fit(number, sorted(merged.stages))
        replayed = conflicts.answers(repository).replay(repository, merged)
        if not replayed.left:
            return replayed.tree
        changed = tuple(one.path for one in repository.diff(merged.tree, replayed.tree))
        onto = repository.scratch_commit(tree, (tip.id,), f"below {piece.id}\n").id
        text = ChangeText(piece.text.partition("\n")[0], "")
        change = Change(piece.stage, piece.name, 0, 0, text, (), None, piece.id)
        misfit = Misfit(diff.commit.id, replayed.left, replayed.tree, merged.messages, changed)
        raise conflicts.report(
            repository,
            self.work.layout,
            Conflict(change, number, len(self.after), onto, misfit),
            Goal(NO_STAGE, frozenset(), request=self.given.request),
            {},
            apart=True,
        )

    def _does_not_fit(self, number: int, files: list[str]) -> ToolError:
        """The error for edits of lines that are written by a change above the one they are for."""
        repository, change = self.work.repository, self.after[number - 1].id
        if self.work.base.differences.like:
            return _by_hand(self.work.base.name, change, f"in conflict: {', '.join(files)}")
        above = [
            piece.id
            for piece in self.after[number:]
            for diff in piece.diffs
            if any(one.path in files for one in repository.diff(diff.before, diff.commit.tree))
        ]
        other = f"; changed above it by {', '.join(dict.fromkeys(above))}" if above else ""
        return ToolError(
            f"The edits do not fit {change}.",
            why=f"in conflict: {', '.join(files)}{other}",
            next=f"{commands.make('edit', CHANGE=above[-1] if above else '<another change>')} "
            f"# or: git stash, {commands.make('apply', STAGE=change)}, and edit there",
            code=ExitCode.CONFLICT,
        )

    # -- the files that give them --------------------------------------------------

    @cached_property
    def _changed(self) -> list[Commit]:
        """The commits of changes that are not as they were."""
        old = {
            piece.id: (piece, commit) for piece, commit in zip(self.before, self._old, strict=True)
        }
        return [
            commit
            for piece, commit in zip(self.after, self._new, strict=True)
            if piece.id not in old or not self._is_same(*old[piece.id], piece, commit)
        ]

    def _is_same(self, was: Piece, old: Commit, now: Piece, new: Commit) -> bool:
        diff = self.work.repository.diff
        return was.text == now.text and (
            diff(old.parents[0], old.id) == diff(new.parents[0], new.id)
        )

    @cached_property
    def sources(self) -> dict[Path, Source]:
        """The files of the changes that differ; those that go have no content."""
        changed, ids = self._changed, {one.id for one in self.after}
        same = ids - {_id_of(one) for one in changed}
        found = {one.path: one for one in export.sources(ExportBase(self.work), changed)}
        for change in self.work.series.all_changes():
            if change.id not in same:
                for path in export.files_of(self.work, change, everywhere=change.id not in ids):
                    found.setdefault(path, Source(path, None))
        return found

    @property
    def contents(self) -> dict[Path, Content]:
        return {path: one.file for path, one in self.sources.items()}

    def refitted(self, tried: Workspace) -> dict[Path, Content]:
        """The base's own patches by which the edited series gives the commits. tried: has it."""
        builder = Builder(tried.repository, tried.series, lambda: None)
        changes = {one.id: one for one in tried.series.all_changes()}
        name, top, found = tried.base.name, tried.layout.repository, dict[Path, Content]()
        for commit in self._new:
            change = changes[_id_of(commit)]
            absent = change.id in tried.series.without
            own = tried.layout.patch(name, change.id)
            below = commit.parents[0]
            laid = builder.lay_directly(below, change) if not absent else None
            if (own.exists() or laid != commit.tree) and not absent:
                patch = tried.repository.patches([commit.id])[commit.id]
                transaction.put(own, 0o100644, patch)
                found[self.work.layout.repository / own.relative_to(top)] = (0o100644, patch)
                laid = builder.lay_directly(below, replace(change, patch=own if patch else None))
            if (laid or tried.repository.tree_of(below)) != commit.tree:
                raise _by_hand(name, change.id, "its files would differ there")
        return found

    @property
    def renamed(self) -> dict[str, str]:
        """Old name -> new one."""
        ids = {one.id for one in self.after}
        return {one.origin: one.id for one in self.after if one.origin and one.origin not in ids}

    @property
    def gone(self) -> frozenset[str]:
        return frozenset(one.id for one in self.before) - {one.origin for one in self.after}

    @property
    def names(self) -> dict[str, str]:
        """The same with what a change that is gone has become a part of; "": of none."""
        request, names = self.given.request, dict(self.renamed)
        for change in self.gone:
            into = request.options.get("INTO") or _below(self.before, change)
            names[change] = into if request.verb == "fold" else ""
        return names

    def series_file(
        self, written: Mapping[Path, Source], earlier: SeriesFile | None
    ) -> dict[Path, Content]:
        file = SeriesFile.read(self.work.layout.series_file)
        for old, new in self.renamed.items():
            file.rename(old, new)
        file.arrange([one.id for one in self.after], known=earlier)
        titles = {one.stage: one.text.partition("\n")[0] for one in self.after[::-1]}
        for stage in {one.stage for one in self.after} - set(self.work.series.stage_names):
            file.summarize(stage, titles[stage])
        file.settle(export.owners(self.work, written))
        return {file.path: (0o100644, file.text.encode())}


def _id_of(commit: Commit) -> str:
    return commit.message.rpartition(f"{settings().trailer}-Change: ")[2].strip()


# -- the rest of the series --------------------------------------------------------


def _carried(work: Workspace, shape: _Shape, taken: Move | None) -> dict[Path, Source]:
    """The files of bases that are like another one; those of a change that is back, too."""
    before = (
        Rewrite.load(work, taken.edit) if taken is not None and taken.edit is not None else None
    )
    found = dict[Path, Source]()
    for own in OwnFiles.of_all(work.layout):
        found |= {one.path: one for one in own.carried(shape.names, shape.gone)}
        if before is not None:
            found |= own.restored(before.before, before.after, shape.given.request.change)
    return found


def _refitted(
    work: Workspace, own: OwnFiles, shape: _Shape, contents: Mapping[Path, Content]
) -> dict[Path, Content]:
    """The patches of such a base that are to be others; none if its commit is not at hand."""
    there, commit = applying.of_base(work, own.base.name), own.base.git.commit
    known = commit and work.repository.commit_id(commit)
    if known or (work.layout.checkout(own.base.name) / ".git").exists():
        with _trial(there, Rewrite({}, contents)) as tried:
            return _Shape(there, shape.given, None).refitted(tried)
    request = shape.given.request
    if request.verb in ("fold", "split", "edit"):
        for change in {request.change, shape.names.get(request.change, "")} - {""}:
            if own.has_of(change):
                raise _by_hand(own.base.name, change, "its files differ there")
    return {}


def _by_hand(base: str, change: str, why: str) -> ToolError:
    """The error for what is to be done in a checkout of another base."""
    return ToolError(
        f"This does not fit {change} on the base {base}.",
        why=why,
        next=f"{commands.make('apply', BASE=base, STAGE=change)} "
        f"# edit it there, then: {commands.make('export', BASE=base)}",
        code=ExitCode.CONFLICT,
    )


def _keyed_by_change(work: Workspace, shape: _Shape, taken: Move | None) -> dict[Path, Content]:
    """Resolutions and pull requests go with a change that has another name."""
    contents = dict[Path, Content]()
    if taken is not None and taken.edit is not None:  # what the drop took with it
        before = Rewrite.load(work, taken.edit).before
        contents |= {path: before[path] for path in before if "resolutions" in path.parts}
    for path in work.layout.patches.glob("*/resolutions/*/resolution.yaml"):
        contents |= _resolution(path, shape.names)
    for path in work.layout.patches.glob("*/submitted.yaml"):
        text = path.read_text(encoding="utf-8")
        for old, new in shape.renamed.items():
            text = re.sub(
                rf"^( +['\"]?){re.escape(old)}(?=['\"]?:)", rf"\g<1>{new}", text, flags=re.M
            )
        contents[path] = (0o100644, text.encode())
    return contents


def _below(before: Plan, change: str) -> str:
    ids = [one.id for one in before]
    return ids[ids.index(change) - 1]


def _resolution(path: Path, names: Mapping[str, str]) -> dict[Path, Content]:
    text = path.read_text(encoding="utf-8")
    for old, new in names.items():
        if re.search(rf"^change: ['\"]?{re.escape(old)}['\"]?$", text, re.M):
            if not new:
                return dict.fromkeys(path.parent.iterdir())
            return {path: (0o100644, text.replace(old, new, 1).encode())}
    return {}


def _series_file_before(work: Workspace, taken: Move | None) -> SeriesFile | None:
    """The series file before a drop, for the lines that it took."""
    if taken is None or taken.edit is None:
        return None
    path = work.layout.series_file
    content = Rewrite.load(work, taken.edit).before.get(path)
    return SeriesFile.parse(path, content[1].decode()) if content else None


def _differing(contents: Mapping[Path, Content]) -> Rewrite:
    edit = Rewrite.to(contents)
    differing = [path for path in contents if edit.before[path] != edit.after[path]]
    if not differing:
        raise ToolError(
            "Nothing to do: the series is already in that state.",
            why="the series is already so",
            next=commands.make("status"),
            code=ExitCode.USAGE,
        )
    return Rewrite(
        *({path: side[path] for path in differing} for side in (edit.before, edit.after))
    )


def _operation(request: Request) -> Operation:
    words = {"INTO": "into", "AFTER": "after", "TO": "to", "NAME": "to"}
    options = request.options
    about = [f"{words[key]} {options[key]}" for key in options if key in words]
    return Operation(request.verb, " ".join([request.change, *about]))


def _dropped(shape: _Shape, request: Request) -> CommitId | None:
    """The commit of the change that is dropped, for an undrop."""
    if request.verb != "drop":
        return None
    (diff,) = next(one.diffs for one in shape.before if one.id == request.change)
    return diff.commit.id


# -- the checkout ------------------------------------------------------------------


@contextmanager
def _trial(work: Workspace, edit: Rewrite) -> Iterator[Workspace]:
    """The edited series in a folder of its own; what is wrong with it is found there."""
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder, top = Path(name), work.layout.repository
        for part in ("patches", *settings().payload):
            if (top / part).exists():
                shutil.copytree(top / part, folder / part, symlinks=True)
        for path, content in edit.after.items():
            copy = folder / path.relative_to(top)
            copy.unlink(missing_ok=True)
            if content is not None:
                transaction.put(copy, *content)
        layout = Layout(folder, work.layout.state)
        series = Series.load(layout, work.base.name)
        yield replace(work, layout=layout, series=series)


def _followed(work: Workspace, tried: Workspace, after: Plan, request: Request) -> State:
    """Where the checkout is to be: at the changes that it had, as they are now."""
    there, skipped = stack.read(work.repository), work.dropped
    without = frozenset(one.id for one in after if one.origin in skipped)
    if not there.applied:
        return replace(moves.current(tried.repository), dropped=tuple(sorted(without)))
    goal = Goal(_top(there, after, skipped), without, request=request)
    made = applying.expected(tried, there.base, goal)
    return State.of_stack(
        tried.repository, applying.carried(tried, there, there.base, made), without
    )


def _top(there: Stack, after: Plan, skipped: frozenset[str]) -> str:
    """The last of the changes that the checkout had, with none below it that it had not."""
    applied = {one.trailers.change for one in there.applied}
    known = {*applied, *skipped, ""}
    row = list(takewhile(lambda one: one.origin in known, after))
    while row and len(row) < len(after) and row[-1].origin not in applied:
        row.pop()
    return row[-1].id if row else NO_STAGE
