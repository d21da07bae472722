"""A real browser for the tests that need one.

Invariant: no test passes by luck of a missing browser: it is skipped with one reason, or fails when
SPECDEC_REQUIRE_BROWSER=1. It does not know what the pages show.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.browser.lab import Server, served
from tests.browser.units import JUPYTER, Units

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need the Python package playwright")

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no browser found (looked for chromium, chromium-browser, google-chrome); on Debian: apt-get install chromium"
ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
SIZE: sync_api.ViewportSize = {"width": 1280, "height": 900}


@dataclass
class Recorded:
    """What a page did besides drawing: console errors, uncaught errors, requests."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, page: sync_api.Page) -> None:
        """Record everything that `page` does from now on."""
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("request", lambda r: self.requests.append(r.url))


@pytest.hookimpl(optionalhook=True)  # without xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Units:
    """With several workers, share out units."""
    return Units(config, log)


@pytest.fixture(scope="session")
def browser() -> Iterator[sync_api.Browser]:
    """A headless Chromium, one for the whole session."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("SPECDEC_REQUIRE_BROWSER") == "1":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def lab(browser: sync_api.Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab, one for the whole session; asks for `browser` first, which may skip."""
    yield from served(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def recorded() -> Recorded:
    """The record that the `page` fixture writes to."""
    return Recorded()


@pytest.fixture(scope="session")
def lab_context(browser: sync_api.Browser) -> Iterator[sync_api.BrowserContext]:
    """One cache for all pages of JupyterLab: its megabytes of scripts are read once."""
    context = browser.new_context(viewport=SIZE)
    yield context
    context.close()


@pytest.fixture
def page(browser: sync_api.Browser, recorded: Recorded, request: pytest.FixtureRequest) -> Iterator[sync_api.Page]:
    """A fresh page of 1280 × 900 whose console errors and requests are in `recorded`."""
    if "lab" in request.fixturenames:
        assert request.path.name in JUPYTER, f"name {request.path.name} in tests/browser/units.py: one server is enough"
        fresh = request.getfixturevalue("lab_context").new_page()
    else:
        fresh = browser.new_page(viewport=SIZE)
    recorded.watch(fresh)
    yield fresh
    fresh.close()
