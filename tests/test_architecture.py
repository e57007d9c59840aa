"""The tool's packages import what their docstrings allow, and no cycle is among the modules."""

import ast
import graphlib
import re
from pathlib import Path

from project import ROOT

TOOL = ROOT / "scripts" / "xpu_stack"


def name_of(path: Path) -> str:
    """core/system/git.py -> core.system.git; a package is named by its folder."""
    return ".".join(path.relative_to(TOOL).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {name_of(path): path for path in sorted(TOOL.rglob("*.py"))}
PACKAGES = [
    name for name, path in SOURCES.items() if path.name == "__init__.py" and path.parent != TOOL
]


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse(SOURCES[name].read_text())) or ""


def allowed(package: str) -> str | None:
    """What the docstring lets a package import; None: it has no modules of its own."""
    found = re.search(r"^May import: (.+)\.$", docstring(package), re.M)
    return found[1] if found else None


def imported(name: str) -> set[str]:
    """The modules of the tool that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(SOURCES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xpu_stack"):
            base = str(node.module).removeprefix("xpu_stack").removeprefix(".")
            names = [f"{base}.{one.name}".removeprefix(".") for one in node.names]
            found |= {one if one in SOURCES else base for one in names}
    return found - {name}


def package_of(name: str) -> str:
    return name if name in PACKAGES else name.rpartition(".")[0]


def within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def test_packages_import_what_their_docstrings_allow() -> None:
    for name in SOURCES:
        package = package_of(name)
        may = allowed(package) if package else "everything"
        if may == "everything":
            continue
        assert may is not None or name == package == "core", (
            f"{package} does not say what it may import"
        )
        names = [package, *re.findall(r"[\w.]+", may or "")]
        for other in imported(name):
            assert any(within(other, one) for one in names), f"{name} imports {other}"


def test_no_module_imports_itself_through_others() -> None:
    graphlib.TopologicalSorter({name: imported(name) for name in SOURCES}).prepare()


def test_every_module_says_what_is_in_it() -> None:
    assert [name for name in SOURCES if not docstring(name)] == []


def test_the_page_has_every_package() -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \| (.+) \| (.+) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.M
    )
    wanted = [
        (one, docstring(one).splitlines()[0], allowed(one)) for one in PACKAGES if allowed(one)
    ]
    assert sorted(rows) == sorted(wanted)


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in SOURCES.items()}
    assert [one for one in lengths if lengths[one] > 400] == []
