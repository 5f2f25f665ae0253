"""Report and site in the system's Chromium: search, filter, links, accessibility, no JavaScript.

Without Chromium (found by its name, or by CHROMIUM) these tests are skipped, but not in CI.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from conftest import ROOT

from icl.evidence import ledger
from icl.pipeline.plan import Plan
from icl.report import entries, page
from icl.report.cards import Card

pytestmark = pytest.mark.browser
FOUND = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMIUM = os.environ.get("CHROMIUM") or FOUND
SIZES = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
SHOWN = {
    "huang_rates": ("H13", "inconclusive", ""),
    "figure8": ("A-P1a", "contradicted", "supported"),
    "figure9": ("A-P1b", "supported", "supported"),
}
"""Figure -> its claim, and the outcomes of the first and the second sample."""
CLAIMS = ["H13", "A-P1a", "A-P1b"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a report with three figures of two papers, a claim each, and one of our own checks."""
    made = []
    with contextlib.chdir(ROOT):
        for entry in (one for one in entries.from_gallery() if one.name in SHOWN):
            name, outcome, second = SHOWN[entry.name]
            (card,) = [card for card in entry.cards if card.claim.id == name]
            verdict = replace(card.verdict, outcome=outcome)
            again = replace(verdict, outcome=second) if second else None
            cards = [replace(card, verdict=verdict, again=again)]
            if entry.name == "figure8":
                own = {"kind": "ours", "says": "The trained layer has ab = 1/(5 sigma^2)."}
                claim = ledger.claim("ZE-P4.1").model_copy(update=own)
                cards.append(Card(claim, replace(verdict, outcome="supported")))
            plan = Plan("smoke") if entry.name == "huang_rates" else entry.plan
            made.append(replace(entry, plan=plan, cards=cards))
        text = page.html(made, "../", missing=["figure12"])
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text, encoding="utf-8")
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


def sized(browser: Any, size: str, **options: Any) -> Any:
    return browser.new_context(viewport=SIZES[size], **options).new_page()


@pytest.fixture(params=SIZES)
def opened(request: pytest.FixtureRequest, browser: Any, address: str) -> Iterator[Any]:
    """Yield the report; it must load in silence and ask for nothing else: its pictures are data."""
    one = sized(browser, request.param)
    said = []
    asked = []
    one.on("console", lambda message: said.append(message.text))
    one.on("pageerror", lambda error: said.append(str(error)))
    one.on("request", lambda request: asked.append(request.url))
    one.goto(address)
    yield one
    assert said == []
    assert {re.split(r"[?#]", url)[0] for url in asked if not url.startswith("data:")} == {address}
    one.context.close()


def shown(one: Any, selector: str) -> list[str]:
    return one.locator(f"{selector}:visible").evaluate_all("found => found.map(one => one.id)")


def unfold(one: Any) -> None:
    one.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


def top_of(one: Any, selector: str) -> float:
    """Return how far below the upper edge of the window an element begins."""
    return one.locator(selector).first.bounding_box()["y"]


def wait_for_count(one: Any, count: int) -> None:
    one.locator("#count", has_text=f"{count} of 4 claims").wait_for()


def check_access(one: Any) -> None:
    """Check that a page and its tables are no wider than the screen, and that axe finds nothing."""
    from axe_playwright_python.sync_playwright import Axe

    ends = one.locator("table").evaluate_all("all => all.map(e => e.getBoundingClientRect().right)")
    ends.append(one.evaluate("document.documentElement.scrollWidth"))
    assert max(ends) <= one.viewport_size["width"]
    for scheme in ("light", "dark"):
        one.emulate_media(color_scheme=scheme)
        found = Axe().run(one)
        assert found.violations_count == 0, found.generate_report()


def test_it_fits_the_screen_and_passes_an_accessibility_checker(opened: Any) -> None:
    unfold(opened)
    check_access(opened)


def test_a_card_is_folded_unless_it_is_contradicted_and_a_link_opens_it(opened: Any) -> None:
    assert shown(opened, ".claim[open]") == ["A-P1a"] and opened.locator(".claim").count() == 4
    first = opened.locator("tr[data-claim]").first
    assert first.locator("> *").first.inner_text().endswith("inconclusive")
    first.locator("a").click()
    opened.wait_for_function("document.getElementById('H13').open")


