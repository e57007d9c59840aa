"""ghstack's own configuration, read without ever asking a person on the way."""

import configparser
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ghstack.config
import ghstack.github
import ghstack.github_real

from xpu_stack.core.system.errors import MissingError


@dataclass(frozen=True)
class Account:
    """Who submits, where to, and the way there."""

    username: str
    host: str  # github.com, or a company's own
    remote: str
    endpoint: ghstack.github.GitHubEndpoint


def configured(checkout: Path) -> Account:
    """The account that ghstack would use in this checkout."""
    with _within(checkout):
        _refuse_incomplete()
        config = ghstack.config.read_config()
    return Account(
        config.github_username,
        config.github_url,
        config.remote_name,
        ghstack.github_real.RealGitHubEndpoint(
            oauth_token=config.github_oauth,
            proxy=config.proxy,
            github_url=config.github_url,
            max_retries=config.max_retries,
            initial_backoff_seconds=config.initial_backoff_seconds,
        ),
    )


def _refuse_incomplete() -> None:
    # What is missing, ghstack asks for at the terminal, or in a browser.
    path, _ = ghstack.config.find_config_path()
    config = configparser.ConfigParser()
    config.read(path)
    given = set(config["ghstack"]) if config.has_section("ghstack") else set()
    wanted = {"github_url", "github_username"}
    if not ghstack.config.is_gh_cli_available() and "OAUTH_TOKEN" not in os.environ:
        wanted.add("github_oauth")
    missing = sorted(wanted - given)
    if missing:
        raise MissingError(
            "ghstack is not configured.",
            why=f"{path} lacks {', '.join(missing)} in [ghstack]",
            next=f"write them into {path}; a token needs the scope 'repo'",
        )


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    """ghstack looks for its file from the current folder upwards."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
