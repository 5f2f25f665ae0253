"""The documentation's site in a real browser: links, search, phone width, and no network."""

import functools
import http.server
import importlib.util
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from scripts import site

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("no mkdocs in this environment")
    folder = tmp_path_factory.mktemp("site")
    report = folder / "made.html"
    report.write_text("<title>report</title>", encoding="utf-8")
    assert site.build(ROOT, folder / "stage", folder / "site", report) == 0
    return folder / "site"


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    handler = functools.partial(Silent, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        assert "CI" not in os.environ, "CI has to install chromium"
        pytest.skip("no chromium on this machine")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened.new_context(viewport={"width": 390, "height": 844}).new_page()
        opened.close()


def test_every_link_of_the_site_leads_to_a_file(built: Path) -> None:
    dead = []
    for path in built.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="?([^"\s>]+)', path.read_text(encoding="utf-8")):
            target = unquote(link.split("#")[0].split("?")[0])
            if target and path.name != "404.html" and not re.match(r"\w+:", target):
                dead += [(path.name, link)] * (not (path.parent / target).exists())
    assert dead == []
    assert "../report.html" in (built / "docs/report.html").read_text(encoding="utf-8")


def test_pages_fit_a_phone_and_ask_only_this_site(address: str, built: Path, page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    pages = ["index.html", "docs/gallery/li2024.html", "docs/method.html", "docs/usage.html", "gallery/verdicts.html"]
    wide = {}
    for name in pages:
        page.goto(f"{address}/{name}", timeout=180_000)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[name] = width
    assert wide == {}
    assert [url for url in asked if not url.startswith((address, "data:"))] == []


def test_search_finds_theorem_2(address: str, page: Any) -> None:
    page.goto(f"{address}/index.html?q=theorem+2")
    page.wait_for_selector(".md-search-result__item a", state="attached", timeout=60_000)
    found = [link.get_attribute("href") for link in page.query_selector_all(".md-search-result__item a")]
    assert any("gallery/li2024" in link for link in found)
