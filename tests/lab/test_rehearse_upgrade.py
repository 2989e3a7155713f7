"""`fab rehearse -- upgrade`: what would stop an upgrade is named before it begins; a clean one tells what it will do.

On "trixie" alone, as in test_upgrade.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from rehearsals import REHEARSALS, Rehearsal
from stock import Stock
from suites import PACKAGES, SUITES
from test_rehearse import Real, at_work, backup, require_named, require_the_same

from slurmfab.lab import slurm_repository

pytestmark = pytest.mark.lab

UPGRADES = tuple(one for one in REHEARSALS if one.suite)


@pytest.fixture(scope="module")
def real(stock: Stock) -> Iterator[Real]:
    if "trixie" not in SUITES or PACKAGES != "debian":
        pytest.skip("the newer Slurm can be installed on trixie alone")
    with at_work(stock, "trixie", newer_slurm=True) as found:
        shutil.copy(slurm_repository.ensure("trixie", print) / slurm_repository.KEY, found.place / "key.asc")
        yield found


@pytest.mark.parametrize("rehearsal", [one for one in UPGRADES if one.fault], ids=lambda one: one.name)
def test_what_would_stop_an_upgrade_is_named_by_the_rehearsal_and_the_cluster_is_untouched(
    real: Real, rehearsal: Rehearsal
) -> None:
    real.lab.on("ctl", rehearsal.prepare)
    made = backup(real)
    try:
        require_named(real, rehearsal)
    finally:
        made.unlink()
        real.lab.on("ctl", rehearsal.mend)


@pytest.mark.parametrize("rehearsal", [one for one in UPGRADES if not one.fault], ids=lambda one: one.name)
def test_an_upgrade_does_what_its_rehearsal_has_told(real: Real, rehearsal: Rehearsal) -> None:
    """The last one: the cluster has the newer Slurm afterwards."""
    backup(real)
    require_the_same(real, rehearsal)
