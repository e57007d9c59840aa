"""JUnit files, as pytest and GoogleTest write them."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One test, and how it ended: passed, failed or skipped."""

    file: str  # or the program
    group: str  # its class; "" for what a program as a whole did
    name: str
    how: str
    why: str = ""
    output: str = field(default="", compare=False)  # of a failure

    @property
    def id(self) -> str:
        return f"{self.group or self.file}.{self.name}"

    @property
    def full(self) -> str:
        return f"{self.file}.{self.id}"


def cases(path: Path) -> Iterator[Case]:
    """The tests in a file that is named after theirs."""
    for case in ElementTree.parse(path).iter("testcase"):
        group = case.get("classname", "").rpartition(".")[2]
        yield Case(path.stem, group, case.get("name", ""), *_ended(case))


def _ended(case: ElementTree.Element) -> tuple[str, str, str]:
    parts = {part.tag: part for part in case}
    bad, skipped = parts.get("failure", parts.get("error")), parts.get("skipped")
    if bad is not None:
        message = bad.get("message") or ""
        return "failed", message.split("\n")[0], (bad.text or message).strip()
    by_google = case.get("result") == "skipped"
    if skipped is None and not by_google:
        return "passed", "", ""
    told = (skipped.get("message") or skipped.text or "") if skipped is not None else ""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or ["no reason given"]
    # GoogleTest puts the place first: <file>:<line>
    return "skipped", lines[-1 if by_google else 0], ""
