"""The documentation as a site, in a browser: phones and wide screens, navigation, and search without a server."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
BUILT = BUILD / "site.built"
"""Touched by `make docs` when it has built the site."""

PHONE, LAPTOP, WIDE = (390, 844), (1280, 800), (1440, 900)
PAGES = (
    "docs/index",
    "docs/in-pictures",
    "docs/guides/gpu-lab",
    "docs/cluster-file",
    "docs/troubleshooting",
    "docs/security",
    "configs/example-gpu",
)
"""Pages with pictures, long tables, wide code, and files."""

INDEX = (ROOT / "docs/index.md").read_text()
GUIDES = sorted(path.stem for path in (ROOT / "docs/guides").glob("*.md"))

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
    assert shown == listed_in(INDEX)
    assert all((site / page).exists() for page in shown)


def listed_in(text: str) -> list[str]:
    """The pages of the site that lists in Markdown of docs/ name."""
    pages = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.md\)", text, re.M)
    return [f"docs/{page}.html".replace("docs/../", "") for page in pages]


def test_first_page_when_opened_then_shows_four_doors_of_few_pages_each_and_folds_the_rest(
    browser: Chrome, site: Path
) -> None:
    show(browser, LAPTOP, "light")
    browser.get((site / "docs/index.html").as_uri())
    links = "return [...document.querySelectorAll('article li > p > a, article li > a')]"
    seen = browser.execute_script(f"{links}.filter(one => one.checkVisibility()).map(one => one.href)")
    doors = re.split("^## ", INDEX.partition("\n## More")[0], flags=re.M)[1:]
    assert [link.removeprefix(f"{site.as_uri()}/") for link in seen] == listed_in("\n".join(doors))
    assert [len(listed_in(door)) <= 5 for door in doors] == [True] * 4
    assert browser.execute_script("return document.querySelectorAll('.sidebar-tree details[open]').length") == 0


def test_navigation_when_a_page_is_open_then_shows_the_pages_of_its_group_alone(browser: Chrome, site: Path) -> None:
    browser.get((site / "docs/gpus.html").as_uri())
    visible = "return [...document.querySelectorAll('.sidebar-tree a')].filter(one => one.checkVisibility())"
    shown = [
        link.removeprefix(f"{site.as_uri()}/") for link in browser.execute_script(f"{visible}.map(one => one.href)")
    ]
    group = next(part for part in re.split("^##+ ", INDEX, flags=re.M) if "(gpus.md)" in part)
    assert [link.partition("#")[0] or "docs/gpus.html" for link in shown] == listed_in(group)


@pytest.mark.parametrize(
    "page", ["docs/tutorial", "docs/quickstart", "docs/index", "README", *(f"docs/guides/{name}" for name in GUIDES)]
)
def test_commands_when_shown_on_a_laptop_then_none_is_cut_off(browser: Chrome, site: Path, page: str) -> None:
    show(browser, LAPTOP, "light")
    browser.get((site / f"{page}.html").as_uri())
    cut = "return [...document.querySelectorAll('.highlight-bash pre, .highlight-console pre')].filter(one => {\
      for (const output of one.querySelectorAll('.go')) output.remove();\
      return one.scrollWidth > one.clientWidth }).map(one => one.textContent)"
    assert browser.execute_script(cut) == []


def test_tables_when_shown_on_a_laptop_then_no_column_is_out_of_sight(browser: Chrome, site: Path) -> None:
    show(browser, LAPTOP, "light")
    for page in ("docs/troubleshooting", "docs/checks", "docs/proofs", "docs/gpus", "docs/monitoring"):
        browser.get((site / f"{page}.html").as_uri())
        wide = (
            "return [...document.querySelectorAll('.table-wrapper')].filter(one => one.scrollWidth > one.clientWidth)"
        )
        assert browser.execute_script(f"{wide}.map(one => one.textContent.slice(0, 200))") == [], page


def test_search_when_the_site_has_no_server_then_finds_the_page_about_drain(browser: Chrome, site: Path) -> None:
    browser.get((site / "search.html").as_uri() + "?q=drain")
    links = WebDriverWait(browser, SECONDS).until(
        lambda one: one.find_elements(By.CSS_SELECTOR, "#search-results li a[href*='docs/nodes.html']")
    )
    assert links[0].text


@pytest.mark.parametrize(
    ("printed", "explained"),
    [
        ("n7: user slurm has UID 119 there, but the cluster uses 64030.", "user slurm has UID 994 there, but the"),
        ("gpu12: its SSH host key (ed25519 SHA256:k3) differs from the pinned one (…)", "its SSH host key ("),
        ("another run is changing this cluster: bob@desk since 09:31:02", "another run is changing this cluster:"),
        ("cn04: its hostname is node4, but slurm.conf knows it as cn04. Repair: …", "its hostname is other, but"),
        ("g2: changed file: its munge key differs from mn1's.\n  repair: fab deploy", "a node has another munge key"),
    ],
)  # fmt: skip
def test_search_when_a_message_is_pasted_as_it_was_printed_then_the_first_row_explains_it(
    browser: Chrome, site: Path, printed: str, explained: str
) -> None:
    browser.get((site / "search.html").as_uri() + f"?q={quote(printed)}")
    first = WebDriverWait(browser, SECONDS).until(lambda one: one.find_element(By.CSS_SELECTOR, "#messages li a"))
    assert first.text.startswith(explained)
    assert "#" in str(first.get_attribute("href"))


def test_search_when_no_row_is_about_a_message_then_leads_to_troubleshooting(browser: Chrome, site: Path) -> None:
    browser.get((site / "search.html").as_uri() + "?q=purple elephants juggle seven rusty umbrellas quietly")
    (link,) = browser.find_elements(By.CSS_SELECTOR, "#messages a")
    assert str(link.get_attribute("href")).endswith("/docs/troubleshooting.html")


def test_search_when_given_each_message_of_troubleshooting_then_finds_its_row(browser: Chrome, site: Path) -> None:
    browser.get((site / "search.html").as_uri() + "?q=nothing")
    lost = browser.execute_script(
        "return MESSAGE_ROWS.filter(one => one.page.startsWith('docs/troubleshooting'))\
          .flatMap(row => row.messages.map(text => [row, text])).filter(([row, text]) =>\
            wordsOf(text).size >= 3 && !rowsAbout(`n9: ${text}; and more words behind it`).includes(row))\
          .map(([, text]) => text)"
    )
    assert lost == []
    assert browser.find_elements(By.ID, "messages") == []