def chosen(one: Any, query: str) -> list[str]:
    """Type a query, wait for the answer, and return the claims that the page shows."""
    one.fill("#words", query)
    one.wait_for_function(
        "query => (new URLSearchParams(location.search).get('q') || '') === query"
        " && document.getElementById('filter').dataset.shows === location.search",
        arg=query,
    )
    return shown(one, ".claim")


def marked(one: Any) -> int:
    return one.evaluate("CSS.highlights.get('found').size")


def test_filters_hide_cards_figures_and_rows_and_the_address_keeps_them(opened: Any) -> None:
    assert shown(opened, "article") == ["huang_rates", "figure8", "figure9"]
    assert shown(opened, ".claim") == CLAIMS
    opened.click("#more summary")
    for outcome in ("supported", "inconclusive"):
        opened.uncheck(f"[name=outcome][value={outcome}]")
    wait_for_count(opened, 1)
    assert (shown(opened, "article"), shown(opened, ".claim")) == (["figure8"], ["A-P1a"])
    row = opened.locator("tr[data-claim]:not(.out)")
    assert row.get_attribute("data-claim") == "A-P1a"  # which fails if there are several
    assert shown(opened, ".overview h2") == ["li2024"]
    again = opened.context.new_page()
    again.goto(opened.url)
    assert shown(again, ".claim") == ["A-P1a"]
    # A link to what a filter hides shows everything, and opens the fold of our own checks.
    again.evaluate("location.hash = 'ZE-P4.1'")
    again.wait_for_function("!document.getElementById('ZE-P4.1').classList.contains('out')")
    assert again.is_visible("[id='ZE-P4.1']") and len(shown(again, "article")) == 3
    assert top_of(again, "[id='ZE-P4.1']") < again.viewport_size["height"]
    opened.click("#filter [type=reset]")
    wait_for_count(opened, 4)
    opened.check("[name=label][value='second sample differs']")
    wait_for_count(opened, 1)
    assert shown(opened, ".claim") == ["A-P1a"]


@pytest.mark.parametrize(
    ("query", "claims"),
    [
        ("PROPOSITION 1", ["A-P1a", "A-P1b"]),
        ("proposition 4", []),
        ("proposition 4.1", ["ZE-P4.1"]),
        ("h13", ["H13"]),
        ("reduced", ["H13"]),
        ('"1/(5 sigma^2)"', ["ZE-P4.1"]),
        ("make figure9", ["A-P1b"]),
        ("1/(5σ²)", ["ZE-P4.1"]),
        ('"own pattern"', ["A-P1b"]),
        ('"pattern own"', []),
        ("proposition 1 (a)", ["A-P1a"]),
    ],
)
def test_the_search_finds_phrases_numbers_and_formulas(
    opened: Any, query: str, claims: list[str]
) -> None:
    before = opened.inner_text("main")
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.getAttribute('href')") == "#verdicts"
    opened.keyboard.press("/")
    opened.keyboard.type(query)
    assert opened.input_value("#words") == query and chosen(opened, query) == claims
    # A label may stand in no text.
    assert query == "reduced" or (marked(opened) > 0) == bool(claims)
    assert opened.is_visible("#none") != bool(claims)
    if claims:  # the first hit is scrolled to, below the search
        assert 0 <= top_of(opened, ".claim:not(.out)") < 200
    assert chosen(opened, "") == CLAIMS and marked(opened) == 0
    assert opened.inner_text("main") == before


def test_a_search_without_a_hit_suggests_words_that_have_one(opened: Any) -> None:
    for query in ("proposition zzz", "propositional"):
        assert chosen(opened, query) == [] and opened.is_visible("#none")
        opened.locator("#none button").first.click()
        opened.wait_for_function("!/^0 /.test(document.getElementById('count').textContent)")
    assert shown(opened, ".claim") != []


def test_the_search_finds_every_word_that_the_page_uses(browser: Any, address: str) -> None:
    one = sized(browser, "desktop")
    one.goto(address)
    unfold(one)
    words = sorted(set(re.findall(r"(?<![\w.-])[A-Za-z]{3,}(?![\w-])", one.inner_text("body"))))
    assert len(words) > 500
    # Submitting the form answers at once, where typing waits for more letters.
    search = """word => {
        document.getElementById("words").value = word;
        document.getElementById("filter").requestSubmit();
        const found = () => !document.getElementById("none").hidden;
        return new Promise(done => setTimeout(() => done(found()), 1));
    }"""
    assert [word for word in words if one.evaluate(search, word)] == []


