"""The stack as mail: a cover letter and one file per change, for `git am`."""

import os
from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.move.stack import Stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, files, pages
from xpu_stack.core.system.errors import MissingError, ToolError
from xpu_stack.core.system.git import Repository, as_person
from xpu_stack.report.sending import as_sent, borrowed, sender

_COVER = Path(__file__).parent / "templates" / "cover.txt"


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
    commits = [one.commit for one in there.applied]
    person, tip = sender(work, commits), there.base
    for commit in commits:
        tip = as_sent(repository, commit, person, tip)
    # The cover letter is by who sends it, and has the date of the last commit.
    who = as_person(person, commits[-1].when, "AUTHOR", "COMMITTER")
    with files.folder(out) as draft:
        _format(repository, f"{there.base}..{tip}", who, draft)
        _fill_cover(draft / "0000-cover-letter.patch", work, there)
    return sorted(out.iterdir())


def _format(repository: Repository, commits: str, who: dict[str, str], out: Path) -> None:
    """The same commits give the same files: git reads no settings and no notes of a person.

    So it runs in a repository that has the checkout's objects, and nothing else.
    """
    env = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **who}
    with borrowed(repository) as beside:
        beside.run(
            "format-patch",
            "--zero-commit",  # in the line "From": the same patch for commits with other ids
            "--no-signature",  # the last line would be the version of git
            # blobs by whole ids, so that `git am --3way` finds them, and as long as
            # in any other repository
            "--full-index",
            "--diff-algorithm=histogram",  # keeps functions together where lines repeat
            "--stat=72",  # lines of the diffstat as wide as mail is
            "--numbered",  # [PATCH n/m] even where there is one
            "--cover-letter",
            f"--output-directory={out}",
            commits,
            env=env,
        )


def _fill_cover(path: Path, work: Workspace, there: Stack) -> None:
    blurb = pages.render(
        _COVER,
        base=work.base.name,
        tree=work.repository.tree_of(there.base),
        summaries={stage.name: stage.summary for stage in work.series.stages},
        applied=there.applied,
    )
    first, last = there.applied[0].trailers.stage, there.stage
    subject = f"XPU for PyTorch {work.base.name}: {first}{f' to {last}' if last != first else ''}"
    text = path.read_text(encoding="utf-8")
    # git's two placeholders, before the list of titles, which may be anything
    text = text.replace("*** SUBJECT HERE ***", subject, 1)
    text = text.replace("*** BLURB HERE ***", blurb.rstrip("\n"), 1)
    path.write_text(text, encoding="utf-8")
