"""One place knows platforms: others that depend on one are explained, and none is explained that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference import platforms


@pytest.fixture(scope="module")
def places() -> dict[str, set[str]]:
    return platforms.places()


def test_a_place_that_depends_on_a_platform_is_explained(places: dict[str, set[str]]) -> None:
    unexplained = {path: found for path, found in places.items() if not platforms.reason(path)}
    assert unexplained == {}, (
        "take it from slurmfab/cluster/slurm/platform.py, or say in reference/platforms.py why it is there."
    )


def test_no_place_is_explained_that_depends_on_none(places: dict[str, set[str]]) -> None:
    assert {*platforms.EXPLAINED} - {platforms.reason(path) for path in places} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('NAME = "slurm-smd-slurmd"', {"names of packages"}),
        ('RUN = ["apt-get", "install"]', {"apt"}),
        ("UID = 64030", {"reserved numbers"}),
        ('FOLDER = "/usr/lib/x86_64-linux-gnu/slurm-wlm"', {"directory of plugins", "names of packages"}),
        ('CONF = "/etc/mysql/mariadb.conf.d/1.cnf"', {"MariaDB's settings"}),
        ('"""apt-get and dpkg of slurm-client."""', set()),
        ('TEXT = "slurmctld"', set()),
    ],
)
def test_a_new_place_is_found(tmp_path: Path, text: str, expected: set[str]) -> None:
    (tmp_path / "new.py").write_text(f"{text}\n")
    assert platforms.of_module(tmp_path / "new.py") == expected
