"""The base that a checkout is exported to, and the files of the series that give its commits.

A fork becomes a base by an export with BASE= from a checkout whose stack was put on it. The
base is a commit of the person's repository, and is like the base that the stack
came from, see Note [What a base shares] (base.py).

On a base that is described in full a payload file is written where it is. A base that is
like another one has variants. An edit goes to the variant where there is one, and to the
shared file where there is none. When the base is added, or moved to another commit, all
that differs becomes a variant.
"""

import os
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.base import Differences, GitSource, base_names
from xpu_stack.core.series.change import (
    SECTIONS,
    Change,
    ChangeText,
    own_text,
    split_id,
    template,
    trailers,
)
from xpu_stack.core.series.series import Series
from xpu_stack.core.series.series_file import base_text
from xpu_stack.core.system import commands, files
from xpu_stack.core.system import patch as patches
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import InvalidSeriesError, SeriesError, ToolError, UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import Commit, CommitId, Entry, File, Repository
from xpu_stack.core.system.layout import CONTROL, settings
from xpu_stack.core.system.objects import Blob


class Written(NamedTuple):
    """What files of the series are to be.

    owners: the payload files among them that have another change, or come to be -> it.
    """

    contents: dict[Path, Content]
    owners: dict[str, str]

    def remove(self, work: Workspace, ids: Set[str]) -> None:
        """Has all go that these changes have on any base, but for what is to be written."""
        kept = (kept_at for kept_at, id_ in work.series.owners.items() if id_ in ids)
        paths = [path for one in kept for path in _places(work, one)]
        paths += [work.layout.patches / "texts" / f"{id_}.md" for id_ in ids]
        paths += [work.layout.patch(base, id_) for id_ in ids for base in base_names(work.layout)]
        for path in paths:
            self.contents.setdefault(path, None)

    def stays(self, path: Path) -> bool:
        """Whether a file is there, and does not go."""
        return os.path.lexists(path) and self.contents.get(path, ()) is not None

    def all_owners(self, work: Workspace) -> dict[str, str]:
        """Payload file -> its change, as it will be, of all bases."""
        known = work.series.owners.items()
        left = {name: id_ for name, id_ in known if any(map(self.stays, _places(work, name)))}
        return left | self.owners


