"""The results for a tree: whether it was built, and how its tests ended.

They are kept by tree id. So a result is found again whatever was checked out in
between, and never used for another tree.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xpu_stack.core.system import files
from xpu_stack.core.system.git import TreeId
from xpu_stack.core.system.layout import Layout


@dataclass
class Outcome:
    """How the tests of one change ended: counts over all configurations."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # why skipped -> how often
    failures: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped


@dataclass
class Record:
    """All that is known of one tree in one environment."""

    built: bool = False
    tests: dict[str, Outcome] | None = None  # change id -> outcome
    whole: bool = False  # tested in all configurations, not only in the brief one

    @property
    def passed(self) -> bool:
        return self.tests is not None and not any(one.failed for one in self.tests.values())


class Results:
    """The records of one checkout. environment: what else the outcome depends on."""

    def __init__(self, layout: Layout, checkout: Path, environment: str) -> None:
        self.folder = layout.for_checkout(checkout) / "results"
        self._key = hashlib.sha256(environment.encode()).hexdigest()[:8]

    def _path(self, tree: TreeId) -> Path:
        return self.folder / f"{tree}-{self._key}.json"

    def junit_folder(self, tree: TreeId) -> Path:
        """Where the JUnit files of the tree's tests are."""
        return self.folder / f"{tree}-{self._key}"

    def get(self, tree: TreeId) -> Record:
        try:
            data: dict[str, Any] = json.loads(self._path(tree).read_text())
        except FileNotFoundError:
            return Record()
        tests = data.pop("tests")
        if tests is not None:
            tests = {change: Outcome(**outcome) for change, outcome in tests.items()}
        return Record(**data, tests=tests)

    def put(self, tree: TreeId, record: Record) -> None:
        files.write(self._path(tree), json.dumps(asdict(record), indent=1))
