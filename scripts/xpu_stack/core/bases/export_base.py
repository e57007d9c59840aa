"""The base that a checkout is exported to; adding one, or moving one to another commit.

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
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.base import Differences, GitSource
from xpu_stack.core.series.change import Change, PayloadFile
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import CommitId, Entry, Repository
from xpu_stack.core.system.objects import Blob
from xpu_stack.core.system.settings import settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")


@dataclass(frozen=True)
class ExportBase:
    """The base that is exported to.

    fresh: it is being added, or moved; `work` has its series without variants then.
    drifted: files of the base, edited by patches, that are other ones in the checkout.
    """

    work: Workspace
    fresh: bool = False
    drifted: frozenset[str] = frozenset()


def of(work: Workspace, name: str, there: Stack) -> ExportBase:
    """The base called `name`. work: the checkout with the base that its stack came from."""
    base = work.base
    if name == base.name and base.git.commit in ("", there.base):
        return ExportBase(work, drifted=_drifted(work, there))
    if base.package:
        raise UsageError(
            f"{base.name} cannot be exported as another base.",
            why="it is an installed package, and no commit",
            next=commands.make("export", BASE=base.name),
        )
    root = base.differences.like or base.name
    if name == base.name:
        git = replace(base.git, commit=there.base)
        base = replace(base, git=git)
    else:
        _refuse_name(work, name)
        git = GitSource(_url(work.repository, there.base), commit=there.base)
        own = work.layout.base_folder(name)
        base = replace(
            base,
            name=name,
            folders=(own, work.layout.base_folder(root)),
            source_package=None,
            git=git,
            differences=Differences(root),
        )
    series = Series.load(work.layout, root)
    without = work.series.without if name == work.base.name else series.without
    say(f"the base {name} is {git} of {git.url}")
    if name != work.base.name and Path(git.url).is_dir():
        say("others cannot fetch it from there: push it, and put the address into base.yaml")
    series = replace(series, base=name, without=without)
    return ExportBase(replace(work, base=base, series=series), fresh=True)


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


def _refuse_name(work: Workspace, name: str) -> None:
    if not _NAME.match(name) or work.layout.base_folder(name).exists():
        raise UsageError(
            f"'{name}' cannot be the name of a base.",
            why=f"patches/{name} exists"
            if _NAME.match(name)
            else "a name is of letters, digits, '.', '_', '+' and '-'",
            next=commands.make("export", BASE="<name>"),
        )


def _url(repository: Repository, commit: CommitId) -> str:
    """Where the commit can be fetched from."""
    for remote in repository.line("remote").split():
        words = ("for-each-ref", "--count=1", "--contains", commit, f"refs/remotes/{remote}/")
        if repository.line(*words):
            return repository.line("remote", "get-url", remote)
    # as ONTO= named it, or this checkout
    return repository.ask("config", f"{settings().name}.{commit}.url") or str(repository.folder)


@dataclass(frozen=True)
class Source:
    """A file of the series' repository, as it should be; None: it should not be."""

    path: Path
    content: bytes | Blob | None
    mode: int = 0o100644
    change: str = ""  # of a payload file: whose it is
    kept_at: str = ""  # and its place in the payload folders

    @property
    def file(self) -> Content:
        """Its mode and content."""
        return None if self.content is None else (self.mode, self.content)

    @property
    def differs(self) -> bool:
        return not files.is_as(self.path, self.file)


