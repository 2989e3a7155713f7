"""What the checks of the image registry and of Docker find on stand-in hosts."""

from __future__ import annotations

import json

import pytest
from ruled_shells import RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks import test_docker, test_registry
from slurmfab.commands.checks.hosts import CheckedHost

OPEN = cluster(f"{THREE_HOSTS}registry: {{host: c1, anonymous_pull: true}}\n")
CLOSED = cluster(f"{THREE_HOSTS}registry: c1\n")
DOCKER = cluster(f"{THREE_HOSTS}users: [{{name: ann}}]\ncontainers: {{use: [docker], docker: {{users: [ann]}}}}\n")


def node(*, why: str = "", days: float = 700, login: tuple[int, int] = (401, 401)) -> CheckedHost:
    """A host whose registry answers this; its port without a login answers as it should."""
    first = {"why": why, "ends": days * 24 * 3600, "read": login[0], "write": login[1]}
    second = {**first, "read": 200, "write": 405}
    return CheckedHost("n1", RuledShell({r" c1 5000 ": json.dumps(first), r" c1 5001 ": json.dumps(second)}))


@pytest.mark.parametrize("known", [OPEN, CLOSED])
def test_a_registry_that_is_right_passes(known: Cluster) -> None:
    test_registry.test_registry_answers_with_its_certificate(node(), known)
    test_registry.test_registry_takes_no_image_without_a_login(node(), known)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (
            node(why="certificate verify failed"),
            "no answer from c1:5000 that this host trusts: certificate verify failed",
        ),
        (node(days=12.3), "the certificate of c1:5000 ends in 12 days. Repair: .* deploy --hosts c1"),
        (CheckedHost("n1", RuledShell({"python3": "nonsense"})), "no answer from c1:5000"),
    ],
)
def test_a_registry_that_a_host_cannot_trust_fails_with_the_reason(host: CheckedHost, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_registry.test_registry_answers_with_its_certificate(host, CLOSED)


def test_a_registry_that_takes_images_from_everybody_fails() -> None:
    with pytest.raises(AssertionError, match="c1:5000 answers 401 to reading and 202 to writing without a login"):
        test_registry.test_registry_takes_no_image_without_a_login(node(login=(401, 202)), CLOSED)


def docker(members: str, version: str = "26.1.5") -> CheckedHost:
    return CheckedHost("n1", RuledShell({"docker version": version, "getent group docker": members}))


def test_docker_with_its_users_alone_passes() -> None:
    test_docker.test_docker_answers(docker("ann"))
    test_docker.test_docker_is_for_its_users_alone(docker("ann"), DOCKER)


@pytest.mark.parametrize(
    ("members", "why"), [("ann,eve", "eve can use Docker, and so become root"), ("", "ann cannot use Docker")]
)
def test_docker_with_others_or_without_its_users_fails(members: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_docker.test_docker_is_for_its_users_alone(docker(members), DOCKER)
