"""The facts that the pages show, read from the commits of the stack."""

import re
from dataclasses import dataclass

from xpu_stack.build.configuration import Mode, Sanitizer, results_of
from xpu_stack.build.results import Outcome
from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Applied, Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.change import own_text
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import MissingError
from xpu_stack.core.system.git import CommitId, TreeId
from xpu_stack.review import measured
from xpu_stack.review import since as comparing
from xpu_stack.review.diff import FileDiff, parse
from xpu_stack.review.measured import Measured
from xpu_stack.review.since import Earlier, Since

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
# What a change binds to Python, as the stubs name it, and a use of such a name.
_STUBS = "torch/_C/__init__.pyi.in"
_BOUND = re.compile(r"^(?:def|class) (_\w+)")
_USED = re.compile(r"\btorch\._C\.(_\w+)")
# An include is written from the roots that the build looks in.
_ROOTS = ("", "aten/src/", "torch/csrc/api/include/")
_TRAILER = re.compile(r"^(XPU-[A-Za-z]+): (.+)$", re.MULTILINE)
# Files that test a change rather than make it.
_TEST = re.compile(r"(^|/)tests?/|(^|/)test_[^/]*\.py$|_test\.cpp$|Test\.cpp$")


@dataclass(frozen=True)
class Uses:
    """That a change builds on an earlier one, and by what."""

    change: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """How the tests of a change ended, on which tree, built how."""

    build: str
    tree: TreeId
    outcome: Outcome
    above: bool  # on the tree of a change above it, not on its own


@dataclass(frozen=True)
class Page:
    """One change."""

    id: str  # <stage>/<change>
    stage: str
    number: int  # in the stack, from 1
    title: str
    body: str
    commit: CommitId
    trailers: tuple[tuple[str, str], ...]
    files: tuple[FileDiff, ...]
    uses: tuple[Uses, ...]
    used_by: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    since: Since | None  # None: there is no earlier version
    as_made: bool

    @property
    def slug(self) -> str:
        """The name of the page's file, without its ending."""
        return self.id.replace("/", "-")

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def added_to_tests(self) -> int:
        return sum(file.added for file in self.files if _TEST.search(file.path))


@dataclass(frozen=True)
class Review:
    """The whole stack."""

    base: CommitId
    base_name: str
    tip: CommitId
    stages: dict[str, str]  # of the stack, in order: name -> summary
    pages: tuple[Page, ...]
    earlier: Earlier | None
    dropped: tuple[Since, ...]
    measured: tuple[tuple[str, Measured], ...]  # by the topmost change it has

    def page(self, change: str) -> Page:
        return next(page for page in self.pages if page.id == change)

    def before(self, page: Page) -> Page | None:
        return self.pages[page.number - 2] if page.number > 1 else None

    def after(self, page: Page) -> Page | None:
        return self.pages[page.number] if page.number < len(self.pages) else None


def gather(work: Workspace, since: str | None) -> Review:
    """Reads the stack of the checkout; `since` names an earlier version of it."""
    there = stack.read(work.repository)
    if not there.applied:
        raise MissingError(
            "There is no stack to show.",
            why=f"{work.repository.folder} holds the base alone",
            next=commands.make("apply"),
        )
    if there.foreign:  # a reader would miss them, and the diffs would not add up
        stack.refuse_foreign(work.repository, there)
    earlier = comparing.find(work, since, there)
    fates = {}
    if earlier is not None:
        now = {one.trailers.change: one.commit for one in there.applied}
        fates = {fate.change: fate for fate in comparing.compare(work.repository, earlier, now)}
    diffs = {one.trailers.change: parse(work.repository, one.commit) for one in there.applied}
    uses = _uses(diffs)
    evidence = _evidence(work, there)
    summaries = {stage.name: stage.summary for stage in work.series.stages}
    pages = tuple(
        _page(number, one, diffs, uses, evidence, fates)
        for number, one in enumerate(there.applied, start=1)
    )
    tops = {one.commit.tree: one.trailers.change for one in there.applied}
    runs = measured.read(work, set(tops))
    return Review(
        base=there.base,
        base_name=work.base.name,
        tip=there.tip,
        stages={page.stage: summaries.get(page.stage, "") for page in pages},
        pages=pages,
        earlier=earlier,
        dropped=tuple(fate for fate in fates.values() if fate.status == "dropped"),
        measured=tuple((tops[TreeId(run.tree)], run) for run in runs),
    )