@dataclass
class Payload:
    """The payload files of the changes that are exported."""

    target: ExportBase
    _exported: set[str] = field(default_factory=set, init=False)  # changes
    _brought: set[str] = field(default_factory=set, init=False)
    _without: set[str] = field(default_factory=set, init=False)
    _moved: dict[str, str] = field(default_factory=dict, init=False)

    def sources(self, change: Change, brought: list[Entry]) -> list[Source]:
        """The files that the commit of a change brings, and those that it no longer does."""
        self._exported.add(change.id)
        known = {file.target: file for file in change.files}
        found = []
        for entry in brought:
            file = known.pop(entry.path, None) or self._elsewhere_in_stage(change, entry.path)
            file = file or self._moved_here(entry, known, brought)
            found.append(self._source(change, file, entry))
        return found + [self._gone(file) for file in known.values()]

    def _elsewhere_in_stage(self, change: Change, target: str) -> PayloadFile | None:
        """The file of another change of the stage: it comes to this change, and stays there."""
        stage = (one for one in self.target.work.series.all_changes() if one.stage == change.stage)
        files = (file for one in stage for file in one.files)
        return next((file for file in files if file.target == target), None)

    def _source(self, change: Change, file: PayloadFile | None, wanted: Entry) -> Source:
        kept_at = file.kept_at if file else self._new_place(change, wanted.path)
        shared = self.target.work.layout.repository / kept_at
        if file is None and os.path.lexists(shared):  # base.yaml has said that it is not for it
            file = PayloadFile(shared, kept_at, wanted.path)
            same = self._is_in(file, wanted)
            own = not same
        else:
            same = file is not None and self._is_in(file, wanted)
            own = self.target.fresh and change.number > 0 and not same
        self._brought.add(kept_at)
        path = self._variants / kept_at if own else file.source if file else shared
        mode, content = self._content(wanted)
        return Source(path, content, mode, change.id, kept_at)

    def _content(self, entry: Entry) -> tuple[int, Blob]:
        return entry.new_mode, Blob(self.target.work.repository.objects, entry.new)

    def _is_in(self, file: PayloadFile, wanted: Entry) -> bool:
        return files.is_as(file.source, self._content(wanted))

    def _moved_here(
        self, wanted: Entry, known: dict[str, PayloadFile], brought: list[Entry]
    ) -> PayloadFile | None:
        """The file that this base has at another path, as it is."""
        targets = {entry.path for entry in brought}
        for target, file in known.items() if self.target.fresh else ():
            if target not in targets and self._is_in(file, wanted):
                self._moved[file.kept_at] = wanted.path
                return known.pop(target)
        return None

    def _gone(self, file: PayloadFile) -> Source:
        shared = self.target.work.layout.repository / file.kept_at
        variant = self._variants / file.kept_at
        if self.target.fresh or (file.source == variant and os.path.lexists(shared)):
            self._without.add(file.kept_at)
        return Source(variant if self.target.fresh else file.source, None, kept_at=file.kept_at)

    @property
    def _variants(self) -> Path:
        return self.target.work.layout.variants(self.target.work.base.name)

    def left_over(self, written: Collection[Path]) -> list[Source]:
        """The variants of before that a base which is moved does not need any more."""
        owners = self.target.work.series.owners
        old = {
            path: path.relative_to(self._variants).as_posix()
            for path in sorted(self._variants.rglob("*") if self.target.fresh else ())
            if path not in written
        }
        return [
            Source(path, None, kept_at=kept_at)
            for path, kept_at in old.items()
            if owners.get(kept_at) in self._exported
        ]

    def differences(self) -> Differences:
        """What base.yaml must say of the files and changes."""
        old = self.target.work.base.differences
        if not self.target.fresh:
            moved = {kept: to for kept, to in old.moved.items() if kept not in self._without}
            without = old.without - self._brought | self._without
            return replace(old, without=without, moved=moved)
        changes = self.target.work.series.all_changes()
        settled = {
            file.kept_at for one in changes if one.id in self._exported for file in one.files
        }
        settled |= self._exported
        # What has no file here is left out without a word.
        empty = self.target.work.series.without - old.without_changes
        without = old.without | (self.target.work.dropped - empty)
        return replace(
            old,
            without=without - settled | self._without,
            moved={kept: to for kept, to in old.moved.items() if kept not in settled} | self._moved,
        )

    def _new_place(self, change: Change, target: str) -> str:
        """Where a file is kept that is new in its change; a known one stays in its folder."""
        series = self.target.work.series
        known = [file for one in series.all_changes() for file in one.files]
        used = {_home(file) for file in known if file.target == target}
        used = used or {_home(file) for file in change.files}
        home = used.pop() if len(used) == 1 else settings().home(target)
        return f"{home}/{change.stage}/{target}"


def _home(file: PayloadFile) -> str:
    return file.kept_at.partition("/")[0]
