"""The pictures in the README, taken from the demo's report: ``make demo``, then ``python -m tests.screenshots``.

Look at them before they are committed: no word may be cut or lie on another.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser import chromium, visit

DOCS = Path(__file__).resolve().parent.parent / "docs"
REPORT = Path("out/demo/report/report.html")
WIDTH = 1100
TOP_UNTIL = "#why"
"""Where the picture of the top ends."""
PARTS = {"benefit.png": "#benefit"}
"""Picture and the part of the page that it shows."""


def take(report: Path, folder: Path) -> list[Path]:
    """Take every picture of a report, and give their paths."""
    top = folder / "report.png"
    with chromium() as browser, visit(browser, report.resolve(), width=WIDTH) as found:
        found.page.add_style_tag(content=".bar{position:static!important}")
        until = found.page.locator(TOP_UNTIL).bounding_box()
        height = until["y"] if until else WIDTH
        found.page.screenshot(path=top, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        for name, selector in PARTS.items():
            found.page.locator(selector).screenshot(path=folder / name)
    return [top, *(folder / name for name in PARTS)]


if __name__ == "__main__":
    for path in take(Path(sys.argv[1]) if len(sys.argv) > 1 else REPORT, DOCS):
        print(path)
