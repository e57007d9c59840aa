"""Source packages of the distribution: fetched, verified, made a commit.

apt is asked with a configuration of its own: the machine's own archives, with
`deb-src` in place of `deb`, and lists in a folder of the tool. A package of
another release of the distribution is asked for in the same archives by the
name of its suite.
"""

import hashlib
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from xpu_stack.core.series.base import SourcePackage
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.git import CommitId, Identity, Repository, TreeId
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings

NO_ANSWER = 10  # seconds without an answer, then the next provider is tried
# The import of a source package is the same commit on every machine.


class Unavailable(Exception):
    """This provider is not available here."""


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
    commit = repository.commit_tree(tree, [], message, importer())
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


def importer() -> Identity:
    """Of the commit of a base: fixed, so that the same files give the same commit."""
    return Identity(settings().name, settings().email, 1_671_062_400)  # 2022-12-15
