"""Edits made in a checkout go back into payload, patches and texts.

A person works where the code builds: edits files, amends a change's commit, or
rewords it. Export writes that back into the repository of the series, so that
apply gives the same again. An edit that is not committed belongs to the last
change that touches its file.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from xpu_stack.core.checkout import applying, moves, series_update, stack
from xpu_stack.core.checkout.commits import Builder
from xpu_stack.core.checkout.workspace import Workspace
from xpu_stack.core.series import authors
from xpu_stack.core.series.change_text import SECTIONS, ChangeText, own_text, template, trailers
from xpu_stack.core.series.series import Change, PayloadFile, Series, split_id
from xpu_stack.core.series.series_file import SeriesFile
from xpu_stack.core.system import commands
from xpu_stack.core.system.console import say
from xpu_stack.core.system.errors import ExitCode, SeriesError, ToolError
from xpu_stack.core.system.git import Commit, CommitId, Entry, File, Identity, Repository, TreeId
from xpu_stack.core.system.settings import settings

_SHOWN = 5  # files that are listed one by one


@dataclass(frozen=True)
class Source:
    """A file of the series' repository, as it should be; None: it should not be."""

    path: Path
    content: bytes | None
    mode: int = 0o100644
    change: str = ""  # of a payload file: whose it is
    same: bool = False  # by git's id of it; the content was not read

    @property
    def differs(self) -> bool:
        if self.same:
            return False
        there = PayloadFile(self.path, "", "")
        if self.content is None or not os.path.lexists(self.path):
            return os.path.lexists(self.path) or self.content is not None
        return (there.mode, there.content) != (self.mode, self.content)


def export(work: Workspace) -> list[Path]:
    """Writes what differs back; the files written, or removed."""
    repository = work.repository
    stack.refuse_operation(repository)
    there = stack.read(repository)
    _refuse_nothing(repository, there)
    _refuse_changed_series(work, there)
    commits = with_edits(repository, there)
    differing = [source for source in _with_shape(work, there, commits) if source.differs]
    say_untracked(repository)
    for commit in there.above:
        say(f"not exported: {stack.named(commit)}, your own above the stack")
    if differing:
        wanted = {
            one.path: None if one.content is None else (one.mode, one.content) for one in differing
        }
        made = moves.Operation("export"), series_update.Edit.to(wanted), None
        with series_update.made(work, *made) as edit:
            _adopt(work, edit)
    else:
        _adopt(work, None)
    return [source.path for source in differing]


def say_untracked(repository: Repository) -> None:
    names = untracked_files(repository)
    for name in names[:_SHOWN]:
        add = commands.git(repository.folder, "add", "--", name)
        say(f"not exported: {name} is not tracked; {add}, and amend its change")
    if len(names) > _SHOWN:
        say(f"not exported: {len(names) - _SHOWN} other file(s) that are not tracked")


def untracked_files(repository: Repository) -> list[str]:
    listed = repository.run("ls-files", "--others", "--exclude-standard", "-z").text
    return [name for name in listed.split("\0") if name]


def _adopt(work: Workspace, edit: TreeId | None) -> None:
    """The commits are now the series' own again."""
    series = Series.load(work.layout, work.base.name)
    applying.adopt(replace(work, series=series), edit)


def sources(work: Workspace, commits: list[Commit]) -> list[Source]:
    """What the texts, patches and payload must be to give these commits."""
    changes = {change.id: change for change in work.series.all_changes()}
    found: dict[Path, Source] = {}
    for id_, commit in _by_change(work.repository, commits).items():
        change = changes.get(id_) or _begun(work.repository, id_, commit)
        for source in _sources_of(work, change, commit):
            # A file that leaves one change may have come to another.
            if source.content is not None or source.path not in found:
                found[source.path] = source
    return list(found.values())


