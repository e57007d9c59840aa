"""A headless Chromium for the tests of the pages.

Debian's chromium and chromium-driver, which are of one version; nothing is
downloaded, and the browser reads files from the disk alone.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_FLAGS = (
    "--headless",
    # in a container there is no user namespace for the sandbox
    "--no-sandbox",
    "--disable-gpu",
    # /dev/shm is 64 MB in a container
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """The browser; skips the test where it is not installed."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("needs Debian's chromium and chromium-driver")
    options = Options()
    options.binary_location = str(programs[0])
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """What the tests ask of it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, fragment: str = "") -> None:
        self.driver.get(page.as_uri() + fragment)

    @property
    def page(self) -> str:
        return self.driver.current_url.rsplit("/", 1)[1]

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def complaints(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def resize(self, width: int, height: int = 900) -> None:
        """The size of the page itself, as on a phone; a window has a least width."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def prefer(self, scheme: str) -> None:
        """What the person's system prefers: light or dark."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )

    def shoot(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))
