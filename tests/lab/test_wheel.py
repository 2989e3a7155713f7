"""The wheel: installed into an environment of its own, it deploys and checks without the source tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import built_wheel
import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from lab_user import Person, running_lab
from suites import NEWEST

from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

SPEC = LabSpec(name="hwheel", suite=NEWEST, nodes=1)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Somebody who has installed the wheel into an environment of its own, and has no source tree."""
    installed = built_wheel.install(
        built_wheel.build(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("fresh")
    )
    return replace(Person.at(tmp_path_factory.mktemp("person")), program=(str(installed.program),))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    with running_lab(SPEC, tmp_path_factory.mktemp("hosts")) as made:
        yield made


def test_an_installed_slurmfab_when_used_in_an_empty_directory_then_builds_a_cluster_that_passes_its_checks(
    person: Person, hosts: DeployedLab
) -> None:
    lines = "".join(f"{host.name} ansible_host={host.address}\n" for host in hosts.lab.hosts)
    (person.directory / "hosts.ini").write_text(f"[slurm]\n{lines}[slurm:vars]\nansible_user=root\n")
    words = ["--hosts", "@hosts.ini:slurm", "--key", str(hosts.lab.ssh_key), "--accept-new-host-keys"]
    succeeded(person.slurmfab("deploy", *words, "--controller-computes"))
    assert sorted(hosts.on("ctl", AS_SLURM + "srun -N2 hostname").split()) == ["ctl", "n1"]
    succeeded(person.slurmfab("check-cluster"))
