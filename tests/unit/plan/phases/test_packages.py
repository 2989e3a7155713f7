"""Packages that hosts need, and those that slurmfab installed and that nothing needs any more."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, USABLE, prepared_input

from slurmfab.cluster.facts import Cgroup
from slurmfab.core.plan.phases import packages
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages
from slurmfab.on_hosts.agent.packages.packages import Packages


@pytest.mark.parametrize(
    ("host", "cgroup", "has_it"),
    [
        ("n1", Cgroup("v2", troubles=("no system bus",)), True),
        ("n1", Cgroup("v2", ("devices",), troubles=("memory off",)), False),
        ("n1", USABLE, False),
        ("c1", Cgroup("v2", troubles=("no system bus",)), False),
    ],
)
def test_the_bus_is_installed_on_compute_nodes_without_one(host: str, cgroup: Cgroup, has_it: bool) -> None:
    wanted = prepared_input(cgroup=cgroup)
    (found,) = packages.resources(wanted, host)
    assert ("dbus" in vars(found)["names"]) == has_it


@pytest.mark.parametrize(
    ("added", "former"),
    [
        ((), ()),
        (("lmod", "glusterfs-client"), ("glusterfs-client", "lmod")),
        # A host whose role changes keeps Slurm's packages: slurmctld's removal cancels all jobs.
        (("slurmctld", "slurmd", "mariadb-server", "sudo", "lmod"), ("lmod",)),
    ],
)
def test_packages_that_slurmfab_installed_are_removed_where_nothing_asks_for_them(
    added: tuple[str, ...], former: tuple[str, ...]
) -> None:
    wanted = prepared_input(added_packages=added)
    assert packages.former(wanted, "n1") == ((FormerPackages(former),) if former else ())


def test_packages_of_the_site_are_installed_with_those_of_roles() -> None:
    wanted = prepared_input(f"{THREE_HOSTS}packages: {{all: [tree], compute: [htop=3.2*]}}\n")
    (one,) = packages.resources(wanted, "n1")
    assert isinstance(one, Packages)
    assert {"slurmd", "tree", "htop"} <= set(one.names)
    assert one.versions == ("htop=3.2*",)
    (other,) = packages.resources(wanted, "c1")
    assert (vars(other)["versions"], "htop" in vars(other)["names"]) == ((), False)
    assert ({*one.sites}, vars(other)["sites"]) == ({"tree", "htop"}, ("tree",))