@dataclass
class Export:
    """What is written to a base, once.

    fresh: the base is being added, or moved; `work` has its series without variants then.
    drifted: files of the base, edited by patches, that are other ones in the checkout.
    """

    work: Workspace
    fresh: bool = False
    drifted: frozenset[str] = frozenset()
    _written: Written = field(default_factory=lambda: Written({}, {}), init=False)
    _exported: set[str] = field(default_factory=set, init=False)  # changes
    _without: set[str] = field(default_factory=set, init=False)
    _moved: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def _variants(self) -> Path:
        return self.work.layout.variants(self.work.base.name)

    def of(self, commits: list[Commit]) -> Written:
        """What the texts, patches, payload and base.yaml must be to give these commits."""
        repository, base = self.work.repository, self.work.base
        edits = repository.patches([commit.id for commit in commits])
        for id_, commit in by_change(repository, commits).items():
            change = self.work.series.by_id.get(id_) or _begun(repository, id_, commit)
            self._take(change, commit, edits[commit.id])
        differences = self._settled()
        if differences.like:
            path = self.work.layout.patches / base.name / "base.yaml"
            self._put(path, base_text(path, base.name, base.git, differences))
        return self._written

    def _put(self, path: Path, content: bytes | None) -> None:
        self._written.contents[path] = None if content is None else (0o100644, content)

    def _take(self, change: Change, commit: Commit, edits: bytes) -> None:
        """Adds what a change's commit gives, and the files that it no longer brings."""
        layout, entries = self.work.layout, self.work.repository.edits_of(commit)
        for entry in entries:
            if CONTROL.search(entry.path):
                raise InvalidSeriesError(
                    f"{change.id} has a file whose name cannot be kept in the series.",
                    why=f"{entry.path!a} has a control character, or is not UTF-8",
                    next=f"{reorder(self.work.repository, [commit])} # give the file another name",
                )
        text = f"patches/texts/{change.id}.md"
        self._put(layout.repository / text, self._text(change, commit, text))
        patch = layout.patch(self.work.base.name, change.id)
        self._put(patch, self._patch(change, commit, entries, edits))
        self._payload(change, {one.path: one.file for one in entries if not one.old_mode})

    def _text(self, change: Change, commit: Commit, shown: str) -> bytes:
        told = own_text(commit.message)
        if change.number == 0 and not any(section in told.splitlines() for section in SECTIONS):
            told = template(change.text.title, change.text.body)
        try:
            ChangeText.parse(told, shown)
        except SeriesError as error:  # it could not be read again
            folder = self.work.repository.folder
            raise InvalidSeriesError(
                f"The message of {commit.id[:12]} cannot be the text of {change.id}.",
                why=error.problem,
                next=f"{commands.git(folder, 'rebase', '-i', f'{commit.id[:12]}~')} # reword it",
            ) from None
        return f"{told.rstrip()}\n".encode()

    def _patch(
        self, change: Change, commit: Commit, entries: list[Entry], edits: bytes
    ) -> bytes | None:
        """What the base's own patch is to be; None: there is none."""
        work, patch, like = self.work, change.patch, self.work.base.differences.patches_of
        shared = work.layout.patch(like, change.id) if like else None
        drifted = sorted(self.drifted & {one.path for one in entries if one.old_mode})
        if patch and (drifted or patch == shared):  # it stays as it is, if it makes the commit
            added = {one.path: one.file for one in entries if not one.old_mode}
            made, _ = patches.applied(work.repository, commit.parents[0], patch, files=added)
            if made == commit.tree:
                return patch.read_bytes() if drifted else None
        if drifted:
            raise as_a_base(
                f"{drifted[0]} has drifted from {work.base.name}.",
                f"what {change.id} edits in it cannot be made a patch for {work.base.name}",
            )
        return edits if edits or (shared and shared.exists() and shared.stat().st_size) else None

    def _payload(self, change: Change, brought: Mapping[str, File]) -> None:
        top, fresh = self.work.layout.repository, self.fresh
        self._exported.add(change.id)
        known = {file.target: file for file in change.files}
        # the file of another change of the stage comes to this change, and stays there
        stage = (one for one in self.work.series.all_changes() if one.stage == change.stage)
        there = {file.target: file for one in stage for file in one.files}
        for path, wanted in brought.items():
            content = wanted.mode, Blob(self.work.repository, wanted.blob)
            file = known.pop(path, None) or there.get(path)
            if fresh and file is None:  # this base may have it at another path, as it is
                left = (one for one in known if one not in brought)
                same = (one for one in left if files.is_as(known[one].source, content))
                file = known.pop(next(same, ""), None)
            kept_at = file.kept_at if file else self._new_place(change, path)
            place = file.source if file else top / kept_at
            # where a file is that is not this one, base.yaml has said that it is not for it
            new = (fresh and change.number > 0) or (file is None and os.path.lexists(place))
            own = new and not files.is_as(place, content)
            self._written.contents[self._variants / kept_at if own else place] = content
            self._written.owners[kept_at] = change.id
            if file and file.kept_at.split("/", 2)[2] != path:
                self._moved[kept_at] = path
        for file in known.values():
            variant = self._variants / file.kept_at
            if fresh or (file.source == variant and os.path.lexists(top / file.kept_at)):
                self._without.add(file.kept_at)
            # it may have come to another change
            self._written.contents.setdefault(variant if fresh else file.source, None)

    def _new_place(self, change: Change, target: str) -> str:
        """Where a file is kept that is new in its change; a known one stays in its folder."""
        known = [file for one in self.work.series.all_changes() for file in one.files]
        same = [file for file in known if file.target == target] or change.files
        homes = {file.kept_at.partition("/")[0] for file in same}
        home = homes.pop() if len(homes) == 1 else settings().home(target)
        return f"{home}/{change.stage}/{target}"

    def _settled(self) -> Differences:
        """What base.yaml must say; the variants of before that a moved base does not need go."""
        series, old = self.work.series, self.work.base.differences
        settled, without = set(self._without), old.without - self._written.owners.keys()
        if self.fresh:
            owners = series.owners
            settled |= self._exported | {one for one in owners if owners[one] in self._exported}
            # What has no file here is left out without a word.
            without |= self.work.dropped - (series.without - old.without_changes)
            for kept_at in settled - self._exported:
                if os.path.lexists(self._variants / kept_at):
                    self._written.contents.setdefault(self._variants / kept_at, None)
        moved = {kept: to for kept, to in old.moved.items() if kept not in settled} | self._moved
        return replace(old, without=without - settled | self._without, moved=moved)


