"""The stack as mail: a cover letter and one file per change, for `git am`."""

from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, files
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.core.system.git import Identity
from xpu_stack.report.publisher import Publisher

# The same stack gives the same files, whatever git's configuration says. Only the
# name and address of the sender are taken from there:
_FORM = (
    # a line "From 000...": the id of a commit is no part of a patch
    "--zero-commit",
    # the last line would be the version of git
    "--no-signature",
    # blobs by whole ids, so that `git am --3way` finds them, and as long as
    # in any other repository
    "--full-index",
    # a binary file in full: what is left out cannot be applied
    "--binary",
    # a moved file as a move
    "--find-renames",
    # what diff.context, diff.interHunkContext and diff.algorithm may change
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=histogram",
    # diff.noprefix and diff.mnemonicPrefix would spoil `git am`
    "--src-prefix=a/",
    "--dst-prefix=b/",
    # files in the order of their names, whatever diff.orderFile says
    "-O/dev/null",
    # a person's own viewers, filters, colours
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    # lines of the diffstat as wide as mail is
    "--stat=72",
    # a person's notes are not ours to send
    "--no-notes",
    # the base is named in the cover letter
    "--no-base",
    # [PATCH n/m] even where there is one
    "--numbered",
    "--subject-prefix=PATCH",
    "--suffix=.patch",
    "--filename-max-length=64",
    # in the text, whatever format.attach says
    "--no-attach",
    # Message-Id has the time of day in it; git send-email makes the thread
    "--no-thread",
    # From: is the author, with no second line that says so
    "--no-from",
    "--no-signoff",
    "--encoding=UTF-8",
    # recipients are the sender's to add, and no part of the files
    "--no-to",
    "--no-cc",
    "--no-add-header",
)
_SETTINGS = (
    # an empty line of context keeps its blank
    "diff.suppressBlankEmpty=false",
    # the cover letter is written here, not taken from the branch's description
    "format.coverFromDescription=default",
)


def write(work: Workspace, out: Path) -> list[Path]:
    """Writes the mails to the folder `out`, in place of earlier ones.

    The first is the cover letter. `git am` gives the same trees and messages
    on the base that the stack stands on.
    """
    # the folder is replaced as a whole; it must not be someone's own
    if out.is_file() or (out.exists() and any(one.suffix != ".patch" for one in out.iterdir())):
        raise ToolError(
            f"{out} is not replaced.",
            why="it is not a folder of mails alone",
            next=commands.line("mv", out, f"{out}.mine"),
        )
    repository, there = work.repository, stack.read(work.repository)
    stack.refuse_foreign(repository, there)
    if not there.applied:
        raise MissingError(
            "There is no stack to write.",
            why=f"{repository.folder} holds the base alone",
            next=commands.make("apply"),
        )
    publisher = Publisher.of(work, [one.commit for one in there.applied])
    tip = there.base
    for one in there.applied:
        tip = publisher.commit(repository, one.commit, tip)
    # The cover letter is by who sends it, and has the date of the last commit.
    who = Identity.of(publisher.sender, there.applied[-1].commit.when)
    with files.folder(out) as draft:
        repository.run(
            *(word for setting in _SETTINGS for word in ("-c", setting)),
            "format-patch",
            *_FORM,
            "--cover-letter",
            f"--output-directory={draft}",
            f"{there.base}..{tip}",
            env=who.environment(),
        )
        _fill_cover(draft / "0000-cover-letter.patch", work, there)
    return sorted(out.iterdir())


def _fill_cover(path: Path, work: Workspace, there: Stack) -> None:
    stages = list(dict.fromkeys(one.trailers.stage for one in there.applied))
    subject = f"XPU for PyTorch {work.base.name}: {stages[0]}"
    if len(stages) > 1:
        subject += f" to {stages[-1]}"
    text = path.read_text(encoding="utf-8")
    # git's two placeholders, before the list of titles, which may be anything
    text = text.replace("*** SUBJECT HERE ***", subject, 1)
    text = text.replace("*** BLURB HERE ***", _blurb(work, there), 1)
    path.write_text(text, encoding="utf-8")


def _blurb(work: Workspace, there: Stack) -> str:
    summaries = {stage.name: stage.summary for stage in work.series.stages}
    lines = [
        f"This series applies to PyTorch {work.base.name}, the tree",
        f"{work.repository.tree_of(there.base)}, with",
        "",
        # this letter is the empty one; --keep-cr for files that have CRLF
        "    git am --keep-cr --empty=drop *.patch",
        "",
        "and to a tree that has moved on with --3way besides. A stage is a run of",
        "changes that leaves the tree building and its tests passing.",
        "",
    ]
    for number, one in enumerate(there.applied, start=1):
        stage = one.trailers.stage
        if number == 1 or there.applied[number - 2].trailers.stage != stage:
            lines.append(f"{stage}: {summaries.get(stage, '')}".rstrip(": "))
        lines.append(f"  {number}. {one.commit.message.splitlines()[0]}")
    return "\n".join(lines)
