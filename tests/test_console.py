"""Commands that are shown are for the checkout that this one works on."""

import pytest
from xpu_stack import console


@pytest.fixture(autouse=True)
def own_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_own_checkout", None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("make continue, or make abort", "make continue {}, or make abort {}"),
        ("resolve; then: make continue.", "resolve; then: make continue {}."),
        ("make rebase ONTO=main STAGE=event", "make rebase ONTO=main STAGE=event {}"),
        ("make apply DROP=a/b,c/d # or so", "make apply DROP=a/b,c/d {} # or so"),
        ("make apply ONTO=<ref, or path> too", "make apply ONTO=<ref, or path> {} too"),
        ("make apply PYTORCH_SRC=/elsewhere", "make apply PYTORCH_SRC=/elsewhere"),
        ("make apply PYTORCH_SRC= # its own", "make apply PYTORCH_SRC= # its own"),
        ("make check", "make check"),  # takes no checkout
        ("git stash && make apply && git stash pop", "git stash && make apply {} && git stash pop"),
    ],
)
def test_commands_name_the_checkout(text: str, shown: str) -> None:
    console.works_in("my fork", {"apply", "continue", "abort", "rebase"})
    assert console.as_typed(text) == shown.replace("{}", "PYTORCH_SRC='my fork'")


def test_without_a_checkout_of_ones_own_a_text_stays() -> None:
    assert console.as_typed("make continue") == "make continue"
