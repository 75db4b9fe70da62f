"""A real Chromium for tests of pages: Debian's, driven by Playwright, without network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PATIENCE_MS = 180_000
"""How long anything may take: a loaded machine with two cores is slow, which is no fault of the page."""
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Visit:
    """A page and what its console said while it was open."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    seconds_to_open: float | None = None
    """Processor time of the page's thread until its content is there; only where it was ``measured``."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none, except in continuous integration."""
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is needed here and not installed: apt-get install chromium.")
        pytest.skip("Chromium is not installed: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(ARGUMENTS), chromium_sandbox=False, timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(
    browser: Browser,
    path: Path,
    *,
    width: int = 1200,
    height: int = 900,
    dark: bool = False,
    scripts: bool = True,
    measured: bool = False,
) -> Iterator[Visit]:
    """A page opened from a file, offline, once its charts are drawn."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        offline=True,
        java_script_enabled=scripts,
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        found = Visit(context.new_page())
        found.page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("requestfailed", lambda request: found.complaints.append(f"asked for {request.url[:200]}"))
        if measured:
            session = context.new_cdp_session(found.page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            found.page.goto(path.as_uri(), wait_until="domcontentloaded")
            spent = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
            found.seconds_to_open = float(spent["TaskDuration"])
        else:
            found.page.goto(path.as_uri())
        if scripts:
            found.page.wait_for_selector("html[data-charts=drawn]")
        yield found
    finally:
        context.close()
