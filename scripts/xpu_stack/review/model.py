"""The facts that the pages show, read from the commits of the stack."""

import itertools
import json
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from xpu_stack.bench.figures import Figure, from_json
from xpu_stack.build.configuration import Mode, Outcome, Sanitizer, results_of
from xpu_stack.core.move import moves, stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.series.change import own_text
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import MissingError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, Repository, TreeId
from xpu_stack.review.diff import FileDiff, parse
from xpu_stack.show import versions

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
# What a change binds to Python, as the stubs name it, and a use of such a name.
_STUBS = "torch/_C/__init__.pyi.in"
_BOUND = re.compile(r"^(?:def|class) (_\w+)")
_USED = re.compile(r"\btorch\._C\._\w+")
# An include is written from the roots that the build looks in.
_ROOTS = ("", "aten/src/", "torch/csrc/api/include/")
_TRAILER = re.compile(r"^(XPU-[A-Za-z]+): (.+)$", re.MULTILINE)
# Files that test a change rather than make it.
_TEST = re.compile(r"(^|/)tests?/|(^|/)test_[^/]*\.py$|_test\.cpp$|Test\.cpp$")
_DIGEST = re.compile(r"^[ +-][ ]+XPU-Digest: .*\n", re.MULTILINE)
_PAIR = re.compile(r"^\s*\d+:\s+[0-9a-f]+ (=|!) \s*\d+:\s+[0-9a-f]+")


@dataclass(frozen=True)
class Since:
    """One change, then and now."""

    change: str
    title: str
    status: str  # same, changed, new, dropped
    old: CommitId | None
    moved: bool  # it stands elsewhere among the changes that both versions have
    text: str  # git's range-diff of the two where it is not empty


@dataclass(frozen=True)
class Earlier:
    """An earlier version of the stack."""

    name: str  # in a sentence
    tip: CommitId
    changes: dict[str, Commit]  # by change, oldest first


@dataclass(frozen=True)
class Evidence:
    """How the tests of a change ended, on which tree, built how."""

    build: str
    tree: TreeId
    outcome: Outcome
    above: bool  # on the tree of a change above it, not on its own


@dataclass(frozen=True)
class Measured:
    """One run of the benchmark."""

    top: str  # the topmost change that it has
    tree: TreeId
    build: str
    machine: str
    quick: bool  # in less time, with wider spreads
    figures: tuple[Figure, ...]

    def rows(self, stage: str = "") -> list[tuple[str, ...]]:
        """What was measured beside the least that it can take: of a stage, or all."""
        return [
            (
                one.row.title,
                one.amount(one.ours.value),
                one.amount(one.raw.value) if one.raw else "",
                f"{one.ours.ratio.median:.3g}" if one.ours.ratio else "",
                one.verdict.value,
            )
            for one in self.figures
            if one.id.startswith(stage and f"{stage}.")
        ]


@dataclass(frozen=True)
class Page:
    """One change."""

    id: str  # <stage>/<change>
    stage: str
    number: int  # in the stack, from 1
    title: str
    body: str
    commit: CommitId
    trailers: list[tuple[str, str]]
    files: tuple[FileDiff, ...]
    uses: dict[str, tuple[str, ...]]  # the changes that it builds on, and by what
    used_by: list[str]
    evidence: list[Evidence]
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

    stack: Stack
    base_name: str
    stages: dict[str, str]  # of the stack, in order: name -> summary
    pages: list[Page]
    earlier: Earlier | None
    dropped: list[Since]
    measured: list[Measured]

    def page(self, change: str) -> Page:
        return next(page for page in self.pages if page.id == change)

    def colour(self, page: Page) -> int:
        """Which of the stages' eight colours it has."""
        return list(self.stages).index(page.stage) % 8


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
    earlier = _earlier(work, since, there)
    now = _changes(there)
    fates = _compared(work.repository, earlier, now) if earlier else {}
    diffs = {change: parse(work.repository, commit) for change, commit in now.items()}
    uses, evidence, pages = _uses(diffs), _evidence(work, there), []
    for number, one in enumerate(there.applied, start=1):
        change = one.trailers.change
        title, _, body = own_text(one.commit.message).partition("\n")
        pages.append(
            Page(
                id=change,
                stage=one.trailers.stage,
                number=number,
                title=title,
                body=body.strip(),
                commit=one.commit.id,
                trailers=_TRAILER.findall(one.commit.message),
                files=diffs[change],
                uses=uses[change],
                used_by=[user for user, used in uses.items() if change in used],
                evidence=evidence[change],
                since=fates.get(change),
                as_made=one.as_made,
            )
        )
    summaries = {stage.name: stage.summary for stage in work.series.stages}
    return Review(
        stack=there,
        base_name=work.base.name,
        stages={page.stage: summaries.get(page.stage, "") for page in pages},
        pages=pages,
        earlier=earlier,
        dropped=[fate for fate in fates.values() if fate.status == "dropped"],
        measured=_measured(work, {one.commit.tree: one.trailers.change for one in there.applied}),
    )


# -- since an earlier version of the stack --------------------------------------


def _changes(there: Stack) -> dict[str, Commit]:
    return {change: one.commit for change, one in there.by_change.items()}


