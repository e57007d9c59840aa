"""Messages and trailers."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import TEXT
from xpu_stack.core.series.change import (
    ChangeText,
    Trailers,
    compose,
    is_as_made,
    own_text,
    trailers,
)
from xpu_stack.core.system.errors import SeriesError
from xpu_stack.core.system.git import Commit, CommitId, TreeId

_LINE = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=60
).map(str.strip)
_TITLE = _LINE.filter(lambda line: bool(line) and not line.startswith(("XPU-", "ghstack", "Pull")))
_BODY = st.lists(_TITLE, min_size=1, max_size=6).map("\n".join)
_TREE = TreeId("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
_AUTHOR = "A Person <person@example.com>"
_OTHER = TreeId("0" * 40)


def commit(message: str, tree: TreeId = _TREE, author: str = _AUTHOR) -> Commit:
    return Commit(CommitId("1" * 40), tree, (), 0, author, message)


@given(_TITLE, _BODY)
def test_a_message_tells_its_change_and_that_it_is_untouched(title: str, body: str) -> None:
    message = compose(ChangeText(title, body), "device/aten", "device 2/2", _TREE, _AUTHOR)
    found = trailers(message)
    assert found is not None
    assert (found.change, found.stage) == ("device/aten", "device")
    assert is_as_made(commit(message))
    assert own_text(message) == f"{title}\n\n{body}".strip()


@given(_TITLE, _BODY, _TITLE)
def test_any_edit_shows(title: str, body: str, added: str) -> None:
    message = compose(ChangeText(title, body), "device/aten", "device 2/2", _TREE, _AUTHOR)
    assert not is_as_made(commit(message, _OTHER))
    assert not is_as_made(commit(message, author="A Friend <person@example.com>"))
    assert not is_as_made(commit(added + message))
    assert not is_as_made(commit(message.replace("\n\nXPU", f"\n{added}\n\nXPU", 1)))


@given(_TITLE, _BODY)
def test_ghstacks_lines_are_no_edit(title: str, body: str) -> None:
    message = compose(ChangeText(title, body), "device/aten", "device 2/2", _TREE, _AUTHOR)
    added = message + "ghstack-source-id: abc\nPull-Request: https://github.com/o/r/pull/7\n"
    assert is_as_made(commit(added))


def test_of_ghstacks_list_nothing_is_a_persons() -> None:
    text = ChangeText("Add it", "* #12 is related\n* #13\n\n__->__ #14")
    message = compose(text, "device/aten", "device 2/2", _TREE, _AUTHOR)
    assert is_as_made(commit(message))
    assert own_text(message) == text.message
    stack = "Stack from [ghstack](https://example.org) (oldest at bottom):\n* __->__ #2\n* #1\n\n"
    added = message.replace("* #12", f"{stack}* #12")
    assert is_as_made(commit(added))
    assert own_text(added) == text.message


@pytest.mark.parametrize(
    "line",
    [
        "a\0b",
        "a\x1b[31mb",
        "a\rb",
        "a\x85b",
        "a\u2028b",
        "\ufeffa",
        "Stack from [ghstack](https://example.org):",
        "ghstack-source-id: 1",
        "Pull Request resolved: #1",
        "XPU-Stage: device 1/1",
    ],
)
def test_what_a_message_cannot_carry_is_refused(line: str) -> None:
    text = TEXT.format(title="Add it").replace("Because of Add it.", line)
    with pytest.raises(SeriesError) as caught:
        ChangeText.parse(text, "text.md")
    assert caught.value.place == "text.md:5"


@given(st.text(max_size=60))
def test_a_text_that_is_accepted_comes_back(line: str) -> None:
    text = TEXT.format(title="Add it").replace("As it is.", f"As it is.\n{line}\nSo.")
    try:
        found = ChangeText.parse(text, "text.md")
    except SeriesError:
        return
    message = compose(found, "device/aten", "device 2/2", _TREE, _AUTHOR)
    assert own_text(message) == found.message
    assert is_as_made(commit(message))


def test_a_message_of_someone_else() -> None:
    assert trailers("Fix it\n") is None
    assert trailers("Fix it\n\nXPU-Stage: device 1/2\n") is None


def test_a_commit_that_a_person_makes_a_change() -> None:
    assert trailers("Fix it\n\nXPU-Change: device/aten\n") == Trailers("device/aten", "device", "")


SIGNED = "Signed-off-by: A Person <person@example.com>"


def test_what_git_commit_s_adds_is_of_the_text() -> None:
    plain = compose(ChangeText("Add it", "Because."), "a/b", "a 1/1", _TREE, _AUTHOR)
    text = own_text(f"{plain}{SIGNED}\n")
    assert text == f"Add it\n\nBecause.\n\n{SIGNED}"
    signed = compose(ChangeText("Add it", text.split("\n\n", 1)[1]), "a/b", "a 1/1", _TREE, _AUTHOR)
    # one block of trailers, with the signature last: git then adds no second
    assert signed.splitlines()[-2].startswith("XPU-Digest: ")
    assert signed.splitlines()[-1] == SIGNED
    assert is_as_made(commit(signed))
    assert own_text(signed) == text
    assert not is_as_made(commit(f"{plain}{SIGNED}\n"))


def test_a_stack_that_was_applied_before_changes_had_authors() -> None:
    digest = hashlib.sha256(f"Add it\n\nBecause.\0{_TREE}".encode()).hexdigest()
    message = f"Add it\n\nBecause.\n\nXPU-Change: a/b\nXPU-Stage: a 1/1\nXPU-Digest: {digest}\n"
    assert is_as_made(commit(message))
    assert not is_as_made(commit(message, _OTHER))
