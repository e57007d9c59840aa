"""Pages of the documentation that the tool writes, as a whole or in part."""

from pathlib import Path
from typing import Any


def render(template: Path, **facts: Any) -> str:
    """A page of Markdown that a template has but for these facts."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(  # noqa: S701 (it is no HTML)
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["listed"] = lambda names: ", ".join(f"`{name}`" for name in names)
    return templates.get_template(template.name).render(**facts)


def put_between(begin: str, end: str, text: str, page: Path) -> None:
    """Writes the part of a page that is between two marks."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}")
