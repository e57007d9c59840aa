"""`make new`: a change is begun, and a stage when there is none of that name.

It gets its place in the series and a text to be filled in. Applied, it is an
empty commit until something is put into it; `make check` says what is missing.
"""

from pathlib import Path

from xpu_stack.errors import ExitCode, ToolError
from xpu_stack.layout import Layout
from xpu_stack.series import Series, split_id
from xpu_stack.seriesfile import SeriesFile
from xpu_stack.text import TITLE_LIMIT, UNWRITTEN, template


def begin(layout: Layout, base: str, id_: str, title: str | None, after: str | None) -> list[Path]:
    """Begins the change `id_`; the files written."""
    series = Series.load(layout, base)
    ids = [change.id for change in series.all_changes()]
    parts = split_id(id_)
    if parts is None:
        raise _refused(
            f"'{id_}' is no name for a change.",
            "it is <stage>/<change>, both of small letters, digits, '-' and '_'",
        )
    if id_ in ids:
        raise _refused(f"The change '{id_}' is there already.", "every change has its own name")
    if title is not None and not 0 < len(title) <= TITLE_LIMIT:
        raise _refused("The title is too long or empty.", f"it may have {TITLE_LIMIT} characters")
    place = _place(series, ids, parts[0], after)
    text = layout.patches / "texts" / parts[0] / f"{parts[1]}.md"
    file = SeriesFile.read(layout.series_file)
    file.arrange([*ids[:place], id_, *ids[place:]])
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text(template(title or f"{UNWRITTEN} a title, as an order"), encoding="utf-8")
    draft = file.path.with_suffix(".draft")
    draft.write_text(file.text, encoding="utf-8")
    draft.replace(file.path)
    return [text, file.path]


def _place(series: Series, ids: list[str], stage: str, after: str | None) -> int:
    """The number of the change that it is to stand before."""
    if after is None:
        after = stage if stage in series.stage_names else series.stage_names[-1]
    place = len(series.changes(after))
    inside = stage in series.stage_names
    neighbours = {one.partition("/")[0] for one in ids[place - 1 : place + 1]}
    if inside and stage not in neighbours:
        raise _refused(
            f"A change of '{stage}' cannot stand after '{after}'.",
            "the changes of a stage stand together",
        )
    if not inside and len(neighbours) == 1 and place < len(ids):
        raise _refused(
            f"A new stage cannot stand after '{after}'.",
            f"it would tear the stage '{neighbours.pop()}' apart",
        )
    return place


def _refused(what: str, why: str) -> ToolError:
    return ToolError(
        what,
        why=why,
        next="make new CHANGE=<stage>/<change> TITLE='...' AFTER=<stage or change>",
        code=ExitCode.USAGE,
    )
