"""Where a base comes from: a person's fork, the source package, a git tag or commit.

The base of an installed package is an empty tree, see base.py.

What is fetched is prepared beside its final place and then renamed, so that it is
never there in part. For source packages apt is asked with a configuration of its own:
the machine's own archives, with `deb-src` in place of `deb`, and lists in a folder of
the tool. A package of another release of the distribution is asked for in the same
archives by the name of its suite.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from xpu_stack.core.move.workspace import Checkout
from xpu_stack.core.series.base import Base, SourcePackage
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import MissingError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Identity, Repository, TreeId
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings

NO_ANSWER = 10  # seconds without an answer, then the next provider is tried
IMPORTED = 1_671_062_400  # 2022-12-15: the commit of a base is the same on every machine


class Unavailable(Exception):
    """This provider is not available here."""


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
    ways: list[tuple[str, Callable[[Path], str]]] = []
    if package := base.source_package:
        title = f"{settings().project} {base.name}"
        unpacked = functools.partial(unpack, layout, package, title)
        ways.append(("the distribution's source package", unpacked))
    cloned = functools.partial(_from_commit if base.git.commit else _from_tag, base)
    ways.append((f"git, {base.git}", cloned))
    if base.package:
        ways = [("an empty tree", functools.partial(_from_nothing, base))]
    for name, provide in ways:
        try:
            with files.folder(folder) as draft:
                provider = provide(draft)
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
    return MissingError(
        f"The base {base.name} is not available here.",
        why=why,
        next=commands.make("apply", **{settings().source: "<your own checkout>"}),
    )


def _from_nothing(base: Base, folder: Path) -> str:
    commit_all(folder, f"{base.name}: an installed package, so an empty tree\n")
    return "an empty tree, for an installed package"


def _from_tag(base: Base, folder: Path) -> str:
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


def _from_commit(base: Base, folder: Path) -> str:
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


# -- the distribution's source packages ----------------------------------------------


def unpack(layout: Layout, package: SourcePackage, title: str, folder: Path) -> str:
    """Makes `folder` a repository whose branch `base` is the package's content.

    Returns what was used, in words. Raises Unavailable.
    """
    source = tarball(layout, package)
    with progress(None, f"unpacking {source.name}"):
        unpacked = folder.with_name(folder.name + ".unpacked")
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(source) as archive:
            # Debian 12's Python has no filters yet
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            try:
                archive.extractall(unpacked, members=_as_own(archive))  # noqa: S202
            except tarfile.TarError as error:
                shutil.rmtree(unpacked)
                raise Unavailable(f"{source.name}: {error}") from None
        (top,) = unpacked.iterdir()
        top.rename(folder)
        unpacked.rmdir()
    used = f"source package {source.name}, sha256 {package.sha256}"
    with progress(None, "making the base commit"):
        commit_all(folder, f"{title}\n\nThe content of {used}.\n")
    return used


def _as_own(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members with the person who unpacks as their owner, as the "data" filter has them."""
    for member in archive:
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        yield member


def commit_all(folder: Path, message: str) -> CommitId:
    """Makes a folder a repository whose branch `base` is what is in it, without history."""
    repository = Repository(folder)
    repository.run("init", "--quiet", "--template=", "--initial-branch=base")
    repository.run("add", "--all", "--force", ".")
    tree = TreeId(repository.line("write-tree"))
    commit = repository.commit_tree(tree, [], message, Identity.tool(IMPORTED))
    repository.run("update-ref", "-m", "import", "refs/heads/base", commit)
    return commit


def tarball(layout: Layout, package: SourcePackage) -> Path:
    """The package's tarball, verified."""
    target = layout.downloads / package.tarball
    if not target.exists():
        with progress(None, f"fetching {package.tarball}"):
            _download(layout, package, target)
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != package.sha256:
        target.unlink()
        raise Unavailable(f"{target.name} has sha256 {found}, not {package.sha256}")
    return target


def _download(layout: Layout, package: SourcePackage, target: Path) -> None:
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get")
    folder = layout.downloads / "apt"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "files"):
        (folder / name).mkdir(parents=True)
    sources = _deb_src_lines(package.suite)
    if not sources:
        raise Unavailable("the machine's apt sources name no archive of the distribution")
    (folder / "deb-src.list").write_text("\n".join(sources) + "\n")
    options = {
        "Dir::Etc::sourcelist": folder / "deb-src.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::http::Timeout": NO_ANSWER,
        "Acquire::https::Timeout": NO_ANSWER,
        "Acquire::Retries": 0,
        "APT::Sandbox::User": "",  # as root, apt's own user could not write here
    }
    apt = ["apt-get", "-q", *[f"-o{key}={value}" for key, value in options.items()]]
    shell.run([*apt, "update"], check=False)
    # Only the tarball: it is verified by its own checksum.
    fetch = [*apt, "source", "--download-only", "--tar-only", "--", package.name]
    result = shell.run(fetch, cwd=folder / "files", check=False)
    found = folder / "files" / target.name
    if not found.exists():
        last = result.complaint.splitlines()[-1:] or ["apt-get found nothing"]
        raise Unavailable(f"{last[0]} (wanted {target.name})")
    found.rename(target)
    shutil.rmtree(folder)


def _deb_src_lines(suite: str | None) -> list[str]:
    """The machine's own archives of its distribution, as lines for source packages.

    suite: another release's, in the same archives.
    """
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    etc = Path("/etc/apt")
    lines: list[str] = []
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        text = path.read_text(errors="replace") if path.is_file() else ""
        if path.suffix == ".list":
            lines += [
                re.sub(r"^deb(-src)? ", "deb-src ", line)
                for line in text.splitlines()
                if re.match(r"^deb(-src)? ", line) and f" {codename}" in line
            ]
        elif path.suffix == ".sources":
            lines += _lines_of_stanzas(text, codename)
    if suite is not None:
        # updates and security have folders of their own; the release has all
        whole = re.compile(rf" {re.escape(codename)} ")
        lines = [whole.sub(f" {suite} ", line) for line in lines if whole.search(line)]
    return sorted(set(lines))


def _lines_of_stanzas(text: str, codename: str) -> list[str]:
    lines = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        suites = [suite for suite in fields.get("Suites", "").split() if suite.startswith(codename)]
        key = fields.get("Signed-By", "")
        option = f"[signed-by={key}] " if key else ""
        lines += [
            f"deb-src {option}{uri} {suite} {fields.get('Components', '')}".rstrip()
            for uri in fields.get("URIs", "").split()
            for suite in suites
        ]
    return lines
