"""Headless Chromium of the distribution, which opens pages from files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_pages import sources
from offered_clusters import form_cluster, known
from report_data import with_charts
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from slurmfab.commands.report.writing import page
from slurmfab.core.user_guide import writing

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--window-size=1280,900",
)  # fmt: skip
"""`--no-sandbox`: CI runs as root. The rest keeps the browser from using the network by itself."""


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile, which notes its requests and the messages of its console."""
    if not (shutil.which(CHROMIUM) and shutil.which(DRIVER)):
        pytest.fail("Debian's Chromium is missing: make test-packages")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about 24 nodes."""
    path = tmp_path_factory.mktemp("pages") / "small.html"
    path.write_text(page(with_charts(sources())))
    return path


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about 1,000 nodes."""
    path = tmp_path_factory.mktemp("pages") / "large.html"
    path.write_text(page(with_charts(sources(200, 800), 1000, 50)))
    return path


@pytest.fixture(scope="session")
def users_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the pages for the users of a cluster."""
    folder = tmp_path_factory.mktemp("users")
    for name, text in writing.files(form_cluster(), known(form_cluster())).items():
        (folder / name).write_text(text)
    return folder
