"""The packages of MPI on the hosts that start programs."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.cluster.slurm.software import MPI_LIBRARIES, PMIX
from slurmfab.core.plan.phases import mpi
from slurmfab.core.plan.plan_input import PlanInput

HOSTS = THREE_HOSTS.replace("addresses: {", "addresses: {d1: 10.0.0.9, ") + "database: d1\n"


def wanted(more: str, codename: str = "bookworm") -> PlanInput:
    return prepared_input(HOSTS + more, codename=codename)


@pytest.mark.parametrize(
    ("more", "host", "codename", "names"),
    [
        ("", "n1", "bookworm", ()),
        ("mpi: pmix\n", "n1", "bookworm", PMIX["bookworm"]),
        ("mpi: pmix\n", "c1", "bookworm", PMIX["bookworm"]),
        ("mpi: pmix\n", "d1", "bookworm", ()),
        ("mpi: pmix\n", "n1", "sid", PMIX.get("sid", ())),
        ("mpi: pmi2\n", "n1", "bookworm", ()),
        ("mpi: {type: pmix, packages: openmpi}\n", "n1", "sid", (*PMIX.get("sid", ()), *MPI_LIBRARIES["openmpi"])),
    ],
)
def test_hosts_on_which_programs_start_have_what_the_plugin_opens_and_the_named_mpi(
    more: str, host: str, codename: str, names: tuple[str, ...]
) -> None:
    assert mpi.packages(wanted(more, codename), host) == names


def test_a_host_that_does_not_answer_gets_the_named_mpi_alone() -> None:
    there = wanted("mpi: {type: pmix, packages: openmpi}\n")
    silent = PlanInput(there.cluster, there.lock, {})
    assert mpi.packages(silent, "n1") == MPI_LIBRARIES["openmpi"]
