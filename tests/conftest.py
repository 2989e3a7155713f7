"""What all tests share: lab tests run where there can be a lab, and are never passed over in CI."""

import os

import pytest

from slurmfab import lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip lab tests on machines that cannot have a lab, with the reason; in CI that reason is a failure."""
    why_not = lab.obstacle()
    if not why_not or os.environ.get("CI"):
        return
    for item in items:
        if "lab" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=why_not))