def _page(
    number: int,
    one: Applied,
    diffs: dict[str, tuple[FileDiff, ...]],
    uses: dict[str, tuple[Uses, ...]],
    evidence: dict[str, tuple[Evidence, ...]],
    fates: dict[str, Since],
) -> Page:
    change = one.trailers.change
    title, _, body = own_text(one.commit.message).partition("\n")
    return Page(
        id=change,
        stage=one.trailers.stage,
        number=number,
        title=title,
        body=body.strip(),
        commit=one.commit.id,
        trailers=tuple(_TRAILER.findall(one.commit.message)),
        files=diffs[change],
        uses=uses[change],
        used_by=tuple(
            user for user, used in uses.items() if change in (use.change for use in used)
        ),
        evidence=evidence[change],
        since=fates.get(change),
        as_made=one.as_made,
    )


# -- what builds on what -------------------------------------------------------


def _uses(diffs: dict[str, tuple[FileDiff, ...]]) -> dict[str, tuple[Uses, ...]]:
    """For each change the earlier ones that it edits files of or includes files of."""
    owners: dict[str, str] = {}  # new file -> the change that brought it
    touched: dict[str, str] = {}  # file of the base -> the change that edited it last
    bound: dict[str, str] = {}  # name in torch._C -> the change that brought it
    result = {}
    for change, files in diffs.items():
        reasons: dict[str, list[str]] = {}
        for file in files:
            owner = owners.get(file.old_path) or touched.get(file.old_path)
            if owner and file.status != "new":
                reasons.setdefault(owner, []).append(f"edits {file.old_path}")
            for path in (root + one for one in _found(_INCLUDE, file) for root in _ROOTS):
                if path in owners:
                    reasons.setdefault(owners[path], []).append(f"includes {path}")
            for name in _found(_USED, file) if file.path.endswith(".py") else ():
                if name in bound:
                    reasons.setdefault(bound[name], []).append(f"uses torch._C.{name}")
        result[change] = tuple(
            Uses(other, tuple(dict.fromkeys(reasons[other]))) for other in diffs if other in reasons
        )
        for file in files:
            (owners if file.status == "new" else touched)[file.path] = change
            if file.path == _STUBS:
                bound |= dict.fromkeys(_found(_BOUND, file), change)
    return result


def _found(pattern: re.Pattern[str], file: FileDiff) -> list[str]:
    """What the group of the pattern is, in the lines that are added."""
    added = [line.text for hunk in file.hunks for line in hunk.lines if line.kind == "+"]
    return [name for line in added for name in pattern.findall(line)]


# -- how the tests ended ----------------------------------------------------------


def _evidence(work: Workspace, there: Stack) -> dict[str, tuple[Evidence, ...]]:
    """What is known of each change's tests, in each way of building."""
    found: dict[str, list[Evidence]] = {one.trailers.change: [] for one in there.applied}
    for mode in Mode:
        for sanitizer in Sanitizer:
            results = results_of(work, mode, sanitizer)
            name = mode.value + (f", {sanitizer.value} sanitizer" if sanitizer.value else "")
            # The highest tree that was tested speaks for all below it.
            trees = [one.commit.tree for one in there.applied if results.get(one.commit.tree).tests]
            for one in there.applied:
                change, own = one.trailers.change, one.commit.tree
                for tree in dict.fromkeys([own, *trees[-1:]]):
                    outcome = (results.get(tree).tests or {}).get(change)
                    if outcome is not None:
                        found[change].append(Evidence(name, tree, outcome, above=tree != own))
    return {change: tuple(items) for change, items in found.items()}
