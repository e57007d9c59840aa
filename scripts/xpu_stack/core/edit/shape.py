"""The series on one base, as it is and as an edit of it is to make it.

Of a base that is like another one, see Note [What a base shares] (base.py), its own files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from xpu_stack.core.bases import providers
from xpu_stack.core.edit import export, plan
from xpu_stack.core.edit.plan import Dropped, Given
from xpu_stack.core.edit.sources import Export, Written
from xpu_stack.core.lay.builder import Builder
from xpu_stack.core.move.workspace import Goal, Workspace
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.resolve.merging import Stop, merge
from xpu_stack.core.series.base import is_below
from xpu_stack.core.series.change import Change, own_text
from xpu_stack.core.series.series import NO_STAGE, Series
from xpu_stack.core.series.series_file import SeriesFile, base_text
from xpu_stack.core.system import commands, files, transaction
from xpu_stack.core.system.errors import ConflictError, MissingError, SeriesError, ToolError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, File, TreeId
from xpu_stack.core.system.layout import settings
from xpu_stack.core.system.objects import Blob


class Shape:
    """The series on one base, as it is and as it is to be.

    ground: where its patches fit if the release cannot be had.
    """

    def __init__(self, work: Workspace, given: Given, ground: CommitId | None) -> None:
        self.work = work
        self.given = given if ground else replace(given, base=work.base.name)
        below = providers.pristine_commit(work.layout, work.base, work.repository) or ground
        if below is None:
            raise MissingError(
                f"The base {work.base.name} is not available here.",
                why="it has patches of its own, which must be rebuilt, too",
                next=commands.make("apply", BASE=work.base.name, STAGE=NO_STAGE),
            )
        self._old = self._commits(below)
        if self.given.base and self.given.edits:
            self.given = replace(self.given, edits=self._own_edits(self.given.edits))
        try:
            old = self._old.items()
            before = [plan.Piece(id_, own_text(one.message), (one,), id_) for id_, one in old]
            self.after = plan.reshaped(self.given, before)
        except ToolError as error:
            if self.given.base:
                error.why = f"on the base {self.given.base}: {error.why}"
            raise
        self._new = self._laid(below)

    def _own_edits(self, edits: Commit) -> Commit:
        """The edits of the work tree, without those of what the base lacks."""
        repository = self.work.repository
        entries = repository.edits_of(edits)
        top = list(self._old.values())[-1]
        there = repository.files(top.id, [one.path for one in entries])
        lacks = self.given.request.change in self.work.series.without
        left = {
            one.path: File(one.old_mode, one.old)
            for one in entries
            if lacks or (self.work.base.package and one.old_mode and one.path not in there)
        }
        tree = repository.with_files(edits.tree, left)
        return repository.scratch_commit(tree, edits.parents, "edits\n")

    def _commits(self, ground: CommitId) -> dict[str, Commit]:
        """The series' commits by change; one that is not for the base has an empty one."""
        repository, series = self.work.repository, self.work.series
        try:
            builder = Builder(repository, series, lambda: ground)
            made = builder.build(ground, list(series.all_changes()), series.without)
        except Stop as stop:
            raise SeriesError(stop.place, f"{stop.id} does not fit {self.work.base.name}") from None
        tip, *rest = repository.history(made[-1] if made else ground, len(made) + 1)[::-1]
        found = dict[str, Commit]()
        for change in series.all_changes():
            if change.id in series.without:
                message = _message(change.text.message, change.id)
                found[change.id] = repository.scratch_commit(tip.tree, (tip.id,), message)
            else:
                tip = found[change.id] = rest.pop(0)
        return found

    def _laid(self, ground: CommitId) -> dict[str, Commit]:
        """The commits of the plan, with the trees that the edited series gives."""
        tip, made = self.work.repository.commit(ground), dict[str, Commit]()
        for number, piece in enumerate(self.after, start=1):
            tree = tip.tree
            for diff in piece.diffs:
                tree = self._merged(tip, tree, number, diff)
            if tree == tip.tree and any(map(self.work.repository.edits_of, piece.diffs)):
                raise ConflictError(
                    f"Nothing would be left of {piece.id}.",
                    why="what it did is undone, or done below it",
                    next=f"{commands.make('drop', CHANGE=piece.origin or piece.id)} "
                    f"&& {self.given.request.command()}",
                )
            message = _message(piece.text, piece.id)
            tip = made[piece.id] = self.work.repository.scratch_commit(tree, (tip.id,), message)
        return made

    def _merged(self, tip: Commit, tree: TreeId, number: int, diff: Commit) -> TreeId:
        repository, piece = self.work.repository, self.after[number - 1]
        if repository.tree_of(diff.parents[0]) == tree:
            return diff.tree
        merged = merge(repository, tree, diff.id)
        if not merged.stages:
            return merged.tree
        if diff == self.given.edits:
            raise self._does_not_fit(number, sorted(merged.stages))
        left, _ = conflicts.of_edit(repository).replay(merged)
        if not left.stages:
            return left.tree
        onto = repository.scratch_commit(tree, (tip.id,), f"below {piece.id}\n").id
        here = [one.origin not in self.work.series.without for one in self.after]
        number, of = sum(here[:number]), sum(here)
        raise conflicts.report(
            self.work,
            Stop(piece.id, "", number, of, onto, left),
            Goal(NO_STAGE, frozenset(), request=self.given.request),
            {},
            apart=True,
            base=self.given.base,
        )

    def _does_not_fit(self, number: int, files: list[str]) -> ToolError:
        """The error for edits of lines that are written by a change above the one they are for."""
        repository, change = self.work.repository, self.after[number - 1].id
        if self.given.base:
            return by_hand(self.given.base, change, f"in conflict: {', '.join(files)}")
        above = [
            piece.id
            for piece in self.after[number:]
            for diff in piece.diffs
            if any(one.path in files for one in repository.edits_of(diff))
        ]
        other = f"; changed above it by {', '.join(dict.fromkeys(above))}" if above else ""
        return ConflictError(
            f"The edits do not fit {change}.",
            why=f"in conflict: {', '.join(files)}{other}",
            next=f"{commands.make('edit', CHANGE=above[-1] if above else '<another change>')} "
            f"# or: git stash, {commands.make('apply', STAGE=change)}, and edit there",
        )

    # -- the files that give them --------------------------------------------------

    @property
    def dropped(self) -> CommitId | None:
        """For an undrop, what a drop did: a commit on that of the change, and both stacks."""
        if self.given.request.verb != "drop":
            return None
        change = self._old[self.given.request.change]
        tops = (list(commits.values())[-1].id for commits in (self._old, self._new))
        return self.work.repository.scratch_commit(change.tree, (change.id, *tops), "drop\n").id

    def is_as_before(self, drop: Dropped) -> bool:
        """Whether the edited series gives just what it gave before a drop."""
        new = self._new
        return all(id_ in new and new[id_].tree == one for id_, (_, one) in drop.trees.items())

    @cached_property
    def written(self) -> Written:
        """The files of the changes that differ, and of those that go."""
        edits_of, new = self.work.repository.edits_of, self._new
        old = {id_: (own_text(one.message), edits_of(one)) for id_, one in self._old.items()}
        now = {one.id: (one.text, edits_of(new[one.id])) for one in self.after}
        changed = [new[id_] for id_ in now if old.get(id_) != now[id_]]
        found = Export(self.work).of(changed)
        found.remove(self.work, old.keys() - now.keys())
        return found

    def refitted(self, tried: Workspace) -> dict[Path, Content]:
        """The base's own files by which the edited series gives the commits. tried: has it."""
        repository, layout, name = tried.repository, tried.layout, tried.base.name
        found = dict[Path, Content]()
        for change, commit in self._laid_otherwise(tried):
            there = repository.files(commit.id, [file.target for file in change.files])
            for file in change.files:
                new = there.get(file.target)
                variant = new and (new.mode, Blob(repository, new.blob))
                if variant and not files.is_as(file.source, variant):  # others have the shared file
                    found[layout.variants(name) / file.kept_at] = variant
            patch = repository.patches([commit.id])[commit.id]
            like = tried.base.differences.patches_of
            needed = patch or (like and layout.patch(like, change.id).exists())
            found[layout.patch(name, change.id)] = (0o100644, patch) if needed else None
        transaction.put_all(found, for_good=False)
        again = replace(tried, series=Series.load(layout, name))
        for change, _ in self._laid_otherwise(again):
            raise by_hand(name, change.id, "its files would differ there")
        top = self.work.layout.repository
        return {top / path.relative_to(layout.repository): found[path] for path in found}

    def _laid_otherwise(self, tried: Workspace) -> list[tuple[Change, Commit]]:
        """The commits that a series does not give as it is."""
        builder, found = Builder(tried.repository, tried.series, lambda: None), []
        for id_, commit in self._new.items():
            change, below = tried.series.by_id[id_], commit.parents[0]
            laid: TreeId | None = tried.repository.tree_of(below)
            if change.id not in tried.series.without:
                laid = builder.lay_directly(below, change, exact=True)[0]
            if laid != commit.tree:
                found.append((change, commit))
        return found

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Old name -> new one."""
        ids = {one.id for one in self.after}
        return {one.origin: one.id for one in self.after if one.origin and one.origin not in ids}

    @cached_property
    def names(self) -> dict[str, str]:
        """The same with what a change that is gone has become a part of; "": of none."""
        request, ids, gone = self.given.request, list(self._old), dict[str, str]()
        if request.verb == "drop":
            gone[request.change] = ""
        if request.verb == "fold":
            below = ids[ids.index(request.change) - 1]
            gone[request.change] = self.given.option("INTO") or below
        return self.renamed | gone

    def series_file(self, written: Written) -> dict[Path, Content]:
        file = SeriesFile.read(self.work.layout.series_file)
        for old, new in self.renamed.items():
            file.rename(old, new)
        known = self.given.drop.before if self.given.drop else None
        file.arrange([one.id for one in self.after], known=known)
        titles = {one.stage: one.text.partition("\n")[0] for one in self.after[::-1]}
        for stage in {one.stage for one in self.after} - set(self.work.series.stage_names):
            file.summarize(stage, titles[stage])
        file.settle(written.all_owners(self.work))
        return {file.path: (0o100644, file.text.encode())}


@dataclass(frozen=True)
class OwnFiles:
    """The patches, variants and base.yaml of a base that is like another one.

    work: with that base; shape: of the base that is described in full.
    """

    work: Workspace
    shape: Shape

    @cached_property
    def _then(self) -> dict[str, tuple[str, str]]:
        """Payload file -> the change that it belongs to then, and its place; "": it goes."""
        given, names, found = self.shape.given, self.shape.names, dict[str, tuple[str, str]]()
        for kept_at, change in self.work.series.owners.items():
            home, _, target = kept_at.split("/", 2)
            split = given.request.verb == "split" and change == given.request.change
            taken = split and given.chosen(target)
            then = given.option("NAME") if taken else names.get(change, change)
            found[kept_at] = then, f"{home}/{then.partition('/')[0]}/{target}" if then else ""
        return found

    @cached_property
    def _variants(self) -> dict[str, Path]:
        """Payload file -> where the base has its own."""
        top = self.work.layout.variants(self.work.base.name)
        return {kept_at: top / kept_at for kept_at in self._then if (top / kept_at).is_file()}

    def carried(self) -> Written:
        """Its files when changes have other names, or files go to another change."""
        layout, base, shape = self.work.layout, self.work.base, self.shape
        top, were, owners = layout.variants(base.name), self.work.series.owners, dict[str, str]()
        moves: dict[Path, Path | None] = {}
        for old, new in shape.names.items():
            if (patch := layout.patch(base.name, old)).exists():
                # else it is a part of another one
                moves[patch] = layout.patch(base.name, new) if old in shape.renamed else None
        for kept_at, path in self._variants.items():
            change, place = self._then[kept_at]
            if change != were[kept_at]:
                moves[path] = top / place if place else None
                owners |= {place: change} if place else {}
        kept = {to: files.current(one, self.work.repository) for one, to in moves.items() if to}
        contents: dict[Path, Content] = dict.fromkeys(moves) | kept
        for path, content in restored(shape.given.drop).items() if shape.given.drop else ():
            if content and path.is_relative_to(top):
                owners[path.relative_to(top).as_posix()] = shape.given.request.change
        without = set[str]().union(*map(self._left_out, base.differences.without)) - {""}
        told = base.differences.moved.items()
        moved = {self._then.get(one, ("", one))[1]: to for one, to in told}
        moved.pop("", None)
        differences = replace(base.differences, without=frozenset(without), moved=moved)
        path = layout.patches / base.name / "base.yaml"
        contents[path] = 0o100644, base_text(path, base.name, base.git, differences)
        return Written(contents, owners)

    def _left_out(self, one: str) -> set[str]:
        """Where a change, a file or a folder that is not for the base is then."""
        left_out = self.work.base.differences.without
        if one in self.work.base.differences.without_changes:
            return {self.shape.names.get(one, one)}
        home, _, *rest = one.split("/", 2)
        then = {place: file for file, (_, place) in self._then.items()}
        places = {place for place, file in then.items() if is_below(file, one)}
        found = set()
        for place in places - {""}:
            folder = "/".join([home, place.split("/")[1], *rest])
            inside = [file for other, file in then.items() if is_below(other, folder)]
            whole = all(any(is_below(file, other) for other in left_out) for file in inside)
            found.add(folder if whole else place)
        return found if places else {one}

    def refitted(self, contents: Mapping[Path, Content]) -> dict[Path, Content]:
        """Those that are to be others; none if the base is neither here nor needed."""
        layout, base, request = self.work.layout, self.work.base, self.shape.given.request
        commit = base.git.commit
        here = (
            base.package
            or (commit and self.work.repository.commit_id(commit))
            or (layout.checkout(base.name) / ".git").exists()
        )
        changes = {request.change, self.shape.names.get(request.change, "")} - {""}
        own = {id_ for one, id_ in self.work.series.owners.items() if one in self._variants}
        own |= {one for one in changes if layout.patch(base.name, one).exists()}
        torn = request.verb in ("fold", "split", "edit") and changes & own
        if not here and not torn:
            return {}
        with export.trial(self.work, contents) as tried:
            return Shape(self.work, self.shape.given, None).refitted(tried)


def restored(drop: Dropped) -> dict[Path, Content]:
    """What a drop has edited, and is as it left it: as it was before."""
    after, before = drop.edit.after, drop.edit.before
    return {path: before[path] for path in after if files.is_as(path, after[path])}


def _message(text: str, change: str) -> str:
    return f"{text}\n\n{settings().trailer}-Change: {change}\n"


def by_hand(base: str, change: str, why: str) -> ToolError:
    """The error for what is to be done in a checkout of another base."""
    return ConflictError(
        f"This does not fit {change} on the base {base}.",
        why=why,
        next=f"{commands.make('apply', BASE=base, STAGE=change)} "
        f"# edit it there, then: {commands.make('export', BASE=base)}",
    )
