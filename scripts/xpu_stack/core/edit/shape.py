"""The series on one base, as it is and as an edit of it is to make it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from xpu_stack.core.bases import providers
from xpu_stack.core.bases.export_base import ExportBase, Source
from xpu_stack.core.edit import plan, sources
from xpu_stack.core.edit.plan import Diff, Given, Plan
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.resolve.merging import Misfit, Stop, merge
from xpu_stack.core.series.change import Change, ChangeText
from xpu_stack.core.series.series import NO_STAGE, Series
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands, transaction
from xpu_stack.core.system.errors import ConflictError, MissingError, SeriesError, ToolError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, File, TreeId
from xpu_stack.core.system.objects import Blob
from xpu_stack.core.system.settings import settings


class Shape:
    """The series on one base, as it is and as it is to be.

    ground: where its patches fit if the release cannot be had.
    """

    def __init__(self, work: Workspace, given: Given, ground: CommitId | None) -> None:
        self.work = work
        self.given = given
        self._other_base = "" if ground else work.base.name
        below = providers.pristine_commit(work.layout, work.base, work.repository) or ground
        if below is None:
            raise MissingError(
                f"The base {work.base.name} is not available here.",
                why="it has patches of its own, which must be rebuilt, too",
                next=commands.make("apply", BASE=work.base.name, STAGE=NO_STAGE),
            )
        self._old = self._commits(below)
        self.before = plan.of_commits(work.repository, self._old)
        if self._other_base:
            self.given = replace(given, partly=True, extra=self._own_part())
        try:
            self.after = plan.reshaped(self.given, self.before)
        except ToolError as error:
            if self._other_base:
                error.why = f"on the base {self._other_base}: {error.why}"
            raise
        self._new = self._laid(below)

    def _own_part(self) -> tuple[Commit, ...]:
        """What is brought in, without edits of what the base lacks."""
        repository, series, extra = self.work.repository, self.work.series, self.given.extra
        if self.given.request.verb != "edit":
            return extra
        entries = repository.diff(extra[0].parents[0], extra[0].id)
        there = repository.files(self._old[-1].id, [one.path for one in entries])
        lacks = self.given.request.change in series.without
        left = {
            one.path: File(one.old_mode, one.old)
            for one in entries
            if lacks or (self.work.base.package and one.old_mode and one.path not in there)
        }
        tree = repository.with_files(extra[0].tree, left)
        return (repository.scratch_commit(tree, extra[0].parents, "edits\n"),)

    def _commits(self, ground: CommitId) -> list[Commit]:
        """The series' commits; a change that is not for the base has an empty one."""
        repository, series = self.work.repository, self.work.series
        try:
            builder = Builder(repository, series, lambda: ground)
            made = builder.build(ground, list(series.all_changes()), series.without)
        except Stop as stop:
            raise SeriesError(
                stop.change.place, f"{stop.change.id} does not fit {self.work.base.name}"
            ) from None
        commits = repository.history(made[-1] if made else ground, len(made) + 1)[::-1]
        (tip, *rest), found = commits, list[Commit]()
        for change in series.all_changes():
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
                raise ConflictError(
                    f"Nothing would be left of {piece.id}.",
                    why="what it did is undone, or done below it",
                    next=f"{commands.make('drop', CHANGE=piece.origin or piece.id)} "
                    f"&& {self.given.request.command()}",
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
        replayed = conflicts.of_edit(repository).replay(merged)
        if not replayed.left:
            return replayed.tree
        changed = tuple(one.path for one in repository.diff(merged.tree, replayed.tree))
        onto = repository.scratch_commit(tree, (tip.id,), f"below {piece.id}\n").id
        text = ChangeText(piece.text.partition("\n")[0], "")
        change = Change(piece.stage, piece.name, 0, 0, text, (), None, piece.id)
        misfit = Misfit(diff.commit.id, replayed.left, replayed.tree, merged.messages, changed)
        raise conflicts.report(
            self.work,
            Stop(change, number, len(self.after), onto, misfit),
            Goal(NO_STAGE, frozenset(), request=self.given.request),
            {},
            apart=True,
            base=self._other_base,
        )

    def _does_not_fit(self, number: int, files: list[str]) -> ToolError:
        """The error for edits of lines that are written by a change above the one they are for."""
        repository, change = self.work.repository, self.after[number - 1].id
        if self._other_base:
            return by_hand(self._other_base, change, f"in conflict: {', '.join(files)}")
        above = [
            piece.id
            for piece in self.after[number:]
            for diff in piece.diffs
            if any(one.path in files for one in repository.diff(diff.before, diff.commit.tree))
        ]
        other = f"; changed above it by {', '.join(dict.fromkeys(above))}" if above else ""
        return ConflictError(
            f"The edits do not fit {change}.",
            why=f"in conflict: {', '.join(files)}{other}",
            next=f"{commands.make('edit', CHANGE=above[-1] if above else '<another change>')} "
            f"# or: git stash, {commands.make('apply', STAGE=change)}, and edit there",
        )

    # -- the files that give them --------------------------------------------------

    @cached_property
    def _changed(self) -> list[Commit]:
        """The commits of changes that are not as they were."""
        edits_of, pairs = self.work.repository.edits_of, zip(self.before, self._old, strict=True)
        old = {piece.id: (piece.text, edits_of(commit)) for piece, commit in pairs}
        new = zip(self.after, self._new, strict=True)
        return [one for piece, one in new if old.get(piece.id) != (piece.text, edits_of(one))]

    @cached_property
    def sources(self) -> dict[Path, Source]:
        """The files of the changes that differ; those that go have no content."""
        changed, ids = self._changed, {one.id for one in self.after}
        same = ids - {_id_of(one) for one in changed}
        found = {one.path: one for one in sources.of(ExportBase(self.work), changed)}
        for change in self.work.series.all_changes():
            if change.id not in same:
                for path in sources.files_of(self.work, change, everywhere=change.id not in ids):
                    found.setdefault(path, Source(path, None))
        return found

    def refitted(self, tried: Workspace) -> dict[Path, Content]:
        """The base's own files by which the edited series gives the commits. tried: has it."""
        repository, layout, name = tried.repository, tried.layout, tried.base.name
        found = dict[Path, Content]()
        for change, commit in self._laid_otherwise(tried):
            there = repository.files(commit.id, [file.target for file in change.files])
            payload = Builder(repository, tried.series, lambda: None).payload(change)
            for file in change.files:
                new = there.get(file.target, payload[file.target])
                if new != payload[file.target]:  # a variant: other bases have the shared file
                    path = layout.variants(name) / file.kept_at
                    found[path] = new.mode, Blob(repository.objects, new.blob)
            patch = repository.patches([commit.id])[commit.id]
            if patch or change.patch is not None:
                found[layout.patch(name, change.id)] = 0o100644, patch
        for path, content in found.items():
            path.unlink(missing_ok=True)
            if content is not None:
                transaction.put(path, *content)
        again = replace(tried, series=Series.load(layout, name))
        for change, _ in self._laid_otherwise(again):
            raise by_hand(name, change.id, "its files would differ there")
        top = self.work.layout.repository
        return {top / path.relative_to(layout.repository): found[path] for path in found}

    def _laid_otherwise(self, tried: Workspace) -> list[tuple[Change, Commit]]:
        """The commits that a series does not give as it is."""
        builder, found = Builder(tried.repository, tried.series, lambda: None), []
        for commit in self._new:
            change, below = tried.series.by_id[_id_of(commit)], commit.parents[0]
            laid: TreeId | None = tried.repository.tree_of(below)
            if change.id not in tried.series.without:
                laid = builder.lay_directly(below, change, exact=True)
            if laid != commit.tree:
                found.append((change, commit))
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
        self, written: Mapping[Path, Source], drop: Rewrite | None
    ) -> dict[Path, Content]:
        """drop: what took a change that is back, and its lines."""
        file = SeriesFile.read(self.work.layout.series_file)
        for old, new in self.renamed.items():
            file.rename(old, new)
        known, before = None, drop and drop.before.get(file.path)
        if before and isinstance(before[1], Blob):
            known = SeriesFile.parse(file.path, before[1].content.decode())
        file.arrange([one.id for one in self.after], known=known)
        titles = {one.stage: one.text.partition("\n")[0] for one in self.after[::-1]}
        for stage in {one.stage for one in self.after} - set(self.work.series.stage_names):
            file.summarize(stage, titles[stage])
        file.settle(sources.owners(self.work, written))
        return {file.path: (0o100644, file.text.encode())}


def _id_of(commit: Commit) -> str:
    return commit.message.rpartition(f"{settings().trailer}-Change: ")[2].strip()


def by_hand(base: str, change: str, why: str) -> ToolError:
    """The error for what is to be done in a checkout of another base."""
    return ConflictError(
        f"This does not fit {change} on the base {base}.",
        why=why,
        next=f"{commands.make('apply', BASE=base, STAGE=change)} "
        f"# edit it there, then: {commands.make('export', BASE=base)}",
    )


def _below(before: Plan, change: str) -> str:
    ids = [one.id for one in before]
    return ids[ids.index(change) - 1]
