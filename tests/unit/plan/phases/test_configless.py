"""Nodes that fetch Slurm's files: whom they ask, what they get, and who waits for them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, plan_input, prepared, prepared_input

from slurmfab.core.plan.phases import configless
from slurmfab.core.plan.plan_input import PlanInput, digest
from slurmfab.on_hosts.agent.slurm.carried_files import CarriedFiles

CONFIGLESS = f"{THREE_HOSTS}configless: true\n"
TWO = CONFIGLESS.replace("[c1]", "[c1, c2]").replace("c1: 10.0.0.1", "c1: 10.0.0.1, c2: 'fd00::2'")


def wanted(text: str, **facts: Any) -> PlanInput:
    return prepared_input(text, **facts)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (CONFIGLESS, "10.0.0.1:6817"),
        (f"{CONFIGLESS}slurm_conf: {{SlurmctldPort: '7000'}}\n", "10.0.0.1:7000"),
        (f"{TWO}state_directory: /shared/slurm\n", "10.0.0.1:6817,c2:6817"),
    ],
)
def test_nodes_ask_all_controllers_the_first_one_first(text: str, servers: str) -> None:
    found = wanted(text)
    assert configless.servers(found) == servers
    text = configless.drop_in(found, *configless.started(found, "n1"))
    assert f" --conf-server {servers} $SLURMD_OPTIONS\n" in text
    assert re.findall(r"</dev/tcp/(\S+)/(\d+)\"", text) == [tuple(one.split(":")) for one in servers.split(",")]


def test_nodes_have_the_files_that_slurmctld_serves() -> None:
    found = wanted(CONFIGLESS)
    assert dict(configless.digests(found)) == {name: digest(text) for name, text in found.files}


@pytest.mark.parametrize(
    ("text", "host", "fetches", "stops"),
    [
        (THREE_HOSTS, "n1", True, True),
        (THREE_HOSTS, "n1", False, False),
        (THREE_HOSTS, "c1", True, False),
        (CONFIGLESS, "n1", True, False),
    ],
)
def test_a_node_stops_fetching_once_the_file_wants_local_files(
    text: str, host: str, *, fetches: bool, stops: bool
) -> None:
    found = wanted(text, fetches=fetches)
    assert configless.stops_fetching(found, host) is stops
    assert bool(configless.given_up(found, host)) is stops
    silent = dataclasses.replace(found, facts={})
    assert not configless.stops_fetching(silent, host)


def test_the_first_controller_waits_for_the_nodes_that_fetch() -> None:
    found = wanted(f"{TWO}state_directory: /shared/slurm\n")
    (one,) = configless.carried(found, "c1")
    assert isinstance(one, CarriedFiles)
    assert (one.nodes, one.renews) == (("n1", "n2"), True)
    assert "/etc/slurm/slurm.conf" in one.watches
    assert one.log == found.conf_wanted.settings["slurmctldlogfile"]
    assert configless.carried(found, "c2") == ()
    assert configless.carried(wanted(THREE_HOSTS), "c1") == ()
    assert [vars(one)["renews"] for one in configless.carried(older(), "c1")] == [False]


def older() -> PlanInput:
    """A cluster with Slurm 22.05, whose daemons stay when they read new files."""
    known = cluster(CONFIGLESS)
    return plan_input(known, {host: prepared(host, "22.05.8") for host in known.hosts})
