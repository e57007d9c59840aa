"""The project itself, with a state folder of its own, as people use it."""

import os
import shutil
import subprocess
from pathlib import Path

from project import ROOT, git


class Home:
    """A state folder, and make with it."""

    def __init__(self, folder: Path, project: Path = ROOT) -> None:
        self.folder = folder
        self.project = project
        self.checkout = folder / "pytorch-v1.13.1"

    def copied(self, into: Path) -> "Home":
        """A copy of the project, whose series may be edited, on the same checkout."""
        project = into / "project"
        skipped = shutil.ignore_patterns(".git", ".xpu", "__pycache__", ".*_cache")
        shutil.copytree(self.project, project, ignore=skipped)
        git(project, "init", "-q")
        git(project, "add", "-A")
        git(project, "commit", "-qm", "The series")
        return Home(self.folder, project)

    def start_over(self) -> None:
        """The checkouts are as they were fetched, without a stack."""
        shutil.rmtree(self.folder / "work", ignore_errors=True)
        for checkout in self.folder.glob("pytorch-*"):
            git(checkout, "checkout", "-qf", "base")
            git(checkout, "clean", "-qfd")
            git(checkout, "worktree", "prune")
            for ref in git(checkout, "for-each-ref", "--format=%(refname)").split():
                if ref != "refs/heads/base":
                    git(checkout, "update-ref", "-d", ref)
        if not self.checkout.exists():
            self.ok("apply", "STAGE=base")

    def in_order(self, *others: str) -> None:
        """The series is valid, on both bases."""
        for base in ("v1.13.1", "v2.13", *others):
            assert "are in order" in self.ok("check", f"BASE={base}")

    def make(self, *words: str) -> "subprocess.CompletedProcess[str]":
        kept = {
            key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "STAGE")
        }
        return subprocess.run(
            ["make", *words],
            cwd=self.project,
            env={**kept, "XPU_STACK_HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.make(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout
