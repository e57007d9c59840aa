"""`make new`: adds a change to the series, and its stage if that is new.

It gets a place in the series and a text to fill in. When applied it is an empty
commit, until a person amends it; `make check` says what is missing.
"""

from pathlib import Path

from xpu_stack.core.series import authors
from xpu_stack.core.series.change import TITLE_LIMIT, UNWRITTEN, split_id, template
from xpu_stack.core.series.series import Series
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands, transaction
from xpu_stack.core.system.errors import ToolError, UsageError
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout


def begin(layout: Layout, base: str, id_: str, title: str | None, after: str | None) -> list[Path]:
    """Adds the change `id_`. Returns the files written."""
    series = Series.load(layout, base)
    ids = list(series.by_id)
    parts = split_id(id_)
    if parts is None:
        raise _refused(
            f"'{id_}' is not a valid name for a change.",
            "it is <stage>/<change>, both of small letters, digits, '-' and '_'",
        )
    if id_ in ids:
        raise _refused(f"The change '{id_}' already exists.", "a name can be used once")
    if title is not None and not 0 < len(title) <= TITLE_LIMIT:
        raise _refused(
            "The title is too long or empty.", f"it may have up to {TITLE_LIMIT} characters"
        )
    place = _place(series, ids, parts[0], after)
    text = layout.patches / "texts" / parts[0] / f"{parts[1]}.md"
    file = SeriesFile.read(layout.series_file)
    file.arrange([*ids[:place], id_, *ids[place:]])
    person = authors.of_git(Repository(layout.repository))
    if person and authors.is_reachable(person):
        file.credit(id_, person)
    words = template(title or f"{UNWRITTEN} a title, in the imperative")
    written = {text: words, file.path: file.text}
    transaction.write(
        layout, {path: (0o100644, content.encode()) for path, content in written.items()}
    )
    return [text, file.path]


def _place(series: Series, ids: list[str], stage: str, after: str | None) -> int:
    """The number of the change that will follow it."""
    if after is None:
        after = stage if stage in series.stage_names else series.stage_names[-1]
    place = len(series.changes(after))
    inside = stage in series.stage_names
    neighbours = {one.partition("/")[0] for one in ids[place - 1 : place + 1]}
    if inside and stage not in neighbours:
        raise _refused(
            f"A change of '{stage}' cannot come after '{after}'.",
            "the changes of a stage must follow each other",
        )
    if not inside and len(neighbours) == 1 and place < len(ids):
        raise _refused(
            f"A new stage cannot come after '{after}'.",
            f"it would split the stage '{neighbours.pop()}'",
        )
    return place


def _refused(what: str, why: str) -> ToolError:
    return UsageError(
        what,
        why=why,
        next=commands.make("new", CHANGE="<stage>/<change>", TITLE="<title>", AFTER="<place>"),
    )
