"""ssh_config and known_hosts for ssh(1): what it makes of them is asked of ssh itself (`ssh -G`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.hosts import client_config
from slurmfab.hosts.route import Route

KEYS = {"ssh-ed25519": "AAAAC3Nz", "ssh-rsa": "AAAAB3Nz"}


def options(tmp_path: Path, text: str, host: str) -> dict[str, str]:
    """The options that ssh(1) takes from a configuration for a host."""
    (tmp_path / "config").write_text(text)
    asked = subprocess.check_output(["ssh", "-G", "-F", str(tmp_path / "config"), host], text=True)
    return dict(line.split(" ", 1) for line in asked.splitlines() if " " in line)


def text_for(tmp_path: Path, **ways: Route) -> str:
    return client_config.config_text(ways, {"n1": KEYS}, tmp_path / "known hosts")


def test_a_member_when_asked_of_ssh_then_has_its_address_user_port_key_and_pinned_keys(tmp_path: Path) -> None:
    text = text_for(tmp_path, n1=Route("n1", "10.0.0.2", "admin", 2222, key="/keys/a b"))
    found = options(tmp_path, text, "n1")
    assert (found["hostname"], found["user"], found["port"]) == ("10.0.0.2", "admin", "2222")
    assert (found["identityfile"], found["identitiesonly"]) == ("/keys/a b", "yes")
    assert found["hostkeyalias"] == "n1"
    assert found["hostkeyalgorithms"] == "ssh-ed25519,rsa-sha2-512,rsa-sha2-256"
    assert found["stricthostkeychecking"] in ("yes", "true")
    assert "known hosts" in found["userknownhostsfile"]


def test_members_when_behind_a_gateway_then_jump_over_it_with_its_own_user_and_key(tmp_path: Path) -> None:
    gate = Route("gate", "192.0.2.1", "jo", 2200, key="/keys/gate")
    text = text_for(
        tmp_path, n1=Route("n1", "10.0.0.2", "root", gateway=gate), gate2=Route("gate2", "10.0.0.9", "root")
    )
    assert options(tmp_path, text, "n1")["proxyjump"] == "gate"
    found = options(tmp_path, text, "gate")
    assert (found["hostname"], found["user"], found["port"]) == ("192.0.2.1", "jo", "2200")
    assert text.count("Host gate\n") == 1


def test_a_member_without_pinned_keys_then_is_checked_as_the_user_has_it(tmp_path: Path) -> None:
    text = text_for(tmp_path, n9=Route("n9", "10.0.0.9", "root", proxy_command="nc %h %p"))
    assert "StrictHostKeyChecking" not in text
    assert options(tmp_path, text, "n9")["proxycommand"] == "nc %h %p"


@pytest.mark.parametrize(
    "way",
    [
        Route("n1", "10.0.0.2", 'ro"ot'),
        Route("n1", "10.0.0.2\nProxyCommand id", "root"),
        Route("n1", "10.0.0.2", "root", gateway=Route("g\n1", "10.0.0.1", "root")),
    ],
)
def test_a_value_that_ssh_config_cannot_hold_then_is_refused(tmp_path: Path, way: Route) -> None:
    with pytest.raises(InputError, match="cannot be written into an ssh_config"):
        text_for(tmp_path, n1=way)


def test_an_address_of_one_link_then_keeps_its_interface(tmp_path: Path) -> None:
    text = text_for(tmp_path, n1=Route("n1", "fe80::1%eth0", "root"))
    assert options(tmp_path, text, "n1")["hostname"] == "fe80::1%eth0"


@pytest.fixture
def known(tmp_path: Path) -> Inventory:
    (tmp_path / "lab.yaml").write_text(THREE_HOSTS)
    cluster = loading.parse(THREE_HOSTS, "lab.yaml")
    return Inventory(cluster, Lock(hosts={cluster.controller: HostLock(host_keys=KEYS)}), tmp_path / "lab.yaml")


def test_the_configuration_when_printed_then_the_pinned_keys_are_in_a_file_beside_the_cluster_file(
    known: Inventory, tmp_path: Path
) -> None:
    text = client_config.show(known)
    controller = known.cluster.controller
    path = tmp_path / "lab.known_hosts"
    assert path.read_text() == f"{controller} ssh-ed25519 AAAAC3Nz\n{controller} ssh-rsa AAAAB3Nz\n"
    assert f"UserKnownHostsFile {path}" in text
    before = path.stat().st_mtime_ns
    assert client_config.show(known) == text
    assert path.stat().st_mtime_ns == before


def test_a_host_that_is_no_member_then_is_refused_with_those_that_are(known: Inventory) -> None:
    with pytest.raises(InputError, match=r"n99: not in .*known: "):
        client_config.connect(known, "n99", [])
