"""The key registry of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.registry import DIRECTORY, Registry


def registry(said: str) -> Registry:
    found = cluster(f"{THREE_HOSTS}registry: {said}\n").registry
    assert found is not None
    return found


def test_the_name_of_a_host_is_a_registry_with_all_defaults() -> None:
    assert registry("c1") == Registry(host="c1")
    assert registry("c1").places == ("c1:5000",)
    assert registry("c1").directory == DIRECTORY


def test_a_registry_without_a_login_has_a_second_place() -> None:
    assert registry("{host: c1, anonymous_pull: true, port: 5500}").places == ("c1:5500", "c1:5001")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("nas", 'registry.host: "nas" is no host of this cluster'),
        ("{port: 5000}", "registry.host: this key is missing"),
        ("{host: c1, port: 443}", "registry.port"),
        ("{host: c1, address: 10.0.0.300}", '"10.0.0.300" is not an IP address'),
        ("{host: c1, directory: images}", "is not an absolute path"),
        ("{host: c1, directory: /etc/docker}", '"/etc/docker" is no place for images'),
        ("{host: c1, directory: /run/images}", '"/run/images" is a directory of the system'),
        ("{host: c1, directory: /var/lib/slurm/slurmctld}", "is inside of, the directory of state_directory"),
        ("{host: c1, pull_port: 5002}", "pull_port is for anonymous_pull: true"),
        ("{host: c1, anonymous_pull: true, port: 5001}", "port and pull_port are both 5001"),
        ("{host: c1, allowed: [docker.io/library]}", "allowed is for only: true"),
        ("{host: c1, only: true, allowed: [library/debian]}", "is not a registry, nor a part of one"),
        ("{host: c1, only: true, allowed: ['docker.io/library/']}", "is not a registry, nor a part of one"),
        ("{host: c1, users: [ann]}", "users"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(said: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        registry(said)
    assert why in str(refused.value)


def test_a_file_of_the_site_in_the_place_of_the_registrys_is_refused() -> None:
    with pytest.raises(InputError, match="slurmfab writes it for the key registry"):
        registry("c1\nfiles: {/etc/containers/policy.json: {text: '{}'}}")
