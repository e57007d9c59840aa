"""What ONTO= names: the commit that a rebase puts the series on.

A ref or commit of the checkout; the path of another checkout, or of a source
tree without a repository; or source-package:<version>, a release of
patches/drift.yaml. What is elsewhere is brought into the checkout's object
database. Where a stack of the series is there, its base is meant.
"""

from pathlib import Path

from xpu_stack.core.bases.providers import IMPORTED, Unavailable, unpack
from xpu_stack.core.move import stack
from xpu_stack.core.series.base import SourcePackage
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import MissingError, ToolError, UsageError
from xpu_stack.core.system.git import CommitId, Identity, Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings
from xpu_stack.core.system.yaml_file import Node

_PACKAGE = "source-package:"


def resolve(layout: Layout, repository: Repository, onto: str) -> CommitId:
    """The commit, which is in `repository` then."""
    if onto.startswith(_PACKAGE):
        commit = _of_package(layout, repository, onto.removeprefix(_PACKAGE))
    else:
        path = Path(onto).expanduser()
        found = repository.commit_id(onto)
        # A ref wins; the path of the same name is ./name
        if found is None and path.is_dir():
            found = _of_folder(repository, path.absolute())
        if found is None:
            raise UsageError(
                f"ONTO={onto} is neither a commit of the checkout nor a folder.",
                why=f"{repository.folder} has no ref or commit of that name",
                next=commands.git(repository.folder, "branch", "--all"),
            )
        commit = found
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
    with progress(None, f"taking the files of {folder.name} in"), repository.index() as index:
        index.take_in(folder)
        tree, who = index.write(), Identity.tool(IMPORTED)
        return repository.commit_tree(tree, [], "A tree without history\n", who)


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
    # where the base can be fetched again, see export_base.py
    repository.run("config", f"{settings().name}.{commit}.url", str(folder), check=False)
    return commit


def _of_package(layout: Layout, repository: Repository, version: str) -> CommitId:
    package = source_packages(layout).get(version)
    if package is None:
        known = ", ".join(source_packages(layout)) or "none"
        raise UsageError(
            f"There is no source package '{version}'.",
            why=f"patches/drift.yaml has: {known}",
            next="add it there, with suite, tarball and sha256",
        )
    folder = layout.state / "drift" / version
    if not (folder / ".git" / "refs" / "heads" / "base").exists():
        try:
            with files.folder(folder) as draft:
                unpack(layout, package, f"{settings().project} v{version}", draft)
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