def _by_change(repository: Repository, commits: list[Commit]) -> dict[str, Commit]:
    """Change -> its commit, in order."""
    found: dict[str, Commit] = {}
    for commit in commits:
        told = trailers(commit.message)
        assert told is not None
        if told.change in found:
            raise ToolError(
                f"Two commits belong to the change {told.change}.",
                why=f"{found[told.change].id[:12]} and {commit.id[:12]}",
                next=f"{_reorder(repository, commits)} "
                f"# squash them; or reword one: only the trailer {settings().trailer}-Change: "
                "<stage>/<new name>",
            )
        found[told.change] = commit
    return found


def _reorder(repository: Repository, commits: list[Commit]) -> str:
    return commands.git(repository.folder, "rebase", "-i", commits[0].parents[0][:12])


def _begun(repository: Repository, id_: str, commit: Commit) -> Change:
    """A change that the series does not have yet: a person has made its commit."""
    parts = split_id(id_)
    if parts is None:
        raise ToolError(
            f"'{id_}' is not a valid name for a change.",
            why=f"{commit.id[:12]} says {settings().trailer}-Change: {id_}",
            next=f"{commands.git(repository.folder, 'rebase', '-i', f'{commit.id[:12]}~')} "
            "# reword it: <stage>/<change>, of small letters, digits, '-' and '_'",
            code=ExitCode.SERIES,
        )
    title, _, body = own_text(commit.message).partition("\n")
    return Change(*parts, 0, 0, ChangeText(title, body.strip()), (), None, id_)


def _with_shape(work: Workspace, there: stack.Stack, commits: list[Commit]) -> list[Source]:
    """All that must be written: the sources, less what is gone, and the series file."""
    applied = list(_by_change(work.repository, commits))
    ids = [change.id for change in work.series.all_changes()]
    ends = max((ids.index(one) for one in applied if one in ids), default=-1)
    without = moves.dropped(work.repository)
    # Without a log: what is missing below the last one was taken out.
    left = moves.applied(work.repository)
    had = set(ids[:ends]) if left is None else set(ids) & left
    gone = {one for one in had if one not in applied and one not in without}
    written = {source.path: source for source in sources(work, commits)}
    owner_of = owners(work, written, applied, gone)
    for change in work.series.all_changes():
        if change.id in gone:
            for path in files_of(work, change):
                written.setdefault(path, Source(path, None))
    file = SeriesFile.read(work.layout.series_file)
    file.arrange(_order(ids, applied, gone), _reorder(work.repository, commits))
    file.settle(owner_of)
    _credit(work, file, there)
    return [*written.values(), Source(file.path, file.text.encode())]


def _credit(work: Workspace, file: SeriesFile, there: stack.Stack) -> None:
    """Has the authors of commits that a person has made or amended in the series."""
    known = {change.id: work.series.author_of(change) for change in work.series.all_changes()}
    for one in there.applied:
        change, author = one.trailers.change, one.commit.author
        if one.as_made or author == known.get(change, work.series.author):
            continue
        if author == work.series.author:
            file.credit(change, None)
        elif authors.is_reachable(author):
            file.credit(change, author)
        else:
            say(f"{change}: its author {author} is not kept, as no mail reaches that address")


def _order(ids: list[str], applied: list[str], gone: set[str]) -> list[str]:
    """The series' order: that of the commits, and the changes that have none."""
    order = list(applied)
    last = max((number for number, one in enumerate(ids) if one in applied), default=-1)
    for number, one in enumerate(ids):
        if one not in applied and one not in gone:
            before = ids[number - 1] if 0 < number < last else None
            order.insert(order.index(before) + 1 if before in order else len(order), one)
    return order


def owners(
    work: Workspace, written: dict[Path, Source], applied: list[str], gone: set[str]
) -> dict[str, str]:
    """Payload file -> its change, as it will be."""
    owners = {
        file.kept_at: change.id
        for change in work.series.all_changes()
        if change.id not in gone and change.id not in applied
        for file in change.files
    }
    for source in written.values():
        kept = source.path.relative_to(work.layout.repository)
        if source.content is not None and source.change and kept.parts[0] in settings().payload:
            owners[kept.as_posix()] = source.change
    return owners