def _earlier(work: Workspace, name: str | None, there: Stack) -> Earlier | None:
    """The version that a person named, or the one before the last move.

    A name is that of the tip of another stack in the checkout, or of a commit
    of the series' own repository: the series as it was there. HEAD~5, which is
    in both, is the latter: in the checkout it is a part of this same stack.
    A move up or down the same stack leaves no earlier version: then None.
    """
    if name is None:
        last = moves.last(work.repository)
        tip, shown = last.before.tip if last else None, "the version before"
    else:
        tip, shown = work.repository.commit_id(name), name
    if tip is not None:
        found = Earlier(shown, tip, _changes(stack.read(work.repository, tip)))
        ours = {one.commit.id for one in there.applied}
        theirs = {one.id for one in found.changes.values()}
        if not (ours <= theirs or theirs <= ours):  # a part of this one, or more of it
            return found
    if name is None:
        return None
    tip = versions.tip(work, name, there.base, there.applied[-1].trailers.change)
    if tip is None:
        raise UsageError(
            f"'{name}' is not an earlier version of the stack.",
            why="SINCE names a commit of this repository, a version of the series, "
            "or the tip of another stack in the checkout",
            next=commands.git(work.layout.repository, "log", "--oneline"),
        )
    return Earlier(name, tip, _changes(stack.read(work.repository, tip)))


def _compared(repository: Repository, earlier: Earlier, now: dict[str, Commit]) -> dict[str, Since]:
    """What became of each change.

    They are matched by the name in their trailers, not by what git thinks alike, so that
    a reordered or rewritten change is compared with itself.
    """
    # those outside the runs which both versions have in common
    a = [change for change in earlier.changes if change in now]
    b = [change for change in now if change in earlier.changes]
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    moved = set(a) - {change for one in blocks for change in a[one.a : one.a + one.size]}
    result = {}
    for change, commit in {**earlier.changes, **now}.items():
        old, new, text = earlier.changes.get(change), now.get(change), ""
        if old and new and old.id != new.id:
            text = _range_diff(repository, old, new)
        status = "new" if not old else "dropped" if not new else "changed" if text else "same"
        title, was = commit.message.splitlines()[0], old.id if old else None
        result[change] = Since(change, title, status, was, change in moved, text)
    return result


def _range_diff(repository: Repository, old: Commit, new: Commit) -> str:
    """How the commit itself, text and patch, differs; "" where it does not."""
    text = repository.run(
        "range-diff",
        "--no-color",  # colours are ours
        "--no-notes",  # notes are a person's own
        "--creation-factor=999",  # these two are the same change, however little is left of it
        f"{old.parents[0]}..{old.id}",
        f"{new.parents[0]}..{new.id}",
    ).text
    pair, _, rest = text.partition("\n")
    if pair and not _PAIR.match(pair):
        return text.rstrip("\n")  # one has no patch at all: git's own words
    # without the digest, which differs whenever anything below does
    told = _DIGEST.sub("", re.sub("^    ", "", rest, flags=re.MULTILINE))
    hunks = re.split("^(?=@@ )", told, flags=re.MULTILINE)
    return "".join(one for one in hunks if re.search("^[+-]", one, re.MULTILINE)).rstrip("\n")


# -- what builds on what -------------------------------------------------------


def _uses(diffs: dict[str, tuple[FileDiff, ...]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each change the earlier ones that it edits files of or includes files of, and why."""
    brought: dict[str, str] = {}  # new file, or name in torch._C -> the change that brought it
    touched: dict[str, str] = {}  # file of the base -> the change that edited it last
    result = {}
    for change, files in diffs.items():
        told = []  # a change or None, and why
        for file in files:
            old = file.old_path
            if file.status != "new":
                told.append((brought.get(old) or touched.get(old), f"edits {old}"))
            paths = [root + one for one in _found(_INCLUDE, file) for root in _ROOTS]
            told += [(brought.get(path), f"includes {path}") for path in paths]
            if file.path.endswith(".py"):
                told += [(brought.get(name), f"uses {name}") for name in _found(_USED, file)]
        reasons = {other: [why for its, why in told if its == other] for other in diffs}
        result[change] = {one: tuple(dict.fromkeys(whys)) for one, whys in reasons.items() if whys}
        for file in files:
            (brought if file.status == "new" else touched)[file.path] = change
            if file.path == _STUBS:
                brought |= {f"torch._C.{name}": change for name in _found(_BOUND, file)}
    return result


def _found(pattern: re.Pattern[str], file: FileDiff) -> list[str]:
    """What the group of the pattern is, in the lines that are added."""
    added = [line.text for line in file.lines if line.kind == "+"]
    return [name for line in added for name in pattern.findall(line)]


# -- how the tests ended ----------------------------------------------------------


def _evidence(work: Workspace, there: Stack) -> dict[str, list[Evidence]]:
    """What is known of each change's tests, in each way of building."""
    found: dict[str, list[Evidence]] = {one.trailers.change: [] for one in there.applied}
    for mode, sanitizer in itertools.product(Mode, Sanitizer):
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
    return found


# -- what the benchmark measured --------------------------------------------------


def _measured(work: Workspace, tops: dict[TreeId, str]) -> list[Measured]:
    """The runs on trees of this stack. tops: the topmost change of each tree."""
    found = []
    folder = work.layout.for_checkout(work.repository.folder)
    for path in sorted(folder.glob("bench-*/results.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            figures = tuple(map(from_json, data["figures"]))
            facts = (data["tree"], data["mode"], data["machine"], data["quick"])
        except (ValueError, KeyError, TypeError, IndexError):
            log.warning("not understood: %s", path)
            continue
        if facts[0] in tops:
            found.append(Measured(tops[facts[0]], *facts, figures))
    return found
