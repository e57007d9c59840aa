"""The base that a checkout is exported to; adding one, or moving one to another commit.

A fork becomes a base by an export with BASE= from a checkout whose stack was put on it. The
base is a commit of the person's repository, and is like the base that the stack
came from, see Note [What a base shares] (base.py).
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.base import Differences, GitSource
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.git import CommitId, Repository
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
