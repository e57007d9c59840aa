"""What a wheel is made from: its version, and what its metadata says of it."""

import hashlib
from dataclasses import dataclass

from xpu_stack.build.configuration import Mode
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace

DIGITS = 12  # of the series hash in the version


@dataclass(frozen=True)
class Identity:
    release: str  # 1.13.1
    base: str  # the commit that the series stands on
    provider: str  # where the base came from, with its checksum
    stage: str
    series: str  # a hash of all changes up to the stage
    mode: Mode

    @property
    def version(self) -> str:
        """The local label is the series', and says so where it is no full build."""
        label = f"xpu.{self.series[:DIGITS]}"
        return f"{self.release}+{label}" + (".fast" if self.mode is Mode.FAST else "")

    @property
    def facts(self) -> dict[str, str]:
        """As they are written in torch.version and in the metadata."""
        return {
            "xpu_base": f"v{self.release}, commit {self.base}",
            "xpu_provider": self.provider,
            "xpu_series": f"{self.series}, up to the stage {self.stage}",
            "xpu_mode": self.mode.value,
        }


def of(work: Workspace, stage: str, mode: Mode) -> Identity:
    """Of the wheel of a checkout that is at `stage`."""
    base = stack.read(work.repository).base
    # A path of this machine would say nothing to whoever installs the wheel.
    provider = work.checkout.provider if work.checkout.own else f"a fork, at commit {base}"
    return Identity(work.base.version, base, provider, stage, series_hash(work, stage), mode)


def series_hash(work: Workspace, stage: str) -> str:
    sum = hashlib.sha256()
    for change in work.series.changes(stage):
        sum.update(f"{change.id} {change.source_digest}\n".encode())
    return sum.hexdigest()
