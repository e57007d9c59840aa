"""Where a base comes from: a person's fork, the source package, a git tag or commit.

The base of an installed package is an empty tree, see base.py.

What is fetched is prepared beside its final place and then renamed, so that it is
never there in part.
"""

import os
from pathlib import Path

from xpu_stack.core.bases import source_package
from xpu_stack.core.bases.source_package import NO_ANSWER, Unavailable
from xpu_stack.core.move.workspace import Checkout
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import ExitCode, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


def checkout(layout: Layout, base: Base, given: str | None) -> Checkout:
    """The checkout to work on, fetched if needed.

    given: a person's own checkout, which is used in place.
    """
    if given and base.package:
        raise UsageError(
            f"The base {base.name} has no checkout of your own.",
            why="it is an installed package, and its checkout has the new files alone",
            next=f"unset {settings().source}; "
            + commands.make("apply", **{"BASE": base.name, settings().source: ""}),
        )
    if given:
        return _given(Path(given).expanduser().absolute())
    folder = layout.checkout(base.name)
    if not (folder / ".git").exists():
        _fetch(layout, base, folder)
    repository = Repository(folder)
    provider = repository.ask("config", f"{settings().name}.provider") or "unknown"
    return Checkout(repository, provider, own=True)


def _given(folder: Path) -> Checkout:
    repository = Repository(folder)
    if not folder.is_dir() or not (folder / settings().marker).is_file():
        raise UsageError(
            f"{settings().source}={folder} is not a {settings().project} source tree.",
            why=f"it has no {settings().marker}" if folder.is_dir() else "there is no such folder",
            next=f"{commands.make('apply', **{settings().source: '<path>'})} "
            "# or without, to fetch the release",
        )
    if not repository.is_repository():
        raise UsageError(
            f"{settings().source}={folder} is not a git repository of its own.",
            why="each change becomes a commit on its base commit",
            next=f"{commands.line('cd', folder)} && git init && git add -A -f && "
            "git commit -m base",
        )
    return Checkout(repository, f"{settings().source}={folder}", own=False)


def _fetch(layout: Layout, base: Base, folder: Path) -> None:
    reasons = []
    git = _from_commit if base.git.commit else _from_tag
    package = [("the distribution's source package", _from_source_package)]
    provide_from = [*(package if base.source_package else []), (f"git, {base.git}", git)]
    if base.package:
        provide_from = [("an empty tree", _from_nothing)]
    for name, provide in provide_from:
        try:
            with files.folder(folder) as draft:
                provider = provide(layout, base, draft)
                Repository(draft).run("config", f"{settings().name}.provider", provider)
        except Unavailable as error:
            log.info("%s: %s", name, error)
            reasons.append(f"{name}: {error}")
            continue
        head = Repository(folder).commit_id("HEAD")
        say(f"base {base.name} from {provider}: commit {head}")
        return
    raise _unavailable(base, "; ".join(reasons))


def _unavailable(base: Base, why: str) -> ToolError:
    return ToolError(
        f"The base {base.name} is not available here.",
        why=why,
        next=commands.make("apply", **{settings().source: "<your own checkout>"}),
        code=ExitCode.MISSING,
    )


# -- the source package ---------------------------------------------------------


def _from_source_package(layout: Layout, base: Base, folder: Path) -> str:
    assert base.source_package is not None
    return source_package.unpack(
        layout, base.source_package, f"{settings().project} {base.name}", folder
    )


def _from_nothing(_: Layout, base: Base, folder: Path) -> str:
    source_package.commit_all(folder, f"{base.name}: an installed package, so an empty tree\n")
    return "an empty tree, for an installed package"


# -- git --------------------------------------------------------------------------


def _from_tag(_: Layout, base: Base, folder: Path) -> str:
    url = os.environ.get(f"{settings().project.upper()}_GIT") or base.git.url
    _check_reachable(url, f"refs/tags/{base.git.tag}")
    command = [
        *("git", "clone", "--quiet", "--depth=1", f"--branch={base.git.tag}"),
        *("--recurse-submodules", "--shallow-submodules", "--jobs=4"),
        *("--", url, str(folder)),
    ]
    with progress(None, f"cloning {base.git} with its submodules"):
        _run(command)
    repository = Repository(folder)
    repository.run("update-ref", "refs/heads/base", "HEAD")
    repository.run("symbolic-ref", "HEAD", "refs/heads/base")
    return f"git, {base.git}"


def _from_commit(_: Layout, base: Base, folder: Path) -> str:
    repository = Repository(folder)
    repository.run("init", "--quiet", "--template=", "--initial-branch=base")
    with progress(None, f"fetching {base.git} of {base.git.url}"):
        _fetch_commit(repository, base)
        repository.run("reset", "--quiet", "--hard", base.git.commit)
        words = ["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1", "--jobs=4"]
        try:
            _run(["git", "-C", str(folder), *words])
        except Unavailable as error:
            say(f"its submodules, which a build needs, could not be fetched: {error}")
    return f"git, {base.git} of {base.git.url}"


def _fetch_commit(repository: Repository, base: Base) -> None:
    """Has the base's commit in the tool's own repository."""
    url, commit = base.git.url, base.git.commit
    _check_reachable(url)
    # A folder has it all at hand; from elsewhere the history is not needed.
    depth = [] if Path(url).is_dir() else ["--depth=1"]
    words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *depth, "--", url]
    _run(["git", "-C", str(repository.folder), *words, f"+{commit}:refs/{settings().name}/base"])


def _run(command: list[str]) -> None:
    result = shell.run(command, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)
    if result.code:
        raise Unavailable((result.complaint.splitlines() or [f"{command[1]} failed"])[-1])


def _check_reachable(url: str, ref: str = "HEAD") -> None:
    """Asks for a ref, so that an address that does not answer costs seconds."""
    command = ["timeout", str(NO_ANSWER), "git", "ls-remote", "--exit-code", "--", url, ref]
    try:
        result = shell.run(command, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no '{error.filename}'") from None
    if result.code == 124:
        raise Unavailable(f"no answer within {NO_ANSWER} s")
    if result.code:
        raise Unavailable((result.complaint.splitlines() or [f"there is no {ref}"])[-1])


def release(layout: Layout, base: Base, into: Repository) -> CommitId:
    """The base's own commit, with its objects, in a repository."""
    there = into.commit_id(base.git.commit) if base.git.commit else None
    if there is not None:
        return there
    folder = layout.checkout(base.name)
    if not (folder / ".git").exists():
        _fetch(layout, base, folder)
    own = Repository(folder)
    commit = own.commit_id(base.git.commit or "refs/heads/base")
    if commit is None and not base.git.commit:
        raise _unavailable(base, f"{folder} has no branch 'base'")
    if commit is None:  # the base is another commit now
        commit = CommitId(base.git.commit)
        try:
            _fetch_commit(own, base)
        except Unavailable as error:
            raise _unavailable(base, f"{base.git} of {base.git.url}: {error}") from None
    if into.commit_id(commit) is None:
        into.run("fetch", "--quiet", "--no-tags", "--", str(folder), commit)
    return commit


def pristine_commit(layout: Layout, base: Base, into: Repository) -> CommitId | None:
    """The merge base of a three-way merge; None if the base is not available."""
    try:
        return release(layout, base, into)
    except ToolError as error:
        log.info("no common ground for a merge: %s", error.why)
        return None
