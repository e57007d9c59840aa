"""What else of the series goes with its changes when it is reshaped.

The files of bases that are like another one, resolutions, and pull requests.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from xpu_stack.core.bases.own_files import OwnFiles
from xpu_stack.core.bases.payload import Source
from xpu_stack.core.edit.shape import Shape, by_hand
from xpu_stack.core.lay import applying
from xpu_stack.core.move.moves import Move
from xpu_stack.core.move.rewrite import Rewrite
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.series import Series
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import transaction
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


def files(work: Workspace, shape: Shape, taken: Move | None) -> dict[Path, Source]:
    """The files of bases that are like another one; those of a change that is back, too."""
    before = (
        Rewrite.load(work, taken.edit) if taken is not None and taken.edit is not None else None
    )
    found = dict[Path, Source]()
    for own in OwnFiles.of_all(work.layout):
        found |= {one.path: one for one in own.carried(shape.names, shape.gone)}
        if before is not None:
            found |= own.restored(before.before, before.after, shape.given.request.change)
    return found


def refitted(
    work: Workspace, own: OwnFiles, shape: Shape, contents: Mapping[Path, Content]
) -> dict[Path, Content]:
    """The patches of such a base that are to be others; none if its commit is not at hand."""
    there, commit = applying.of_base(work, own.base.name), own.base.git.commit
    known = commit and work.repository.commit_id(commit)
    if known or (work.layout.checkout(own.base.name) / ".git").exists():
        with trial(there, Rewrite({}, contents)) as tried:
            return Shape(there, shape.given, None).refitted(tried)
    request = shape.given.request
    if request.verb in ("fold", "split", "edit"):
        for change in {request.change, shape.names.get(request.change, "")} - {""}:
            if own.has_of(change):
                raise by_hand(own.base.name, change, "its files differ there")
    return {}


def keyed_by_change(work: Workspace, shape: Shape, taken: Move | None) -> dict[Path, Content]:
    """Resolutions and pull requests go with a change that has another name."""
    contents = dict[Path, Content]()
    if taken is not None and taken.edit is not None:  # what the drop took with it
        before = Rewrite.load(work, taken.edit).before
        contents |= {path: before[path] for path in before if "resolutions" in path.parts}
    for path in work.layout.patches.glob("*/resolutions/*/resolution.yaml"):
        contents |= _resolution(path, shape.names)
    for path in work.layout.patches.glob("*/submitted.yaml"):
        text = path.read_text(encoding="utf-8")
        for old, new in shape.renamed.items():
            text = re.sub(
                rf"^( +['\"]?){re.escape(old)}(?=['\"]?:)", rf"\g<1>{new}", text, flags=re.M
            )
        contents[path] = (0o100644, text.encode())
    return contents


def _resolution(path: Path, names: Mapping[str, str]) -> dict[Path, Content]:
    text = path.read_text(encoding="utf-8")
    for old, new in names.items():
        if re.search(rf"^change: ['\"]?{re.escape(old)}['\"]?$", text, re.M):
            if not new:
                return dict.fromkeys(path.parent.iterdir())
            return {path: (0o100644, text.replace(old, new, 1).encode())}
    return {}


def series_file_before(work: Workspace, taken: Move | None) -> SeriesFile | None:
    """The series file before a drop, for the lines that it took."""
    if taken is None or taken.edit is None:
        return None
    path = work.layout.series_file
    content = Rewrite.load(work, taken.edit).before.get(path)
    return (
        SeriesFile.parse(path, content[1].decode())
        if content and isinstance(content[1], bytes)
        else None
    )


@contextmanager
def trial(work: Workspace, edit: Rewrite) -> Iterator[Workspace]:
    """The edited series in a folder of its own; what is wrong with it is found there."""
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        folder, top = Path(name), work.layout.repository
        for part in ("patches", *settings().payload):
            if (top / part).exists():
                shutil.copytree(top / part, folder / part, symlinks=True)
        for path, content in edit.after.items():
            copy = folder / path.relative_to(top)
            copy.unlink(missing_ok=True)
            if content is not None:
                transaction.put(copy, *content)
        layout = Layout(folder, work.layout.state)
        series = Series.load(layout, work.base.name)
        yield replace(work, layout=layout, series=series)
