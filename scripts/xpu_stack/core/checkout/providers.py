"""Where a base comes from: a person's fork, the source package, the git tag.

What is fetched is prepared beside its final place and then renamed, so that it is
never there in part.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.checkout import source_package
from xpu_stack.core.checkout.source_package import NO_ANSWER, Unavailable
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


@dataclass(frozen=True)
class Checkout:
    """A checkout of the project, and what provided its base."""

    repository: Repository
    provider: str
    own: bool  # the tool's, not a person's


def checkout(layout: Layout, base: Base, given: str | None) -> Checkout:
    """The checkout to work on, fetched if needed.

    given: a person's own checkout, which is used in place.
    """
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
        raise ToolError(
            f"{settings().source}={folder} is not a {settings().project} source tree.",
            why=f"it has no {settings().marker}" if folder.is_dir() else "there is no such folder",
            next=f"make apply {settings().source}=<path> # or without, to fetch the release",
            code=ExitCode.USAGE,
        )
    if not repository.is_repository():
        raise ToolError(
            f"{settings().source}={folder} is not a git repository of its own.",
            why="each change becomes a commit on its base commit",
            next=f"{commands.line('cd', folder)} && git init && git add -A -f && "
            "git commit -m base",
            code=ExitCode.USAGE,
        )
    return Checkout(repository, f"{settings().source}={folder}", own=False)


def _fetch(layout: Layout, base: Base, folder: Path) -> None:
    reasons = []
    for name, provide in (
        ("the distribution's source package", _from_source_package),
        (f"git, the tag {base.git.tag}", _from_git),
    ):
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
    raise ToolError(
        f"The base {base.name} is not available here.",
        why="; ".join(reasons),
        next=f"make apply {settings().source}=<your own checkout>",
        code=ExitCode.MISSING,
    )


# -- the source package ---------------------------------------------------------


def _from_source_package(layout: Layout, base: Base, folder: Path) -> str:
    return source_package.unpack(
        layout, base.source_package, f"{settings().project} {base.name}", folder
    )


# -- git --------------------------------------------------------------------------


def _from_git(_: Layout, base: Base, folder: Path) -> str:
    url = os.environ.get(f"{settings().project.upper()}_GIT") or base.git.url
    _check_reachable(url, base.git.tag)
    command = [
        *("git", "clone", "--quiet", "--depth=1", f"--branch={base.git.tag}"),
        *("--recurse-submodules", "--shallow-submodules", "--jobs=4"),
        *(url, str(folder)),
    ]
    with progress(None, f"cloning {base.git.tag} with its submodules"):
        result = shell.run(command, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)
    if result.code:
        raise Unavailable(result.complaint.splitlines()[-1])
    repository = Repository(folder)
    repository.run("update-ref", "refs/heads/base", "HEAD")
    repository.run("symbolic-ref", "HEAD", "refs/heads/base")
    return f"git, the tag {base.git.tag}"


def _check_reachable(url: str, tag: str) -> None:
    """Asks for the tag, so that an address that does not answer costs seconds."""
    try:
        result = shell.run(
            [
                "timeout",
                str(NO_ANSWER),
                "git",
                "ls-remote",
                "--exit-code",
                url,
                f"refs/tags/{tag}",
            ],
            env={"GIT_TERMINAL_PROMPT": "0"},
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"there is no '{error.filename}'") from None
    if result.code == 124:
        raise Unavailable(f"no answer within {NO_ANSWER} s")
    if result.code:
        raise Unavailable((result.complaint.splitlines() or [f"there is no tag {tag}"])[-1])


def pristine_commit(layout: Layout, base: Base, into: Repository) -> CommitId | None:
    """The release's own commit, with its objects, in another repository.

    The merge base of a three-way merge; None if the release is not available.
    """
    folder = layout.checkout(base.name)
    try:
        if not (folder / ".git").exists():
            _fetch(layout, base, folder)
    except ToolError as error:
        log.info("no common ground for a merge: %s", error.why)
        return None
    commit = Repository(folder).commit_id("refs/heads/base")
    if commit is not None and into.commit_id(commit) is None:
        into.run("fetch", "--quiet", "--no-tags", str(folder), "refs/heads/base")
    return commit
