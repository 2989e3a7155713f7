"""Nodes that fetch Slurm's files in the site's own way: which of them stay as they are."""

from __future__ import annotations

import pytest
from support import cluster, plan_input, prepared

from slurmfab.core.plan.phases import daemons
from slurmfab.core.plan.phases.slurm_conf import has_own_files, is_controller, site_servers
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.slurm.fetched_files import FetchedFiles

CONFIGLESS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
configless: true
"""


@pytest.mark.parametrize(
    ("server", "stays"),
    [
        ("c1", True),
        ("c1:6817", True),
        ("10.0.0.1:6817", True),
        ("c1:7000", False),
        ("n2:6817", False),
        ("c1,elsewhere", False),
        ("", False),
    ],
)
def test_a_slurmd_that_fetches_from_a_controller_of_the_cluster_stays_as_it_is(server: str, stays: bool) -> None:
    known = cluster(CONFIGLESS)
    running = {"slurmd": "active"}
    facts = {"c1": prepared("c1"), "n1": prepared("n1", conf_server=server, services=running), "n2": prepared("n2")}
    wanted = plan_input(known, facts)
    assert (site_servers(wanted, "n1"), has_own_files(wanted, "n1")) == (server if stays else "", not stays)
    found = daemons.slurmd(wanted, "n1")
    assert any(isinstance(one, File) for one in found) != stays
    assert [one.servers for one in found if isinstance(one, FetchedFiles)] == [server if stays else "10.0.0.1:6817"]


@pytest.mark.parametrize(
    ("more", "host", "fetches"),
    [("", "n1", True), ("", "c1", False), ("configless: false\n", "n1", False), ("", "n2", False)],
)
def test_slurmfabs_own_way_local_files_and_silent_hosts_are_not_the_sites_own_way(
    more: str, host: str, *, fetches: bool
) -> None:
    known = cluster(CONFIGLESS.replace("configless: true\n", more or "configless: true\n"))
    facts = {name: prepared(name, conf_server="c1", fetches=fetches) for name in ("c1", "n1")}
    assert site_servers(plan_input(known, facts), host) == ""


@pytest.mark.parametrize(
    ("port", "place", "is_one"),
    [
        ("6817", "c1", True), ("6817", ":6817", False), ("7000-7003", "c1:7000", True), ("7000", "c1", False),
        ("6817", "[fd00::1]", True), ("6817", "[fd00::1]:6817", True), ("6817", "[fd00::2]", False),
    ],
)  # fmt: skip
def test_a_place_is_one_of_the_controllers_by_name_or_address_with_its_port(
    port: str, place: str, *, is_one: bool
) -> None:
    text = f"{CONFIGLESS.replace('10.0.0.1', chr(39) + 'fd00::1' + chr(39))}slurm_conf: {{SlurmctldPort: '{port}'}}\n"
    known = cluster(text)
    wanted = plan_input(known, {name: prepared(name) for name in known.hosts})
    assert is_controller(wanted, place) is is_one