def files_of(work: Workspace, change: Change) -> list[Path]:
    text, patch = _places(work, change)
    return [text, patch, *(file.source for file in change.files)]


def _places(work: Workspace, change: Change) -> tuple[Path, Path]:
    """Where the text and the patch of a change are."""
    text = work.layout.patches / "texts" / change.stage / f"{change.name}.md"
    patch = work.layout.base_folder(work.base.name) / change.stage / f"{change.name}.patch"
    return text, patch


def with_edits(repository: Repository, there: stack.Stack) -> list[Commit]:
    """The changes' commits with the work tree's edits in those that they belong to."""
    commits = [applied.commit for applied in there.applied]
    edited = edits(repository, there)
    if not edited:
        return commits
    touched = [
        {entry.path for entry in repository.diff(commit.parents[0], commit.id)}
        for commit in commits
    ]
    owner: dict[str, int] = {}
    for path in edited:
        numbers = [number for number, paths in enumerate(touched) if path in paths]
        if not numbers:
            raise ToolError(
                f"No change of the series touches {path}.",
                why="an edit goes to the last change that touches its file",
                next=_into_a_change(repository, path, commits[0].parents[0]),
            )
        owner[path] = numbers[-1]
    return _squashed(repository, commits, edited, owner)


def edits(repository: Repository, there: stack.Stack) -> dict[str, File]:
    """The edits that are not committed, but for those of files of the commits above the stack."""
    own = _touched_above(repository, there)
    edited = {}
    for path in edited_files(repository):
        if path in own:
            say(f"not exported: the edit of {path}, which your own {own[path]} touches")
        else:
            edited[path] = repository.store_edited(path)
    return edited


def _touched_above(repository: Repository, there: stack.Stack) -> dict[str, str]:
    """The files that the commits above the stack touch, and by which."""
    return {
        entry.path: stack.named(commit)
        for commit in there.above
        for entry in repository.diff(commit.parents[0], commit.id)
    }


def _into_a_change(repository: Repository, path: str, base: CommitId) -> str:
    """What puts an edit of a file into a change that the person names."""
    options = ("-c", "sequence.editor=true", "rebase", "--interactive", "--autosquash")
    steps = [("add", "--", path), ("commit", "--fixup=<commit>"), (*options, base)]
    return " && ".join(commands.git(repository.folder, *step) for step in steps)


def _squashed(
    repository: Repository,
    commits: list[Commit],
    edited: dict[str, File],
    owner: dict[str, int],
) -> list[Commit]:
    done: list[Commit] = []
    for number, commit in enumerate(commits):
        # No later change touches the file: from its owner on, it is the edited one.
        edits = [
            (path, file.mode, file.blob) for path, file in edited.items() if owner[path] <= number
        ]
        tree = repository.with_files(commit.tree, edits)
        parent = done[-1].id if done else commit.parents[0]
        id_ = _plain_commit(repository, tree, parent, commit)
        done.append(Commit(id_, tree, (parent,), commit.when, commit.author, commit.message))
    return done


def _plain_commit(repository: Repository, tree: TreeId, parent: CommitId, like: Commit) -> CommitId:
    who = Identity(settings().name, settings().email, like.when)
    return repository.commit_tree(tree, [parent], like.message, who)


def edited_files(repository: Repository) -> list[str]:
    """The tracked files that differ from HEAD."""
    # a submodule's own commits and edits are not the series'
    words = ("--name-only", "-z", "--no-renames", "--ignore-submodules=all")
    return [path for path in repository.run("diff", *words, "HEAD").text.split("\0") if path]


def _sources_of(work: Workspace, change: Change, commit: Commit) -> list[Source]:
    entries = work.repository.diff(commit.parents[0], commit.id)
    brought = [entry for entry in entries if not entry.old_mode]
    altered = [entry for entry in entries if entry.old_mode]
    text, patch = _places(work, change)
    return [
        Source(text, _text_of(work, change, commit, text)),
        Source(patch, _patch_of(work.repository, commit, altered)),
        *_payload_of(work, change, commit, brought),
    ]


