"""The report in a real browser: opened from a file, at desktop and phone width, with and without JavaScript.

Needs Chromium from the system, found by its name (or by CHROMIUM); without it these tests are skipped, but not where CI
is set, which installs it.
"""

import copy
import os
import re
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
    """The same figure under three names, with three outcomes in two papers; the last claim is our own check."""
    out = []
    for name, outcome, claim in (
        ("figure9", "supported", "A-P1b"),
        ("figure8", "contradicted", "A-P1a"),
        ("huang_rates", "inconclusive", "H13"),
    ):
        paper = ledger.of_figure(name).title
        copied = copy.deepcopy(one) | {"name": name, "paper": paper, "summary": f"The picture called {name}."}
        stated = ledger.claim(claim)
        copied["claims"] = [
            {**copied["claims"][0], "claim": claim, "outcome": outcome, "source": stated.source, "says": stated.says,
             "names": "theorem 5, theorem 6" if claim == "H13" else ""}
        ]  # fmt: skip
        out.append(copied)
    theorem = ledger.claim("Z-P4.1")
    says = "The trained layer has ab = 1/(5 sigma^2)."
    own = {**out[0]["claims"][0], "claim": "Z-P4.1", "kind": "ours", "counted": "ours", "source": theorem.source}
    out[1]["claims"].append({**own, "says": says})
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

    for details in opened.page.query_selector_all("details"):
        details.evaluate("element => { element.open = true; }")
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()


def test_the_checker_finds_what_is_wrong(opened: Opened) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened.page.evaluate("document.querySelector('img').removeAttribute('alt')")
    assert Axe().run(opened.page).violations_count > 0


def test_an_anchor_leads_to_its_claim_even_when_a_filter_hides_it(opened: Opened) -> None:
    opened.page.uncheck("[name=outcome][value=contradicted]")
    assert "A-P1a" not in opened.shown(".claim")
    opened.page.evaluate("location.hash = 'A-P1a'")
    opened.page.wait_for_function("!document.getElementById('A-P1a').classList.contains('out')")
    assert "A-P1a" in opened.shown(".claim")
    assert opened.page.evaluate("document.getElementById('A-P1a').getBoundingClientRect().top < window.innerHeight")


CLAIMS = ["H13", "A-P1b", "A-P1a"]


def test_verdicts_filter_cards_figures_and_rows(opened: Opened) -> None:
    assert opened.shown("article") == ["huang_rates", "figure9", "figure8", "figure12"]
    assert opened.shown(".claim") == CLAIMS
    for outcome in ("supported", "inconclusive"):
        opened.page.uncheck(f"[name=outcome][value={outcome}]")
    assert opened.shown("article") == ["figure8"]
    assert opened.shown(".claim") == ["A-P1a"]
    assert opened.page.inner_text("#count") == "1 of 4 claims"
    rows = opened.page.query_selector_all("tr[data-claim]:not(.out)")
    assert [row.get_attribute("data-claim") for row in rows] == ["A-P1a"]
    assert opened.shown(".overview h2") == ["li2024"]
    opened.page.check("[name=outcome][value=inconclusive]")
    assert opened.shown(".claim") == ["H13", "A-P1a"]


@pytest.mark.parametrize(
    ("query", "claims"),
    [
        ("PROPOSITION 1", ["A-P1b", "A-P1a"]),
        ("proposition 4", []),
        ("proposition 4.1", ["Z-P4.1"]),
        ("theorem 6", ["H13"]),
        ('"1/(5 sigma^2)"', ["Z-P4.1"]),
        ("1/(5σ²)", ["Z-P4.1"]),
        ('"own pattern"', ["A-P1b"]),
        ('"pattern own"', []),
        ("pattern own", ["A-P1b", "A-P1a"]),
        ("h13", ["H13"]),
        ("", CLAIMS),
    ],
)
def test_the_search_finds_phrases_numbers_and_formulas(opened: Opened, query: str, claims: list[str]) -> None:
    opened.page.fill("#words", query)
    found = [name for name in opened.shown(".claim") if name in {*CLAIMS, "Z-P4.1"}]
    assert found == claims
    if claims and query and query != "theorem 6":  # "theorems 5 and 6" in the text is left unmarked
        assert opened.page.locator("article mark").count() > 0
        assert opened.page.locator("article mark:visible").first.inner_text().strip()
    else:
        assert opened.page.locator("mark").count() == 0