def target(work: Workspace, name: str, there: Stack) -> Export:
    """The base called `name`. work: the checkout with the base that its stack came from."""
    base, new = work.base, name != work.base.name
    if not new and base.git.commit in ("", there.base):
        return Export(work, drifted=_drifted(work, there))
    if base.package:
        raise UsageError(
            f"{base.name} cannot be exported as another base.",
            why="it is an installed package, and no commit",
            next=commands.make("export", BASE=base.name),
        )
    root = base.differences.like or base.name
    if new:
        valid = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name)
        if not valid or (work.layout.patches / name).exists():
            raise UsageError(
                f"'{name}' cannot be the name of a base.",
                why=f"patches/{name} exists"
                if valid
                else "a name is of letters, digits, '.', '_', '+' and '-'",
                next=commands.make("export", BASE="<name>"),
            )
        git = GitSource(_url(work.repository, there.base), commit=there.base)
        folders = work.layout.patches / name, work.layout.patches / root
        base = replace(base, name=name, folders=folders, source_package=None, git=git)
        base = replace(base, differences=Differences(root))
    else:
        base = replace(base, git=replace(base.git, commit=there.base))
    series = Series.load(work.layout, root)
    without = series.without if new else work.series.without
    say(f"the base {name} is {base.git} of {base.git.url}")
    if new and Path(base.git.url).is_dir():
        say("others cannot fetch it from there: push it, and put the address into base.yaml")
    series = replace(series, base=name, without=without)
    return Export(replace(work, base=base, series=series), fresh=True)


def _drifted(work: Workspace, there: Stack) -> frozenset[str]:
    """As far as the release is at hand."""
    folder = work.layout.checkout(work.base.name)
    own = Repository(folder)
    release = own.commit_id("refs/heads/base") if (folder / ".git").exists() else None
    if release is None or release == there.base or work.base.git.commit:
        return frozenset()
    paths = sorted({path for one in work.series.all_changes() for path in one.patched_paths()})
    known, here = own.files(release, paths), work.repository.files(there.base, paths)
    return frozenset(path for path in paths if known.get(path) != here.get(path))


def _url(repository: Repository, commit: CommitId) -> str:
    """Where the commit can be fetched from."""
    for remote in repository.line("remote").split():
        words = ("for-each-ref", "--count=1", "--contains", commit, f"refs/remotes/{remote}/")
        if repository.line(*words):
            return repository.line("remote", "get-url", remote)
    # as ONTO= named it, or this checkout
    return repository.ask("config", f"{settings().name}.{commit}.url") or str(repository.folder)


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


def _places(work: Workspace, kept_at: str) -> list[Path]:
    """Where a payload file may be: shared, and in the variants of each base."""
    variants = [work.layout.variants(base) for base in base_names(work.layout)]
    return [folder / kept_at for folder in (work.layout.repository, *variants)]


def as_a_base(what: str, why: str) -> ToolError:
    return ToolError(
        what,
        why=why,
        next=commands.make("export", BASE="<name>") + " # makes this fork a base of its own",
    )
