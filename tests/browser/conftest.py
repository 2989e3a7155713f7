"""Headless Chromium of the distribution, which opens pages from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import chromium
from made_pages import sources
from offered_clusters import form_cluster, known
from report_data import with_charts
from selenium import webdriver

from slurmfab.commands.report.writing import page
from slurmfab.core.user_guide import writing


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile, which notes its requests and the messages of its console."""
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


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
