"""The kinds of Slurm's packages: what each has, which one a cluster wants and which ones a host has."""

from __future__ import annotations

from dataclasses import fields

import pytest

from reference.json_schemas import key_texts
from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.slurm import platform
from slurmfab.cluster.slurm.platform import DEBIAN, DEBIAN_SMD, DNF, EL, EL_OPENHPC, EL_SMD, PLATFORMS, SOURCE, Platform
from slurmfab.cluster.slurm.versions import SlurmVersion


def host(*packages: str) -> HostFacts:
    return HostFacts("n1", "n1", "debian", "trixie", packages=dict.fromkeys(packages, "24.11.5-4"))


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        (("munge", "mariadb-server"), ()),
        (("slurm-client", "munge"), (DEBIAN,)),
        (("slurm-wlm-basic-plugins",), (DEBIAN,)),
        (("slurm-smd-slurmd", "slurm-smd"), (DEBIAN_SMD,)),
        (("slurm-smd", "slurm-client"), (DEBIAN, DEBIAN_SMD)),
        (("slurm-smd", "libslurm-perl"), (DEBIAN_SMD,)),
        (("slurm", "slurm-slurmd", "munge"), (EL_SMD,)),
        (("slurm", "slurm-slurmd", "slurm-libs"), (EL,)),
        (("slurm-ohpc", "slurm-slurmd-ohpc", "munge"), (EL_OPENHPC,)),
        (("slurm-ohpc", "slurm", "slurm-libs"), (EL, EL_OPENHPC)),
    ],
)
def test_the_kinds_of_packages_of_a_host_are_told_by_their_names(
    packages: tuple[str, ...], expected: tuple[Platform, ...]
) -> None:
    assert platform.all_installed(host(*packages)) == expected
    assert platform.installed(host(*packages)) == (expected[0] if len(expected) == 1 else None)


@pytest.mark.parametrize("one", PLATFORMS.values(), ids=PLATFORMS)
def test_a_platform_counts_all_packages_that_it_names_as_slurms_own_or_common(one: Platform) -> None:
    named = {one.core, one.pam, *(text.split()[0] for text in one.gpu_plugins.values()), *one.telling}
    assert named - {""} <= {*one.slurm_packages}
    assert len({*one.slurm_packages}) == len(one.slurm_packages)
    ssh = "openssh-clients" if one.manager == DNF else "openssh-client"
    assert all({*one.packages(role)} >= {"munge", ssh} for role in one.by_role)


def test_no_package_of_slurms_is_of_two_kinds_unless_one_is_told_by_its_core() -> None:
    names = [name for one in PLATFORMS.values() for name in one.slurm_packages if not one.instead_of]
    assert len({*names}) == len(names)
    assert EL.core not in {*names}


def test_the_daemons_of_the_whole_cluster_are_protected_in_every_kind() -> None:
    for one in PLATFORMS.values():
        assert one is SOURCE or {one.daemon_packages["slurmctld"], one.rest} <= {*one.protected}
        assert one.daemon_packages.get("slurmd") not in one.protected


def test_each_field_is_described() -> None:
    assert {one.name for one in fields(Platform)} - set(key_texts(Platform)) == {"munge"}


def test_packages_go_by_role() -> None:
    assert DEBIAN.packages("controller") == ("munge", "openssh-client", "slurm-client", "slurmctld")
    assert DEBIAN.packages("compute") == ("munge", "openssh-client", "slurm-client", "slurmd")
    assert DEBIAN_SMD.packages("login") == ("munge", "openssh-client", "slurm-smd-client")


def test_pid_files_follow_the_units() -> None:
    own = {unit: f"/run/{unit}/{unit}.pid" for unit in ("slurmctld", "slurmdbd")}
    assert DEBIAN.pid_files(SlurmVersion(22, 5)) == {**own, "slurmd": "/run/slurmd.pid"}
    assert DEBIAN.pid_files(SlurmVersion(23, 11)) == {**own, "slurmd": "/run/slurm/slurmd.pid"}
    assert DEBIAN.pid_files(SlurmVersion(24, 11)) == DEBIAN_SMD.pid_files(SlurmVersion(24, 11))
    assert DEBIAN.slurmd_mode(SlurmVersion(22, 5)) == "-D -s"
    assert DEBIAN_SMD.slurmd_mode(SlurmVersion(25, 11)) == "--systemd"


def test_an_unknown_role_has_no_packages() -> None:
    with pytest.raises(InputError, match="is not a role with packages"):
        DEBIAN.packages("storage")