def test_nothing_moves_while_the_page_loads_and_while_it_is_filtered(
    browser: Any, address: str
) -> None:
    """The form pushes nothing away, neither by its filters nor by a word without a hit."""
    one = sized(browser, "phone")
    observe = (
        "found => found.getEntries().forEach(e => { moved += e.hadRecentInput ? 0 : e.value })"
    )
    options = "{type: 'layout-shift', buffered: true}"
    one.add_init_script(f"moved = 0; new PerformanceObserver({observe}).observe({options})")
    one.goto(address)
    top = top_of(one, "header")
    one.click("#more summary")
    assert one.is_visible("[name=outcome]") and top_of(one, "header") == top
    one.uncheck("[name=outcome][value=supported]")
    one.click("#more summary")
    for query in ("proposition 1", "zzz"):
        one.click("#words")
        one.keyboard.type(query, delay=60)
        one.wait_for_timeout(700)
        assert (chosen(one, query) == []) == one.is_visible("#none") == (query == "zzz")
        assert top_of(one, "header") + one.evaluate("scrollY") == top
        one.fill("#words", "")
        one.wait_for_timeout(700)
        assert one.evaluate("moved") < 0.1


def test_it_prints_pictures_and_formulas_and_on_request_one_page_per_claim(
    browser: Any, address: str
) -> None:
    one = sized(browser, "desktop")
    one.goto(address)
    one.emulate_media(media="print")
    one.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.is_visible("article img") and one.is_visible("#H13 .formula")
    assert not one.is_visible("#filter")
    breaks = "getComputedStyle(document.getElementById('A-P1a')).breakBefore"
    assert one.evaluate(breaks) == "auto"
    one.evaluate("document.getElementById('apart').click()")
    assert one.evaluate(breaks) == "page"


@pytest.mark.parametrize(("size", "display"), [("desktop", "table-row"), ("phone", "block")])
def test_without_javascript_everything_reads(
    browser: Any, address: str, size: str, display: str
) -> None:
    one = sized(browser, size, java_script_enabled=False)
    one.goto(address)
    assert not one.is_visible("#filter") and len(shown(one, "article")) == 3
    text = one.inner_text("body")
    for words in ("1 figures are not made yet: figure12", "A-P1b", "We find"):
        assert words in text
    row = one.locator("tr[data-claim]").first
    assert row.evaluate("element => getComputedStyle(element).display") == display


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    site = tmp_path_factory.mktemp("site")
    for name in "Makefile mkdocs.yml README.md LICENSE CITATION.cff references.bib".split():
        shutil.copy2(ROOT / name, folder / name)
    for name in ("docs", "gallery", "profiles", "requirements", "src/icl/papers"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    command = ["make", "-o", "env", f"SITE={site}", "docs"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    return site


@pytest.mark.parametrize("size", SIZES)
def test_the_site_fits_the_screen_and_passes_an_accessibility_checker(
    browser: Any, built: Path, size: str
) -> None:
    skipped = built / "404.html", built / "gallery/report.html"
    paths = [path for path in built.rglob("*.html") if path not in skipped]
    assert len(paths) > 10
    for path in paths:
        one = sized(browser, size)
        one.goto(path.as_uri())
        one.wait_for_selector(".md-search[aria-label]", state="attached")
        check_access(one)
        one.context.close()


def test_the_search_of_the_site_works_from_files(browser: Any, built: Path) -> None:
    one = sized(browser, "desktop")
    one.goto((built / "index.html").as_uri())
    one.click("[data-md-component=search-query]")
    one.keyboard.type("Clopper")
    one.wait_for_selector(".md-search-result__item a[href*='docs/method.html']")


def test_every_link_of_the_site_leads_to_a_file(built: Path) -> None:
    targets = set()
    for path in (path for path in built.rglob("*.html") if path.name != "404.html"):
        for link in re.findall(r'(?:href|src)="?([^"\s>#?]+)', path.read_text("utf-8")):
            if not re.match(r"\w+:", link):
                targets.add(path.parent / unquote(link))
    assert [path for path in targets if not path.exists()] == [] and len(targets) > 100
    index = (built / "index.html").read_text("utf-8")
    assert 'href="gallery/report.html" class="md-nav__link"' in index
