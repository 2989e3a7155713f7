"""The documentation as a site, in a browser: phones and wide screens, navigation, and search without a server."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
BUILT = BUILD / "site.built"
"""Touched by `make docs` when it has built the site."""

PHONE, WIDE = (390, 844), (1440, 900)
PAGES = (
    "docs/index",
    "docs/in-pictures",
    "docs/guides/gpu-lab",
    "docs/cluster-file",
    "docs/security",
    "configs/example-gpu",
)
"""Pages with pictures, long tables, wide code, and files."""

SECONDS = 60.0
"""How long a busy machine may take to build the site anew, or to search."""


@pytest.fixture(scope="module")
def site() -> Path:
    """The site: what `make docs` has built, and else built now; by one test process at a time."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "site.lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not is_fresh():
            build()
    return BUILD / "site"


def is_fresh() -> bool:
    """Whether the site was built after the last change of what it is made of."""
    made_of = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("configs/example-*.yaml"), *ROOT.glob("docs/**/*")]
    return BUILT.exists() and BUILT.stat().st_mtime > max(path.stat().st_mtime for path in made_of if path.is_file())


def build() -> None:
    """Do what `make docs` does."""
    options = ["-W", "-n", "--keep-going", "-q", "-c", "docs", "-d", str(BUILD / "site-doctrees")]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(BUILD / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    BUILT.touch()


@pytest.fixture(autouse=True)
def as_before(browser: Chrome) -> Iterator[None]:
    """At the end the console has no message, nothing came over a network, and the window is as it was."""
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []


def show(browser: Chrome, size: tuple[int, int], mode: str) -> None:
    """Have the browser be a phone or a wide screen, with a light or a dark system."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": mode}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize(("size", "mode"), [(PHONE, "light"), (WIDE, "dark")])
def test_site_when_opened_on_a_phone_and_on_a_wide_screen_then_no_page_scrolls_sideways(
    browser: Chrome, site: Path, size: tuple[int, int], mode: str
) -> None:
    show(browser, size, mode)
    for page in PAGES:
        browser.get((site / f"{page}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0], page
        pictures = "return [...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
        assert browser.execute_script(pictures) == [], page
    paper = "return getComputedStyle(document.body).backgroundColor"
    bright = [int(part) > 127 for part in re.findall(r"\d+", browser.execute_script(paper))[:3]]
    assert bright == [mode == "light"] * 3


def test_site_when_opened_at_the_top_then_its_navigation_has_all_pages_in_their_order(
    browser: Chrome, site: Path
) -> None:
    browser.get((site / "index.html").as_uri())
    arrived = "return document.URL.endsWith('/docs/index.html') && document.readyState == 'complete'"
    WebDriverWait(browser, SECONDS).until(lambda one: one.execute_script(arrived))
    links = "return [...document.querySelectorAll('.sidebar-tree a')].map(one => one.href)"
    shown = [link.removeprefix(f"{site.as_uri()}/") for link in browser.execute_script(links)]
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.md\)", (ROOT / "docs/index.md").read_text(), re.M)
    assert shown == [f"docs/{page}.html".replace("docs/../", "") for page in listed]
    assert all((site / page).exists() for page in shown)


def test_search_when_the_site_has_no_server_then_finds_the_page_about_drain(browser: Chrome, site: Path) -> None:
    browser.get((site / "search.html").as_uri() + "?q=drain")
    links = WebDriverWait(browser, SECONDS).until(
        lambda one: one.find_elements(By.CSS_SELECTOR, "#search-results li a[href*='docs/nodes.html']")
    )
    assert links[0].text
