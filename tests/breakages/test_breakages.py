"""Every breakage of the table is found, named, and mended or told, on real hosts; no oddity is complained about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest
from breakage import Breakage, Oddity, Row, Setting
from played import BrokenCluster, Result
from stock import Stock
from suites import SUITES
from table import rows

pytestmark = pytest.mark.lab

Clusters = Callable[[str, bool], BrokenCluster]


@pytest.fixture(scope="module")
def clusters(stock: Stock) -> Iterator[Clusters]:
    """The cluster of a suite, with or without a database; one at a time, and made on first use."""
    up: dict[tuple[str, bool], BrokenCluster] = {}

    def cluster(suite: str, database: bool) -> BrokenCluster:
        if (suite, database) not in up:
            close()
            up[suite, database] = BrokenCluster(stock, suite, database)
        return up[suite, database]

    def close() -> None:
        while up:
            up.popitem()[1].close()

    yield cluster
    close()


def played(kind: type[Row]) -> pytest.MarkDecorator:
    """The rows of a kind, each on its suites; those that need a database are last, so that a cluster is made once."""
    chosen = sorted((row for row in rows() if isinstance(row, kind)), key=lambda row: row.database)
    cases = [(row, suite) for suite in SUITES for row in chosen if suite in row.suites]
    return pytest.mark.parametrize(("row", "suite"), cases, ids=[f"{row.name}-{suite}" for row, suite in cases])


@played(Breakage)
def test_a_breakage_is_found_named_and_mended_or_told(
    clusters: Clusters, row: Breakage, suite: str, record_property: Callable[[str, object], None]
) -> None:
    result = Result()
    try:
        clusters(suite, row.database).play(row, result)
    finally:
        record_property("breakage", asdict(result))


@played(Setting)
def test_a_bad_value_is_named_and_the_cluster_goes_on(
    clusters: Clusters, row: Setting, suite: str, record_property: Callable[[str, object], None]
) -> None:
    result = Result()
    try:
        clusters(suite, row.database).survive(row, result)
    finally:
        record_property("breakage", asdict(result))


@played(Oddity)
def test_an_oddity_that_hurts_nobody_is_not_complained_about(clusters: Clusters, row: Oddity, suite: str) -> None:
    clusters(suite, row.database).bear(row)
