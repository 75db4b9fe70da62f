"""The page in a real browser: offline, in both schemes, on a phone, on paper, by keyboard, and against hostile text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from specledger.reports import html, trend_page
from specledger.reports.charts import CHARTS
from tests.browser import Visit, chromium, visit
from tests.sample_nights import fleet, hostile_nights, long_report
from tests.sample_reports import example, hostile, no_data, not_comparable, one_request

WIDE, PHONE = 1200, 360
PAGES: dict[str, Callable[[], str]] = {
    "example": lambda: html.render(example()),
    "hostile": lambda: html.render(hostile()),
    "no_data": lambda: html.render(no_data()),
    "not_comparable": lambda: html.render(not_comparable()),
    "one_request": lambda: html.render(one_request()),
    "nights": lambda: trend_page.render(fleet(3, 40)),
    "hostile nights": lambda: trend_page.render(hostile_nights()),
}
LARGE: dict[str, Callable[[], str]] = {
    "report": lambda: html.render(long_report()),
    "nights": lambda: trend_page.render(fleet(20, 90)),
}
"""Ninety nights of twenty deployments."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name](), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def seen(browser: Browser, pages: dict[str, Path]) -> Iterator[Callable[..., Visit]]:
    """``seen(name, width=…, dark=…)``: a page that stays open for all tests that only look at it."""
    with ExitStack() as stack:

        @cache
        def open_page(name: str, width: int = WIDE, dark: bool = False) -> Visit:
            return stack.enter_context(visit(browser, pages[name], width=width, dark=dark))

        yield open_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_offline_without_a_word_on_the_console(seen: Callable[..., Visit], name: str) -> None:
    assert seen(name, width=WIDE, dark=True).complaints == []


