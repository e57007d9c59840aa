"""What a wheel says of itself: torch.version, metadata, licences."""

import json
import re
import shutil
import sys
from pathlib import Path

from xpu_stack import shell
from xpu_stack.build import Mode
from xpu_stack.console import log, progress, say
from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.wheel import carry
from xpu_stack.wheel.identity import Identity

FACTS = "xpu_stack.json"  # in the wheel's dist-info


def finish(wheel: Path, identity: Identity, into: Path) -> Path:
    """Unpacks a wheel, completes it and packs it again."""
    folder = into / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    _wheel("unpack", "--dest", folder, wheel)
    (site,) = folder.iterdir()
    (info,) = site.glob("*.dist-info")
    if identity.mode is Mode.FAST:
        carry.load_runtime_first(site)
    log.info("find the SYCL runtime: %s", carry.find_runtime(site))
    _write_version(site / "torch" / "version.py", identity)
    _write_metadata(info, identity)
    _write_licences(site, info)
    with progress(None, "packing the wheel"):
        _wheel("pack", "--dest-dir", into, site)
    shutil.rmtree(folder)
    (made,) = into.glob("*.whl")
    return made


def _wheel(*words: str | Path) -> None:
    result = shell.run([sys.executable, "-m", "wheel", *words], check=False)
    if result.code:
        raise ToolError(
            "The wheel could not be packed.",
            why=(result.complaint.splitlines() or ["wheel gave no reason"])[-1],
            next="df -h # is the disk full?",
            code=ExitCode.BUILD,
            detail=result.complaint,
        )


def _write_version(path: Path, identity: Identity) -> None:
    """PyTorch's version.py, with what the build was made from."""
    lines = [f"{name} = {value!r}\n" for name, value in identity.facts.items()]
    names = ", ".join(repr(name) for name in identity.facts)
    text = path.read_text()
    # PyTorch's file was written when the libraries were built, maybe for an earlier version.
    text = re.sub(r"^__version__ = .*$", f"__version__ = {identity.version!r}", text, flags=re.M)
    exported = f"__all__ += [{names}]\n" if "__all__" in text else ""
    path.write_text(f"{text}{''.join(lines)}{exported}")


def _write_metadata(info: Path, identity: Identity) -> None:
    path = info / "METADATA"
    head, body = path.read_text(encoding="utf-8").split("\n\n", 1)
    summary = f"Summary: PyTorch {identity.release} with an XPU (SYCL) runtime"
    head = re.sub(r"^Summary: .*$", summary, head, flags=re.M)
    told = "".join(f"* {name}: {value}\n" for name, value in identity.facts.items())
    path.write_text(f"{head}\n\nThis build was made from:\n\n{told}\n{body}", encoding="utf-8")
    (info / FACTS).write_text(json.dumps(identity.facts, indent=1) + "\n")


def _write_licences(site: Path, info: Path) -> None:
    """The project's own licence terms are PyTorch's; each carried library brings its own."""
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    without = []
    for library in sorted((site / "torch.libs").glob("*.so*")):
        source = _copyright(carry.own_name(library))
        if source is None:
            without.append(library.name)
        else:
            shutil.copyfile(source, folder / f"{source.parent.name}.txt")
    if without:
        raise ToolError(
            f"{len(without)} carried libraries have no licence file.",
            why=f"no package of the distribution owns {', '.join(without)}",
            next="make doctor # which libraries the build found",
            code=ExitCode.BUILD,
        )
    count = len(list(folder.iterdir()))
    if count:
        say(f"the carried libraries are of {count} packages, whose licences are in the wheel")


def _copyright(name: str) -> Path | None:
    """The licence file of the package that has a library of this name."""
    asked = shell.run(["dpkg-query", "--search", f"*/{name}*"], check=False).text
    for line in asked.splitlines():
        for package in line.split(": ")[0].split(", "):
            found = Path("/usr/share/doc") / package.split(":")[0] / "copyright"
            if found.exists():
                return found
    return None
