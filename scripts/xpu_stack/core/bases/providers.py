"""Where a base comes from: a person's fork, the source package, a git tag or commit.

The base of an installed package is an empty tree, see base.py.

What is fetched is prepared beside its final place and then renamed, so that it is
never there in part. For source packages apt is asked with a configuration of its own:
the machine's own archives, with `deb-src` in place of `deb`, and lists in a folder of
the tool. A package of another release of the distribution is asked for in the same
archives by the name of its suite.
"""

import hashlib
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.series.base import Base, SourcePackage
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress, say
from xpu_stack.core.system.errors import MissingError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Repository, TreeId
from xpu_stack.core.system.layout import Layout, settings
from xpu_stack.core.system.yaml_file import Node

NO_ANSWER = 10  # seconds without an answer, then the next provider is tried
_PACKAGE = "source-package:"
IMPORTED = 1_671_062_400  # 2022-12-15: the commit of a base is the same on every machine


class Unavailable(Exception):
    """This provider is not available here."""


def checkout(layout: Layout, base: Base, given: str | None) -> Repository:
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
    repository = Repository(layout.checkout(base.name))
    if not given:
        if not (repository.folder / ".git").exists():
            _fetch(layout, base, repository.folder)
        return repository
    folder = Path(given).expanduser().absolute()
    repository = Repository(folder)
    if not (folder / settings().marker).is_file():
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
    return repository


def _fetch(layout: Layout, base: Base, folder: Path) -> None:
    reasons, title = [], f"{settings().project} {base.name}"
    ways: dict[str, Callable[[Path], str]] = {}
    if base.package:
        ways["an empty tree"] = partial(_from_nothing, base)
    elif package := base.source_package:
        ways["the distribution's source package"] = partial(unpack, layout, package, title)
    if not base.package:
        ways[f"git, {base.git}"] = partial(_from_git, base)
    for name, provide in ways.items():
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


def _from_git(base: Base, folder: Path) -> str:
    repository = Repository(folder)
    repository.run("init", "--quiet", "--template=", "--initial-branch=base")
    with progress(None, f"fetching {base.git} of {base.git.url}"):
        fetched = _fetch_base(repository, base)
        repository.run("reset", "--quiet", "--hard", fetched)
        words = ["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1", "--jobs=4"]
        try:
            _run(["git", "-C", str(folder), *words])
        except Unavailable as error:
            if base.git.tag:
                raise
            say(f"its submodules, which a build needs, could not be fetched: {error}")
    return f"git, {base.git}" + ("" if base.git.tag else f" of {base.git.url}")


def _fetch_base(repository: Repository, base: Base) -> str:
    """Has the base's tag or commit in the tool's own repository; the ref that is it."""
    url, ref = base.git.url, f"refs/{settings().name}/base"
    tag = base.git.tag and f"refs/tags/{base.git.tag}"
    if tag:
        url = os.environ.get(f"{settings().project.upper()}_GIT") or url
    repository.run("config", "remote.origin.url", url)
    # An address that does not answer costs seconds.
    asked = ("ls-remote", "--exit-code", "--", url, tag or "HEAD")
    _run(["timeout", str(NO_ANSWER), "git", *asked], f"there is no {tag or 'HEAD'}")
    # A folder has it all at hand; from elsewhere the history is not needed.
    depth = [] if Path(url).is_dir() else ["--depth=1"]
    words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *depth, "--", url]
    _run(["git", "-C", str(repository.folder), *words, f"+{tag or base.git.commit}:{ref}"])
    return ref


