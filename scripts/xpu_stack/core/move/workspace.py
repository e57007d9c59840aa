"""What every verb on a checkout works with."""

from dataclasses import dataclass

from xpu_stack.core.move import moves
from xpu_stack.core.series.base import Base
from xpu_stack.core.series.series import Series
from xpu_stack.core.system.git import Repository
from xpu_stack.core.system.layout import Layout


@dataclass(frozen=True)
class Checkout:
    """A checkout of the project, and what provided its base."""

    repository: Repository
    provider: str
    own: bool  # the tool's, not a person's


@dataclass(frozen=True)
class Workspace:
    """A series, and the checkout that it is worked on in."""

    layout: Layout
    base: Base
    series: Series
    checkout: Checkout

    @property
    def repository(self) -> Repository:
        return self.checkout.repository

    @property
    def dropped(self) -> frozenset[str]:
        """The changes that the stack does without, as DROP= or the base says."""
        return moves.dropped(self.repository) | self.series.without
