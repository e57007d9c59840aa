"""A base: the project's release, or the fork of one, that a checkout starts from.

Note [What a base shares]
~~~~~~~~~~~~~~~~~~~~~~~~~
Everything that is true of one base only is in patches/<base>/. Most bases are
like another one: a fork of a release, say. Such a base has `like: <base>` in its
base.yaml, and only what differs from that base in its folder:

- settings in base.yaml, each in place of the other base's;
- <stage>/<change>.patch, where the other base's patch does not give the same;
  an empty one where the change edits nothing here;
- payload/<payload folder>/..., variants of payload files, or files of its own;
- in base.yaml `without`, the changes, payload files and folders that are not for
  it, and `moved`, payload files that have another path in its tree, also out of
  such a folder.

The base that another is like is like none itself.

A change of which all files are of other bases is left out.

Note [An installed package as a base]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A base whose base.yaml has `package` is not a source tree. It is an installed
package, such as a stock wheel, against which the payload is compiled. Its base
commit has an empty tree, so the checkout holds the payload alone. It takes no
patches from the base that it is like, as these edit the project's own files, so
that a change which has only a patch there is left out, too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import UsageError
from xpu_stack.core.system.layout import Layout, settings
from xpu_stack.core.system.yaml_file import Node

_OWN = {"name", "version", "source_package", "git", "package"}
_SOURCES = {"source_package", "git", "package"}  # where it comes from: never another base's


@dataclass(frozen=True)
class SourcePackage:
    """The distribution's source package of a release."""

    name: str
    tarball: str
    sha256: str
    suite: str | None = None  # of the distribution; None: the machine's own

    @classmethod
    def read(cls, node: Node) -> "SourcePackage":
        read = node.into(cls)
        check_sha256(node)
        return read


@dataclass(frozen=True)
class GitSource:
    """A tag or a commit of a repository."""

    url: str
    tag: str = ""
    commit: str = ""

    def __str__(self) -> str:
        return f"the tag {self.tag}" if self.tag else f"the commit {self.commit[:12]}"

    @classmethod
    def read(cls, node: Node) -> "GitSource":
        kind = "commit" if "commit" in node else "tag"
        node.fields({"url", kind})
        if kind == "commit" and not re.fullmatch("[0-9a-f]{40}", node[kind].text()):
            raise node[kind].error("'commit' must be 40 hexadecimal digits")
        return cls(node["url"].text(), **{kind: node[kind].text()})


def check_sha256(node: Node) -> None:
    """Refuses a 'sha256' that cannot be one."""
    if not re.fullmatch(r"[0-9a-f]{64}", node["sha256"].text()):
        raise node["sha256"].error("'sha256' must be 64 hexadecimal digits")


@dataclass(frozen=True)
class Differences:
    """What a base has in place of what is shared, see Note [What a base shares]."""

    like: str = ""  # "": the base is described in full
    without: frozenset[str] = frozenset()
    moved: Mapping[str, str] = field(default_factory=dict)  # payload file -> its path in the tree
    of_package: bool = False  # Note [An installed package as a base]

    @property
    def patches_of(self) -> str:
        """The base whose patches count where it has none of its own; "": none."""
        return "" if self.of_package else self.like

    @property
    def without_changes(self) -> frozenset[str]:
        folders = settings().payload.keys()
        pairs = (one for one in self.without if one.count("/") == 1)
        return frozenset(one for one in pairs if one.partition("/")[0] not in folders)

    def takes(self, payload_file: str) -> bool:
        """Whether the shared file is for this base; one that is moved is."""
        left = any(is_below(payload_file, one) for one in self.without)
        return payload_file in self.moved or not left

    @classmethod
    def load(cls, layout: Layout, name: str) -> "Differences":
        if name not in base_names(layout):
            return cls()
        node = _node(layout, name)
        return cls(
            node["like"].text() if "like" in node else "",
            frozenset(node["without"].into(tuple[str, ...]) if "without" in node else ()),
            node["moved"].into(dict[str, str]) if "moved" in node else {},
            "package" in node,
        )


def is_below(name: str, folder: str) -> bool:
    """Whether a path is the other one, or below it."""
    return f"{name}/".startswith(f"{folder}/")


def base_names(layout: Layout) -> list[str]:
    """The bases there are."""
    return sorted(path.parent.name for path in layout.patches.glob("*/base.yaml"))


def commits(layout: Layout) -> dict[str, str]:
    """The bases that are a commit of a person's repository: name -> commit."""
    nodes = {name: _node(layout, name) for name in base_names(layout)}
    found = {name: GitSource.read(node["git"]) for name, node in nodes.items() if "git" in node}
    return {name: git.commit for name, git in found.items() if git.commit}


def _node(layout: Layout, name: str) -> Node:
    return Node.load(layout.patches / name / "base.yaml", f"patches/{name}/base.yaml")


@dataclass(frozen=True)
class Base:
    """One base, as patches/<base>/base.yaml has it."""

    name: str
    version: str
    folders: tuple[Path, ...]  # its own, and that of the base that it is like
    source_package: SourcePackage | None
    git: GitSource
    package: Node | None  # None: it is a source tree
    settings: Mapping[str, Node]  # the others, which the core hands on
    differences: Differences = Differences()

    @classmethod
    def load(cls, layout: Layout, name: str) -> "Base":
        there = base_names(layout)
        if name not in there:
            raise UsageError(
                f"There is no base '{name}'.",
                why=f"the bases there are: {', '.join(there)}",
                next=commands.make("apply", BASE=there[0])
                if there
                else f"write patches/{name}/base.yaml",
            )
        node = _node(layout, name)
        nodes, known = {name: node}, _OWN | {*settings().base}
        if "like" in node:
            source = "package" if "package" in node else "git"
            node.fields({"name", "like", source}, known - {"git", "package"} | {"without", "moved"})
            like = node["like"].text()
            if like not in there or "like" in (other := _node(layout, like)):
                raise node["like"].error(f"'{like}' is not a base that is described in full")
            nodes[like] = other
            known -= {one for one in _SOURCES if one not in node}
        else:
            known -= {"package"}
            node.fields(known)
        found = {one: next(of[one] for of in nodes.values() if one in of) for one in known}
        package = found.get("source_package")
        return cls(
            name=name,
            version=found["version"].text(),
            folders=tuple(layout.patches / one for one in nodes),
            source_package=SourcePackage.read(package) if package else None,
            git=GitSource.read(found["git"]) if "git" in found else GitSource(""),
            package=found.get("package"),
            settings={one: found[one] for one in settings().base},
            differences=Differences.load(layout, name),
        )

    def file(self, name: str) -> Path:
        """A file or folder of the base, or of the one that it is like."""
        there = (one / name for one in self.folders if (one / name).exists())
        return next(there, self.folders[0] / name)