def _text_of(work: Workspace, change: Change, commit: Commit, path: Path) -> bytes:
    told = own_text(commit.message)
    if change.number == 0 and not any(section in told.splitlines() for section in SECTIONS):
        told = template(change.text.title, change.text.body)
    shown = path.relative_to(work.layout.repository).as_posix()
    try:
        ChangeText.parse(told, shown)
    except SeriesError as error:  # it could not be read again
        raise ToolError(
            f"The message of {commit.id[:12]} cannot be the text of {change.id}.",
            why=error.problem,
            next=f"{commands.git(work.repository.folder, 'rebase', '-i', f'{commit.id[:12]}~')} "
            "# reword it",
            code=ExitCode.SERIES,
        ) from None
    return f"{told.rstrip()}\n".encode()


def _patch_of(repository: Repository, commit: Commit, altered: list[Entry]) -> bytes | None:
    paths = [entry.path for entry in altered]
    return repository.patch(commit.parents[0], commit.id, paths) if paths else None


def _payload_of(
    work: Workspace, change: Change, commit: Commit, brought: list[Entry]
) -> list[Source]:
    known = {file.target: file for file in change.files}
    found = []
    for entry in brought:
        file = known.pop(entry.path, None)
        if file and work.repository.stored(file.source) == File(entry.new_mode, entry.new):
            found.append(Source(file.source, b"", entry.new_mode, change.id, same=True))
            continue
        content = work.repository.blob_at(commit.id, entry.path)
        assert content is not None
        path = file.source if file else _new_place(work, change, entry.path)
        found.append(Source(path, content, entry.new_mode, change.id))
    return found + [Source(file.source, None) for file in known.values()]


def _new_place(work: Workspace, change: Change, target: str) -> Path:
    """Where a file goes that is new in its change; one of its stage stays where it is."""
    for one in work.series.all_changes():
        for file in one.files:
            if file.target == target:
                home = PurePosixPath(file.kept_at).parts[0]
                return work.layout.repository / home / change.stage / target
    used = {PurePosixPath(file.kept_at).parts[0] for file in change.files}
    home = settings().home(target)
    if len(used) == 1:
        (home,) = used
    return work.layout.repository / home / change.stage / target


def _refuse_nothing(repository: Repository, there: stack.Stack) -> None:
    stack.refuse_others(
        there,
        next=f"{commands.git(repository.folder, 'rebase', '-i', there.base[:12])} "
        "# squash it into one, "
        f"or give it the trailer {settings().trailer}-Change: <stage>/<new name>",
    )
    if not there.applied:
        raise ToolError(
            "There is nothing to export.",
            why="no change of the series is applied",
            next="make apply",
            code=ExitCode.USAGE,
        )


def _refuse_changed_series(work: Workspace, there: stack.Stack) -> None:
    """Refuses when the series was edited, too, since it was applied."""
    changes = {change.id: change for change in work.series.all_changes()}
    builder = Builder(work.repository, work.series, lambda: None)
    for applied in there.applied:
        change = changes.get(applied.trailers.change)
        if change is None or not applied.as_made:
            continue  # the checkout's word counts
        tree = builder.lay_directly(applied.commit.parents[0], change)
        if tree is None:
            _refuse_merged(work, change, applied.commit)
        elif tree != applied.commit.tree or own_text(applied.commit.message) != change.text.message:
            raise ToolError(
                f"The series' {change.id} was edited since it was applied.",
                why="exporting would undo that edit",
                next=f"{commands.git(work.layout.repository, 'stash')} && make export && "
                + commands.git(work.layout.repository, "stash", "pop"),
            )


def _refuse_merged(work: Workspace, change: Change, commit: Commit) -> None:
    """Refuses a change that fits this base only after a merge, if its files would differ."""
    if any(source.differs for source in _sources_of(work, change, commit)):
        raise ToolError(
            f"{change.id} was merged into this checkout, which has drifted from {work.base.name}.",
            why=f"what it is here does not apply on {work.base.name}, whose patches the series has",
            next=f"make apply {settings().source}= # edit and export in the tool's own",
        )