def _run(command: list[str], without_words: str = "git failed") -> None:
    """without_words: why, where the program does not say it."""
    try:
        result = shell.run(command, env={"GIT_TERMINAL_PROMPT": "0"}, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no '{error.filename}'") from None
    if result.code == 124:  # of timeout
        raise Unavailable(f"no answer within {NO_ANSWER} s")
    if result.code:
        raise Unavailable((result.complaint.splitlines() or [without_words])[-1])


def release(layout: Layout, base: Base, into: Repository) -> CommitId:
    """The base's own commit, with its objects, in a repository."""
    if base.git.commit and (there := into.commit_id(base.git.commit)):
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
            _fetch_base(own, base)
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


# -- what a rebase goes onto --------------------------------------------------------


def resolve(layout: Layout, repository: Repository, onto: str) -> CommitId:
    """The commit that ONTO= names, which is in `repository` then.

    A ref or commit of the checkout; the path of another checkout, or of a source tree
    without a repository; or source-package:<version>, a release of patches/drift.yaml.
    Where a stack of the series is there, its base is meant.
    """
    path, commit = Path(onto).expanduser(), repository.commit_id(onto)
    if onto.startswith(_PACKAGE):
        commit = _of_package(layout, repository, onto.removeprefix(_PACKAGE))
    elif commit is None and path.is_dir():  # a ref wins; the path of the same name is ./name
        commit = _of_folder(repository, path.absolute())
    if commit is None:
        raise UsageError(
            f"ONTO={onto} is neither a commit of the checkout nor a folder.",
            why=f"{repository.folder} has no ref or commit of that name",
            next=commands.git(repository.folder, "branch", "--all"),
        )
    return stack.read(repository, commit).base


def _of_folder(repository: Repository, folder: Path) -> CommitId:
    if not (folder / settings().marker).is_file():
        raise UsageError(
            f"ONTO={folder} is not a {settings().project} source tree.",
            why=f"it has no {settings().marker}",
            next=commands.make("rebase", ONTO=f"<ref, or path of a {settings().project} checkout>"),
        )
    other = Repository(folder)
    if other.is_repository():
        return _fetched(repository, folder, "HEAD")
    # not a repository: the same files give the same commit
    with progress(None, f"taking the files of {folder.name} in"):
        tree = repository.tree_of_folder(folder)
    return repository.commit_tree(tree, [], "A tree without history\n", when=IMPORTED)


def _fetched(repository: Repository, folder: Path, ref: str) -> CommitId:
    commit = Repository(folder).commit_id(ref)
    if commit is None:
        raise ToolError(
            f"{folder} has no commit.",
            why="the series is put on a commit",
            next=f"{commands.git(folder, 'add', '-A')} && "
            f"{commands.git(folder, 'commit', '-m', 'base')}",
        )
    if repository.commit_id(commit) is None:
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        repository.run(*words, "--", str(folder), ref)
    # where the base can be fetched again, see core.edit.sources
    repository.run("config", f"{settings().name}.{commit}.url", str(folder), check=False)
    return commit


def _of_package(layout: Layout, repository: Repository, version: str) -> CommitId:
    packages = source_packages(layout)
    if version not in packages:
        known = ", ".join(packages) or "none"
        raise UsageError(
            f"There is no source package '{version}'.",
            why=f"patches/drift.yaml has: {known}",
            next="add it there, with suite, tarball and sha256",
        )
    folder = layout.state / "drift" / version
    if not (folder / ".git" / "refs" / "heads" / "base").exists():
        try:
            with files.folder(folder) as draft:
                unpack(layout, packages[version], f"{settings().project} v{version}", draft)
        except Unavailable as error:
            raise MissingError(
                f"The source package of {version} is not available here.",
                why=str(error),
                next=commands.make("rebase", ONTO="<path of a checkout of that release>"),
            ) from None
    return _fetched(repository, folder, "refs/heads/base")


def source_packages(layout: Layout) -> dict[str, SourcePackage]:
    """Of the releases that drift.yaml lists."""
    node = Node.load(layout.patches / "drift.yaml", "patches/drift.yaml")
    node.fields({"source_packages"})
    listed = node["source_packages"]
    return {version: SourcePackage.read(listed[version]) for version in listed.value}


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
    commit = repository.commit_tree(tree, [], message, when=IMPORTED)
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
    sources = _sources(package.suite)
    if not any(sources.values()):
        raise Unavailable("the machine's apt sources name no archive of the distribution")
    for kind, told in sources.items():
        (folder / f"deb-src{kind}").write_text("\n\n".join(sorted(told)) + "\n")
    options = {
        "Dir::Etc::sourcelist": "-",
        "Dir::Etc::sourceparts": folder,
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


def _sources(suite: str | None) -> dict[str, set[str]]:
    """The machine's own archives of its distribution, for source packages.

    They are lines of a .list, and paragraphs of a .sources. suite: another release's, in the
    same archives.
    """
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    etc, found = Path("/etc/apt"), {".list": set[str](), ".sources": set[str]()}
    for path in [etc / "sources.list", *(etc / "sources.list.d").glob("*")]:
        if path.suffix not in found or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        for one in re.split(r"\n" if path.suffix == ".list" else r"\n\s*\n", text):
            listed = re.search(rf"^(?:deb(?:-src)? |Suites:).* {codename}.*", one, re.M)
            suites = re.findall(rf" ({codename}\S*)", listed[0]) if listed else []
            # updates and security have folders of their own; the release has all
            if not suites or (suite and codename not in suites):
                continue
            wanted = rf"\1\2 {suite or ' '.join(suites)}"
            told = re.sub(rf"^(Suites:).*|^(deb.*?) {codename}\S*", wanted, one, flags=re.M)
            told = re.sub(r"^Types:.*", "Types: deb-src", told, flags=re.M)
            found[path.suffix].add(re.sub(r"^deb(-src)? ", "deb-src ", told))
    return found