def test_every_chart_draws_marks(seen: Callable[..., Visit]) -> None:
    drawn = seen("example", width=WIDE, dark=True).page.evaluate(
        """() => Object.fromEntries(Array.from(document.querySelectorAll("figure.chart"), (figure) => [
          figure.id.replace("figure-", ""),
          [
            figure.querySelectorAll(".plot svg [aria-roledescription]:not([role=graphics-object])").length,
            Array.from(figure.querySelectorAll(".plot svg text"), (text) => text.textContent).join(" "),
          ],
        ]))"""
    )
    assert set(drawn) == set(CHARTS)
    for name, (marks, words) in drawn.items():
        assert marks >= min(len(CHARTS[name].rows(example())), 3), name
        assert not [word for word in ("NaN", "undefined", "null", "…") if word in words], name


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(seen: Callable[..., Visit], name: str) -> None:
    page = seen(name, width=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert (
        page.evaluate(
            """() => Array.from(document.querySelectorAll(".plot svg"))
          .filter((svg) => svg.getBoundingClientRect().width > svg.parentNode.getBoundingClientRect().width + 1)
          .map((svg) => svg.closest("figure").id)"""
        )
        == []
    )


@pytest.mark.parametrize(("width", "dark"), [(PHONE, False), (WIDE, True)])
def test_no_words_of_a_chart_lie_on_each_other_or_are_cut(seen: Callable[..., Visit], width: int, dark: bool) -> None:
    assert seen("example", width=width, dark=dark).page.evaluate(OVERLAPS) == []


OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll(".plot svg")) {
    const name = svg.closest("figure").id, frame = svg.getBoundingClientRect();
    const words = Array.from(svg.querySelectorAll("text"))
      .filter((text) => text.textContent.trim() && getComputedStyle(text).opacity !== "0")
      .map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    for (const [text, box] of words)
      if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${name}: ${text} is cut`);
    for (let i = 0; i < words.length; i++) for (let j = i + 1; j < words.length; j++) {
      const [a, p] = words[i], [b, q] = words[j];
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > 2 && down > 4) found.push(`${name}: ${a} on ${b}`);
    }
  }
  return found;
}"""


def column(page: Page, table: str, index: int) -> list[str]:
    """The texts of one column of a table, from top to bottom."""
    return [text.strip() for text in page.locator(f"#table-{table} tbody td:nth-child({index})").all_inner_texts()]


@pytest.fixture(scope="module")
def used(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    """The example, for tests that click through it; each leaves nothing open."""
    with visit(browser, pages["example"]) as found:
        yield found.page


def test_a_table_is_sorted_by_value_and_back(used: Page) -> None:
    header = used.locator("#table-splits th:nth-child(2)")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(used, "splits", 2) == ["+4.0", "+6.4", "+9.6", "+11.1", "+11.4"]
    header.get_by_role("button").press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(used, "splits", 2) == ["+11.4", "+11.1", "+9.6", "+6.4", "+4.0"]


def test_what_is_not_known_is_sorted_last_either_way(used: Page) -> None:
    used.locator("summary", has_text="Pass:").click()
    button = used.locator("#table-gates-pass th:nth-child(6)").get_by_role("button")
    for _ in range(2):
        button.click()
        known = [text not in {"", "–"} for text in column(used, "gates-pass", 6)]
        assert known == sorted(known, reverse=True)
        assert len(set(known)) == 2


def test_a_table_is_copied_as_tab_separated_text(used: Page) -> None:
    used.locator("#table-effects .copy").click()
    used.get_by_text("Copied").wait_for()
    copied = used.evaluate("navigator.clipboard.readText()").splitlines()
    assert copied[0].split("\t")[:4] == ["Measure", "Within", "Mix", "Whole change"]
    assert copied[1].split("\t")[:4] == ["Acceptance length", "−9.1 %", "−1.2 %", "−10.3 %"]


def test_no_copied_cell_is_a_formula(seen: Callable[..., Visit]) -> None:
    page = seen("hostile", width=WIDE, dark=True).page
    page.locator("#table-gates-fail .copy").click()
    page.get_by_text("Copied").wait_for()
    cells = page.evaluate("navigator.clipboard.readText()").replace("\n", "\t").split("\t")
    assert "'=HYPERLINK(1)" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


def test_a_definition_opens_by_keyboard_and_closes_with_escape(used: Page) -> None:
    used.locator("#figure-speedup .basis a[data-term=t0_ms]").press("Enter")
    shown = used.locator("#popover")
    assert "TPOT without speculation" in shown.inner_text()
    assert shown.is_visible()
    used.keyboard.press("Escape")
    assert not shown.is_visible()


def test_a_point_tells_its_figures(used: Page) -> None:
    used.locator("#figure-survival").scroll_into_view_if_needed()
    used.locator("#figure-survival .plot path[aria-roledescription=point]").first.hover()
    shown = used.locator("#vg-tooltip-element.visible")
    shown.wait_for()
    assert "Survival" in shown.inner_text()


def colours(page: Page) -> tuple[str, str]:
    """Background of the page, and colour of the candidate's first point."""
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    point = page.evaluate(
        "getComputedStyle(document.querySelector('#figure-survival .plot path[aria-roledescription=point]')).stroke"
    )
    return background, point


def test_the_page_follows_the_system_and_the_button(browser: Browser, pages: dict[str, Path]) -> None:
    with visit(browser, pages["example"]) as light, visit(browser, pages["example"], dark=True) as dark:
        assert colours(light.page)[0] == "rgb(245, 246, 248)"
        assert colours(dark.page)[0] == "rgb(14, 17, 22)"
        assert colours(light.page)[1] != colours(dark.page)[1]
        light.page.get_by_role("button", name="Dark", exact=True).click()
        assert colours(light.page) == colours(dark.page)
        dark.page.get_by_role("button", name="Light", exact=True).click()
        light.page.get_by_role("button", name="Light", exact=True).click()
        assert colours(light.page) == colours(dark.page)


def test_paper_is_white_and_has_the_charts(browser: Browser, pages: dict[str, Path]) -> None:
    with visit(browser, pages["example"], dark=True) as found:
        found.page.emulate_media(media="print")
        assert found.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == "#1a1f26"
        assert found.page.locator("#figure-split .plot svg").is_visible()
        assert not found.page.locator("header.bar").is_visible()
        assert found.page.pdf(format="A4").count(b"/Type /Page\n") + 1 >= 3


def test_without_scripts_there_are_pictures_and_tables(browser: Browser, pages: dict[str, Path]) -> None:
    with visit(browser, pages["example"], scripts=False) as found:
        assert found.page.locator("#figure-speedup .plot svg").is_visible()
        assert found.page.locator("#table-gates-fail").is_visible()
        assert not found.page.locator("#theme").is_visible()


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [*((name, PHONE, False) for name in PAGES), ("example", WIDE, True), ("nights", WIDE, True)],
)
def test_the_accessibility_checker_finds_nothing_serious(
    seen: Callable[..., Visit], name: str, width: int, dark: bool
) -> None:
    page = seen(name, width=width, dark=dark).page
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    violations = Axe().run(page).response["violations"]
    serious = [
        f"{violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in violations
        if violation["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_hostile_labels_do_nothing_and_can_be_read(seen: Callable[..., Visit]) -> None:
    found = seen("hostile", width=PHONE)
    found.page.locator("#figure-speedup").scroll_into_view_if_needed()
    found.page.locator("#figure-speedup .plot path[aria-roledescription=point]").first.hover()
    found.page.locator("#vg-tooltip-element.visible").wait_for()
    assert found.page.locator("#vg-tooltip-element script, #vg-tooltip-element img").count() == 0
    assert found.page.evaluate("window.pwned") is None
    assert found.page.locator("img").count() == 0
    assert "</script><script>window.pwned=1</script>" in found.page.locator("#table-gates-fail").inner_text()
    assert found.complaints == []


@pytest.fixture(scope="module")
def plain_table(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> float:
    """Processor seconds until this browser can show 40,000 numbers in a table without any style."""
    path = tmp_path_factory.mktemp("plain") / "table.html"
    row = f"<tr>{'<td>1.125</td>' * 10}</tr>\n"
    path.write_text(f'<!doctype html><html data-charts="drawn"><table>{row * 4_000}</table>', encoding="utf-8")
    spent = []
    for _ in range(3):
        with visit(browser, path, measured=True) as found:
            assert found.seconds_to_open is not None
            spent.append(found.seconds_to_open)
    return sorted(spent)[1]


@pytest.mark.parametrize("name", LARGE)
def test_ninety_nights_of_twenty_deployments_open_like_a_large_table(
    browser: Browser, tmp_path: Path, plain_table: float, name: str
) -> None:
    path = tmp_path / "large.html"
    path.write_text(LARGE[name](), encoding="utf-8")
    spent = []
    for _ in range(3):
        with visit(browser, path, measured=True) as found:
            # Until the page can be read and used: pictures of its charts are in it from the start.
            assert found.seconds_to_open is not None
            spent.append(found.seconds_to_open)
            assert found.complaints == []
    # The table takes 0.85 s where the page must open within 2 s; seconds alone would judge the machine.
    assert min(spent) < 2 * plain_table
