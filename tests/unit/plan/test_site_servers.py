"""Nodes that fetch Slurm's files in the site's own way: which of them stay as they are."""

from __future__ import annotations

import pytest
from support import cluster, plan_input, prepared

from slurmfab.core.plan.phases import daemons
from slurmfab.core.plan.phases.slurm_conf import has_own_files
from slurmfab.core.plan.site_servers import site_servers
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
