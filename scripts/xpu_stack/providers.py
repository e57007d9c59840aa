"""Where a base comes from: a person's fork, the source package, the git tag.

What is fetched is put together beside its place and renamed into it, so that
what is there is whole.
"""

import hashlib
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xpu_stack import shell
from xpu_stack.base import Base
from xpu_stack.console import log, progress, say
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.git import CommitId, Identity, Repository, TreeId
from xpu_stack.layout import Layout

# The import of a source package is the same commit on every machine.
_IMPORTER = Identity("xpu-stack", "xpu-stack@invalid", 1_671_062_400)  # 2022-12-15
_NO_ANSWER = 10  # seconds without an answer, then the next provider is tried


@dataclass(frozen=True)
class Checkout:
    """A PyTorch checkout, and what provided its base."""

    repository: Repository
    provider: str
    own: bool  # the tool's, not a person's


class Unavailable(Exception):
    """This provider cannot be had here."""


def checkout(layout: Layout, base: Base, given: str | None) -> Checkout:
    """The checkout to work on; it is fetched when there is none.

    given: PYTORCH_SRC, a person's own checkout, which is used in place.
    """
    if given:
        return _given(Path(given).expanduser().absolute())
    folder = layout.checkout(base.name)
    if not (folder / ".git").exists():
        _fetch(layout, base, folder)
    repository = Repository(folder)
    provider = repository.ask("config", "xpu-stack.provider") or "unknown"
    return Checkout(repository, provider, own=True)


def _given(folder: Path) -> Checkout:
    repository = Repository(folder)
    if not folder.is_dir() or not (folder / "c10" / "CMakeLists.txt").is_file():
        raise ToolError(
            f"PYTORCH_SRC={folder} is no PyTorch source tree.",
            why="it has no c10/CMakeLists.txt" if folder.is_dir() else "there is no such folder",
            next="make apply PYTORCH_SRC=<path> # or without PYTORCH_SRC, to fetch the release",
            code=ExitCode.USAGE,
        )
    if not repository.is_repository():
        raise ToolError(
            f"PYTORCH_SRC={folder} is not a git repository of its own.",
            why="each change becomes a commit on its base commit",
            next=f"cd {folder} && git init && git add -A -f && git commit -m base",
            code=ExitCode.USAGE,
        )
    return Checkout(repository, f"PYTORCH_SRC={folder}", own=False)


def _fetch(layout: Layout, base: Base, folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    reasons = []
    for name, provide in (
        ("the distribution's source package", _from_source_package),
        (f"git, the tag {base.git.tag}", _from_git),
    ):
        try:
            provider = provide(layout, base, partial)
        except Unavailable as error:
            log.info("%s: %s", name, error)
            reasons.append(f"{name}: {error}")
            shutil.rmtree(partial, ignore_errors=True)
            continue
        Repository(partial).run("config", "xpu-stack.provider", provider)
        partial.rename(folder)
        head = Repository(folder).commit_id("HEAD")
        say(f"base {base.name} from {provider}: commit {head}")
        return
    raise ToolError(
        f"The base {base.name} cannot be had here.",
        why="; ".join(reasons),
        next="make apply PYTORCH_SRC=<your checkout of PyTorch>",
        code=ExitCode.MISSING,
    )


# -- the source package ---------------------------------------------------------


def source_tarball(layout: Layout, base: Base) -> Path:
    """The source package's tarball, verified. Raises Unavailable."""
    target = layout.downloads / base.source_package.tarball
    if not target.exists():
        with progress(None, f"fetching {base.source_package.tarball}"):
            _download_source_package(layout, base, target)
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != base.source_package.sha256:
        target.unlink()
        raise Unavailable(f"{target.name} has sha256 {found}, not {base.source_package.sha256}")
    return target


def _download_source_package(layout: Layout, base: Base, target: Path) -> None:
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get")
    folder = layout.downloads / "apt"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "files"):
        (folder / name).mkdir(parents=True)
    sources = _deb_src_lines()
    if not sources:
        raise Unavailable("the machine's apt sources name no archive of the distribution")
    (folder / "deb-src.list").write_text("\n".join(sources) + "\n")
    options = {
        "Dir::Etc::sourcelist": folder / "deb-src.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::http::Timeout": _NO_ANSWER,
        "Acquire::https::Timeout": _NO_ANSWER,
        "Acquire::Retries": 0,
        "APT::Sandbox::User": "",  # as root, apt's own user could not write here
    }
    apt = ["apt-get", "-q", *[f"-o{key}={value}" for key, value in options.items()]]
    shell.run([*apt, "update"], check=False)
    # Only the tarball: it is verified by its own checksum.
    fetch = [*apt, "source", "--download-only", "--tar-only", base.source_package.name]
    result = shell.run(fetch, cwd=folder / "files", check=False)
    found = folder / "files" / target.name
    if not found.exists():
        last = result.complaint.splitlines()[-1:] or ["apt-get found nothing"]
        raise Unavailable(f"{last[0]} (wanted {target.name})")
    found.rename(target)
    shutil.rmtree(folder)


def _deb_src_lines() -> list[str]:
    """The machine's own archives of its distribution, as lines for source packages."""
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


def _from_source_package(layout: Layout, base: Base, folder: Path) -> str:
    layout.downloads.mkdir(parents=True, exist_ok=True)
    tarball = source_tarball(layout, base)
    with progress(None, f"unpacking {tarball.name}"):
        unpacked = folder.with_name(folder.name + ".unpacked")
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(tarball) as archive:
            archive.extractall(unpacked, members=_as_own(archive))  # noqa: S202
        (top,) = unpacked.iterdir()
        top.rename(folder)
        unpacked.rmdir()
    package = f"source package {tarball.name}, sha256 {base.source_package.sha256}"
    with progress(None, "making the base commit"):
        _commit_all(folder, f"PyTorch {base.name}\n\nThe content of {package}.\n")
    return package


def _as_own(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members with the person who unpacks as their owner.

    That is what tarfile's "data" filter does, which Debian 12's Python has not
    yet; what else it guards against, the checksum does.
    """
    for member in archive:
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        yield member


def _commit_all(folder: Path, message: str) -> CommitId:
    repository = Repository(folder)
    repository.run("init", "--quiet", "--template=", "--initial-branch=base")
    repository.run("add", "--all", "--force", ".")
    tree = TreeId(repository.line("write-tree"))
    commit = repository.commit_tree(tree, [], message, _IMPORTER)
    repository.run("update-ref", "-m", "import", "refs/heads/base", commit)
    return commit


# -- git --------------------------------------------------------------------------


def _from_git(_: Layout, base: Base, folder: Path) -> str:
    url = os.environ.get("PYTORCH_GIT") or base.git.url
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
                str(_NO_ANSWER),
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
        raise Unavailable(f"no answer within {_NO_ANSWER} s")
    if result.code:
        raise Unavailable((result.complaint.splitlines() or [f"there is no tag {tag}"])[-1])


def pristine_commit(layout: Layout, base: Base, into: Repository) -> CommitId | None:
    """The release's own commit, with its objects, in another repository.

    The common ground of a three-way merge; None where the release cannot be had.
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
