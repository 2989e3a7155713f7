"""Where slurmd could not ask systemd for its place, the system bus is installed."""

from __future__ import annotations

import pytest
from support import USABLE, cluster, facts_of, plan_input, prepared

from slurmfab.facts import Cgroup
from slurmfab.plan.phases import packages


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
    wanted = plan_input(cluster(), facts_of(cluster(), prepared, cgroup=cgroup))
    (found,) = packages.resources(wanted, host)
    assert ("dbus" in vars(found)["names"]) == has_it
