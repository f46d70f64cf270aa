"""A person in front of a browser window: what they open, what they see, and what went wrong in the page."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Chromium does not start as root with its sandbox, and calls nobody at its start."""
SCREENSHOTS = Path("build/screenshots")
AXE = Path("web/node_modules/axe-core/axe.min.js")
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}


class Visitor:
    """A window with cookies and storage of its own.

    expected: a pattern for lines of the page's console that are no fault, such as that of a request that must fail.
    """

    def __init__(
        self, browser: Browser, url: str, name: str, *, phone: bool = False, dark: bool = False, **options: Any
    ):
        self.url = url
        self.expected: re.Pattern[str] | None = None
        self._name = re.sub(r"\W+", "-", name).strip("-")
        self._problems: list[str] = []
        self._context = browser.new_context(
            base_url=url,
            viewport=PHONE if phone else DESKTOP,
            has_touch=phone,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            service_workers="block",
            **options,
        )
        self._context.set_default_timeout(20_000)
        self.page = self.new_page()

    def new_page(self) -> Page:
        page = self._context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._problems.append(f"the page failed: {error}"))
        page.on("request", self._see)
        return page

    def screenshot(self, title: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{self._name}-{title}.png", full_page=True)

    def violations(self) -> list[str]:
        """What axe finds that is serious or worse."""
        # As an expression of the debugger, because the page's policy forbids foreign scripts.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def set_offline(self, offline: bool) -> None:
        self._context.set_offline(offline)

    def close(self) -> list[str]:
        """Closes the window; what was wrong with its pages."""
        if self._problems:
            self.screenshot("problem")
        self._context.close()
        return self._problems

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (self.expected and self.expected.search(message.text)):
            self._problems.append(f"the console says: {message.text}")

    def _see(self, request: Request) -> None:
        found = urlsplit(request.url)
        if found.scheme not in ("data", "blob") and f"{found.scheme}://{found.netloc}" != self.url:
            self._problems.append(f"a request to another origin: {request.url}")
