"""What every verb on a checkout works with, and what it is to make of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xpu_stack.core.move import moves
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.series import Series
from xpu_stack.core.system import commands
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout, settings


@dataclass(frozen=True)
class Workspace:
    """A series, and the checkout that it is worked on in."""

    layout: Layout
    base: Base
    series: Series
    repository: Repository
    own: bool  # the checkout is the tool's, not a person's

    @property
    def provider(self) -> str:
        """What the checkout comes from."""
        if not self.own:
            return f"{settings().source}={self.repository.folder}"
        return self.repository.ask("config", f"{settings().name}.provider") or "unknown"

    @property
    def dropped(self) -> frozenset[str]:
        """The changes that the stack does without, as DROP= or the base says."""
        return moves.dropped(self.repository) | self.series.without


@dataclass(frozen=True)
class Request:
    """An edit of the series that a person asked for: a verb and its variables."""

    verb: str
    options: Mapping[str, str]

    @property
    def change(self) -> str:
        return self.options["CHANGE"]

    def command(self) -> str:
        return commands.make(self.verb, **self.options)


@dataclass(frozen=True)
class Goal:
    """The series up to `stage`, without `dropped`, on `base`.

    base: None: the one that the checkout has; onto: how the person named it.
    request: the edit of the series that the checkout is to follow.
    """

    stage: str
    dropped: frozenset[str]
    base: CommitId | None = None
    onto: str = ""
    request: Request | None = None

    @property
    def verb(self) -> str:
        return "apply" if self.base is None else "rebase"

    def command(self, drop: Iterable[str] = ()) -> str:
        """What to type for this goal, doing without further changes."""
        if self.request is not None:
            return self.request.command()
        without = ",".join(sorted(self.dropped.union(drop)))
        return commands.make(self.verb, ONTO=self.onto, STAGE=self.stage, DROP=without)
