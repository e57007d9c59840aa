"""The pages in a real browser: Debian's Chromium, headless, from the disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium
from project import Project, git
from test_review import edit, pages
from workspace import workspace
from xpu_stack.build.configuration import Mode, Outcome, Record, results_of
from xpu_stack.core.move import stack

NAMES = ["index", "device-runtime", "device-aten", "stream-stream"]
LONG = "int " + "_".join(["a_very_long_name"] * 20) + ";\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a stack that has everything a page can show."""
    folder = tmp_path_factory.mktemp("site")
    project = Project.make(folder)
    project.ok("apply")
    git(project.checkout, "tag", "first")
    with (project.folder / "aten_xpu/device/aten/Hooks.cpp").open("a") as file:
        file.write(LONG)
    edit(
        project.folder / "patches/texts/device/runtime.md", "As it is.", f"As it is.\n\n    {LONG}"
    )
    project.ok("apply")
    with workspace(project) as work:
        for one in stack.read(work.repository).applied:
            outcome = Outcome(passed=3, skipped=1, reasons={"x" * 200: 1}, failures=["y" * 200])
            record = Record(True, {one.trailers.change: outcome})
            results_of(work, Mode.FAST).put(one.commit.tree, record)
    return pages(project, folder / "review", "first")


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(running: Browser) -> Browser:
    running.resize(1280)
    running.prefer("light")
    running.complaints()
    return running


@pytest.mark.parametrize("name", NAMES)
def test_the_console_is_silent_and_nothing_is_missing(
    browser: Browser, site: Path, name: str
) -> None:
    browser.open(site / f"{name}.html")
    sheets = browser.run("return [...document.styleSheets].map(one => one.href)")
    assert sheets == [(site / "review.css").as_uri()]
    for key in "jjkoxx?":
        browser.press(key)
    assert browser.complaints() == []


def test_every_link_opens(browser: Browser, site: Path) -> None:
    seen, waiting = set(), [(site / "index.html").as_uri()]
    while waiting:
        url = waiting.pop()
        seen.add(url)
        browser.driver.get(url)
        found = browser.run("return [...document.links].map(one => one.href.baseVal ?? one.href)")
        waiting += [
            link
            for link in {
                browser.run(f"return new URL({link!r}, document.baseURI).href.split('#')[0]")
                for link in found
            }
            if link not in seen and link not in waiting and link.endswith(".html")
        ]
    assert seen == {(site / f"{name}.html").as_uri() for name in NAMES}
    assert browser.complaints() == []


def test_keys_go_through_the_stack(browser: Browser, site: Path) -> None:
    browser.open(site / "index.html")
    browser.press("j")
    browser.press("j")
    at = "return document.querySelector('.at')?.dataset.change"
    assert browser.run(at) == "device-aten"
    browser.press("k")
    assert browser.run(at) == "device-runtime"
    browser.press("o")
    assert browser.page == "device-runtime.html"
    browser.press("\ue014")  # right
    assert browser.page == "device-aten.html"
    browser.press("n")
    browser.press("n")  # there is no further one
    assert browser.page == "stream-stream.html"
    browser.press("\ue012")  # left
    browser.press("p")
    assert browser.page == "device-runtime.html"
    browser.press("u")
    assert browser.page == "index.html"


def test_keys_fold_files(browser: Browser, site: Path) -> None:
    browser.open(site / "device-runtime.html")
    opened = "return [...document.querySelectorAll('.file')].map(file => file.open)"
    assert browser.run(opened) == [True, True, True]
    browser.press("j")
    browser.press("j")
    browser.press("o")
    assert browser.run(opened) == [True, False, True]
    browser.press("x")
    assert browser.run(opened) == [False, False, False]
    browser.open(site / "device-runtime.html", "#file-2")
    browser.press("x")
    browser.run("location.hash = ''; location.hash = '#file-2'")
    browser.run("return new Promise(done => setTimeout(done, 0))")
    assert browser.run(opened) == [False, True, False]


def test_the_help_opens_and_closes(browser: Browser, site: Path) -> None:
    browser.open(site / "device-aten.html")
    shown = "return document.getElementById('help').open"
    assert not browser.run(shown)
    browser.press("?")
    assert browser.run(shown)
    browser.press("n")  # keys of the page wait
    assert browser.page == "device-aten.html"
    browser.press("\ue00c")  # escape
    assert not browser.run(shown)


def luminance(colour: str) -> float:
    red, green, blue = (
        float(part) for part in colour[colour.index("(") + 1 :].rstrip(")").split(",")[:3]
    )
    parts = [
        c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
        for c in (red, green, blue)
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def background(browser: Browser) -> float:
    return luminance(browser.run("return getComputedStyle(document.body).backgroundColor"))


def test_light_and_dark_by_preference_and_by_choice(browser: Browser, site: Path) -> None:
    page = site / "device-aten.html"
    browser.open(page)
    assert background(browser) > 0.8
    browser.prefer("dark")
    assert background(browser) < 0.1
    browser.press("t")
    assert background(browser) > 0.8
    browser.open(site / "index.html")  # the choice lasts
    assert background(browser) > 0.8
    browser.run("localStorage.clear()")


# The page's own text, and the code of every kind there is in it.
CONTRAST = """
const shown = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
};
return [...document.querySelectorAll("main *, header *")]
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .filter((one) => one.checkVisibility())
  .map((one) => [one.className.baseVal ?? one.className, one.textContent.slice(0, 30),
                 getComputedStyle(one).color, shown(one)]);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_text_stands_out(browser: Browser, site: Path, name: str, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(site / f"{name}.html")
    weak = []
    for kind, text, ink, paper in browser.run(CONTRAST):
        low, high = sorted((luminance(ink), luminance(paper)))
        if (high + 0.05) / (low + 0.05) < 4.5:
            weak.append((kind, text, ink, paper))
    assert weak == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("name", NAMES)
def test_no_width_scrolls_sideways(browser: Browser, site: Path, name: str, width: int) -> None:
    browser.resize(width)
    browser.open(site / f"{name}.html")
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_the_rows_are_as_high_as_the_graph(browser: Browser, site: Path) -> None:
    for width in (390, 1280):
        browser.resize(width)
        browser.open(site / "index.html")
        places = browser.run(
            "return [...document.querySelectorAll('.row[data-change]')].map(row => {"
            "const middle = (box) => box.y + box.height / 2;"
            "const node = document.querySelector(`.node[data-change='${row.dataset.change}']`);"
            "return middle(row.getBoundingClientRect()) - middle(node.getBoundingClientRect())})"
        )
        assert len(places) == 3
        assert all(abs(place) < 2 for place in places)


def test_on_paper_all_is_open_and_light(browser: Browser, site: Path) -> None:
    browser.prefer("dark")
    browser.open(site / "device-runtime.html")
    browser.press("x")
    opened = "return [...document.querySelectorAll('details')].every(one => one.open)"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(opened)
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not browser.run(opened)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert background(browser) > 0.8
    assert browser.run("return getComputedStyle(document.querySelector('.top')).display") == "none"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_pages_are_whole_without_scripts(browser: Browser, site: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(site / "device-runtime.html")
        text = browser.driver.find_element("tag name", "main").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "Because of Add devices." in text
    assert "int device;" in text