def test_what_was_found_is_marked_and_unmarked(opened: Opened) -> None:
    before = opened.page.inner_text("#A-P1b dl")
    opened.page.fill("#words", '"own pattern"')
    assert {mark.inner_text() for mark in opened.page.query_selector_all("#A-P1b mark")} == {"own pattern"}
    assert opened.page.inner_text("#A-P1b dl") == before
    opened.page.fill("#words", "")
    assert opened.page.locator("mark").count() == 0
    assert opened.page.inner_text("#A-P1b dl") == before


def test_a_search_opens_a_fold_and_closes_it_again(opened: Opened) -> None:
    opened.page.fill("#words", "sigma")
    assert opened.shown(".claim") == ["Z-P4.1"]
    opened.page.fill("#words", "")
    assert opened.shown(".claim") == CLAIMS


def test_the_selection_is_part_of_the_address(opened: Opened, browser: Any) -> None:
    opened.page.fill("#words", '"own pattern"')
    opened.page.select_option("#paper", "li2024")
    opened.page.uncheck("[name=outcome][value=inconclusive]")
    again = opened.page.context.new_page()
    again.goto(opened.page.url)
    assert again.input_value("#words") == '"own pattern"'
    assert again.input_value("#paper") == "li2024"
    assert not again.is_checked("[name=outcome][value=inconclusive]")
    assert again.inner_text("#count") == opened.page.inner_text("#count") == "1 of 4 claims"


def test_the_search_is_first_in_the_tab_order(opened: Opened) -> None:
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.id") == "words"


def test_a_link_lands_on_its_claim(opened: Opened, address: str, browser: Any) -> None:
    """Pictures have their places before they are loaded, so that nothing moves; a fold opens."""
    for name in ("A-P1a", "Z-P4.1"):
        page = opened.page.context.new_page()
        page.goto(f"{address}#{name}")
        page.wait_for_timeout(300)
        top = page.evaluate(f"document.getElementById('{name}').getBoundingClientRect().top")
        # At the very end of a page there is nothing left to scroll.
        assert -1 <= top <= 120 or page.evaluate(
            "window.innerHeight + window.scrollY >= document.body.scrollHeight - 2"
        )
        assert page.is_visible(f"[id='{name}']")
    sizes = "[...document.images].every(image => image.width > 0 && image.hasAttribute('height'))"
    assert opened.page.evaluate(sizes)


def test_a_table_becomes_cards_on_a_phone(browser: Any, address: str) -> None:
    for width, display in (("desktop", "table-row"), ("phone", "block")):
        one = Opened(browser, address, width)
        row = one.page.locator("tr[data-claim]").first
        assert row.evaluate("element => getComputedStyle(element).display") == display
        one.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_in_the_dark(browser: Any, address: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_context(color_scheme=scheme).new_page()
    page.goto(address)
    numbers = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(numbers) < 200) == (scheme == "dark")
    assert Axe().run(page, options={"runOnly": ["color-contrast"]}).violations_count == 0
    page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_without_javascript_everything_reads(browser: Any, address: str, width: str) -> None:
    one = Opened(browser, address, width, javascript=False)
    assert not one.page.is_visible("#filter")
    text = one.page.inner_text("main")
    for words in ("The picture called figure8.", "A-P1b", "We find", "Not made yet: verdicts, table, picture"):
        assert words in text
    assert len(one.shown("article")) == 4
    one.page.context.close()


def test_on_paper_is_a_compact_card_per_claim(browser: Any, address: str) -> None:
    """The selection is what is printed; known differences are, pictures and controls are not."""
    one = Opened(browser, address, "desktop")
    one.page.emulate_media(media="print")
    assert one.shown(".claim") == CLAIMS
    for gone in ("#filter", "article img", ".strips", "details.fold"):
        assert not any(element.is_visible() for element in one.page.query_selector_all(gone)), gone
    assert all(element.is_visible() for element in one.page.query_selector_all(".differences"))
    tall = one.page.evaluate("Math.max(...[...document.querySelectorAll('.claim')].map(card => card.offsetHeight))")
    assert tall < 500
    pages = len(re.findall(rb"/Type\s*/Page\b", one.page.pdf(prefer_css_page_size=True)))
    assert pages <= 4
    one.page.emulate_media(media="screen")
    one.page.uncheck("[name=outcome][value=supported]")
    one.page.emulate_media(media="print")
    assert one.shown(".claim") == ["H13", "A-P1a"]
    one.page.context.close()
