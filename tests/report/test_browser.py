"""The report in a real browser: opened from a file, at desktop and phone width, with and without JavaScript.

Needs Chromium from the system, found by its name (or by CHROMIUM); without it these tests are skipped, but not where CI
is set, which installs it.
"""

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icl.evidence import ledger
from icl.pipeline.plan import Plan
from icl.report.page import gather, render

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


def variants(one: dict[str, Any]) -> list[dict[str, Any]]:
    """The same figure under three names, with the three outcomes in two papers, and a figure that is not made."""
    out = []
    for name, outcome, claim in (
        ("figure9", "supported", "A-P1b"),
        ("figure8", "contradicted", "A-P1a"),
        ("huang_rates", "inconclusive", "H13"),
    ):
        paper = ledger.of_figure(name).title
        copied = copy.deepcopy(one) | {"name": name, "paper": paper, "summary": f"The picture called {name}."}
        copied["claims"] = [{**copied["claims"][0], "claim": claim, "outcome": outcome}]
        out.append(copied)
    return out


@pytest.fixture(scope="module")
def address(figure9_made: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = Plan("smoke")
    made, missing = gather.entries(plan, ["figure9", "figure12"], figure9_made)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render.html(plan, [*variants(made), missing]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        assert "CI" not in os.environ, "CI has to install chromium"
        pytest.skip("no chromium on this machine")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A page with everything that it said or asked for."""

    def __init__(self, browser: Any, address: str, width: str, javascript: bool = True) -> None:
        size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
        self.page = browser.new_context(viewport=size, java_script_enabled=javascript).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def shown(self, selector: str) -> list[str]:
        """The ids of the elements that are visible."""
        return [e.get_attribute("id") for e in self.page.query_selector_all(selector) if e.is_visible()]


@pytest.fixture(params=WIDTHS)
def opened(request: pytest.FixtureRequest, browser: Any, address: str) -> Iterator[Opened]:
    one = Opened(browser, address, request.param)
    yield one
    one.page.context.close()


def test_it_loads_from_a_file_in_silence_and_asks_for_nothing(opened: Opened, address: str) -> None:
    for chart in opened.page.query_selector_all("details.charts > summary"):
        chart.click()
    opened.page.wait_for_selector(".plot .main-svg")
    assert opened.said == []
    # Pictures are data inside the page; any other address would be a request.
    assert [url for url in opened.asked if not url.startswith("data:")] == [address]


def test_nothing_is_wider_than_the_screen(opened: Opened) -> None:
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for details in opened.page.query_selector_all("details"):
        details.evaluate("element => { element.open = true; }")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_it_passes_an_accessibility_checker(opened: Opened) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # The charts are the library's own, and say nothing that the tables and pictures do not.
    for details in opened.page.query_selector_all("details:not(.charts)"):
        details.evaluate("element => { element.open = true; }")
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()


def test_the_checker_finds_what_is_wrong(opened: Opened) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened.page.evaluate("document.querySelector('img').removeAttribute('alt')")
    assert Axe().run(opened.page).violations_count > 0


def test_outcomes_filter_figures_and_claims(opened: Opened) -> None:
    assert opened.shown("article") == ["huang_rates", "figure9", "figure8", "figure12"]
    for outcome in ("supported", "inconclusive"):
        opened.page.uncheck(f"[name=outcome][value={outcome}]")
    assert opened.shown("article") == ["figure8"]
    assert opened.shown(".claim") == ["A-P1a"]
    assert opened.page.inner_text("#count") == "1 figures, 1 claims"
    opened.page.check("[name=outcome][value=inconclusive]")
    assert opened.shown(".claim") == ["H13", "A-P1a"]


def test_search_and_paper_filter_together(opened: Opened) -> None:
    opened.page.fill("#words", "picture CALLED")
    assert opened.shown("article") == ["huang_rates", "figure9", "figure8"]
    opened.page.select_option("#paper", label="Huang et al. 2024: softmax attention in phases")
    assert opened.shown("article") == ["huang_rates"]
    opened.page.fill("#words", "nothing of this kind")
    assert opened.shown("article") == []
    assert opened.page.inner_text("#count") == "0 figures, 0 claims"
    opened.page.fill("#words", "")
    opened.page.select_option("#paper", label="all")
    opened.page.select_option("#scale", label="smoke")
    assert len(opened.shown("article")) == 4


def test_an_anchor_leads_to_its_claim_even_when_a_filter_hides_it(opened: Opened) -> None:
    opened.page.uncheck("[name=outcome][value=contradicted]")
    assert "A-P1a" not in opened.shown(".claim")
    opened.page.click("nav a[href='#A-P1a']")
    opened.page.wait_for_function("!document.getElementById('A-P1a').classList.contains('out')")
    assert "A-P1a" in opened.shown(".claim")
    assert opened.page.evaluate("document.getElementById('A-P1a').getBoundingClientRect().top < window.innerHeight")


def test_curves_can_be_toggled_and_show_values(opened: Opened) -> None:
    opened.page.locator("#figure9 details.charts > summary").click()
    opened.page.wait_for_selector("#figure9 .plot .main-svg")
    plot = opened.page.locator("#figure9 .plot").first
    visible = "element => element.data.filter(trace => trace.visible !== 'legendonly').length"
    before = plot.evaluate(visible)
    plot.locator(".legendtoggle").first.click()
    opened.page.wait_for_function(f"({visible})(document.querySelector('#figure9 .plot')) < {before}")
    # The drawn point under the pointer answers with its value.
    box = plot.locator(".points path").last.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.page.wait_for_selector("#figure9 .hoverlayer .hovertext")


@pytest.mark.parametrize("width", WIDTHS)
def test_without_javascript_everything_reads(browser: Any, address: str, width: str) -> None:
    one = Opened(browser, address, width, javascript=False)
    assert not one.page.is_visible("#filter")
    text = one.page.inner_text("main")
    for words in ("The picture called figure8.", "A-P1b", "95 % interval", "Not made yet: verdicts, table, picture"):
        assert words in text
    assert len(one.shown("article")) == 4
    one.page.context.close()


def test_on_paper_all_is_there_but_the_controls(browser: Any, address: str) -> None:
    one = Opened(browser, address, "desktop")
    one.page.uncheck("[name=outcome][value=supported]")
    one.page.emulate_media(media="print")
    assert not one.page.is_visible("#filter")
    assert len(one.shown("article")) == 4
    assert one.page.pdf()[:5] == b"%PDF-"
    one.page.context.close()
