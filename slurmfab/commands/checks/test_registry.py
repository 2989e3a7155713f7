"""Checks of the cluster's own image registry: it answers over TLS, sends nobody away, and takes images from few."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.registry import Registry
from slurmfab.commands.checks.hosts import CheckedHost, last_object, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.plan.phases.registry import TRUSTED
from slurmfab.core.plan.registry_authority import fingerprint
from slurmfab.on_hosts.agent.core.host_paths import REGISTRY_CA
from slurmfab.on_hosts.agent.files.trusted_authority import FILE

SECONDS = 10
DAYS = 30  # a certificate that ends earlier is told

DAY = 24 * 3600
ALLOWED, NO_LOGIN, NO_WRITING = 200, 401, 405  # statuses of HTTP: yes; only with a login; never

ASK = f"""
import http.client, json, os, ssl, sys, time
host, port, authority = sys.argv[1], int(sys.argv[2]), sys.argv[3]
told = dict(why="", ends=0.0, read=0, write=0)
try:
    if not os.path.exists(authority):
        raise OSError("there is no " + authority)
    asked = ("read", "GET", "/v2/", authority), ("write", "POST", "/v2/slurmfab-check/blobs/uploads/", None)
    for name, method, path, trusted in asked:
        context = ssl.create_default_context(cafile=trusted)
        connection = http.client.HTTPSConnection(host, port, context=context, timeout={SECONDS})
        connection.request(method, path)
        told["ends"] = ssl.cert_time_to_seconds(connection.sock.getpeercert()["notAfter"]) - time.time()
        told[name] = connection.getresponse().status
        connection.close()
except (OSError, http.client.HTTPException) as error:
    told["why"] = str(error) or type(error).__name__
print(json.dumps(told))
"""
"""Asks a registry without a login whether images may be read and written, and prints the answers and what stopped it.

The first question trusts what podman trusts for this registry; the second what the system trusts, as Apptainer does.

A login is asked for before anything is looked up, so the second request writes nothing.
"""


class Answer(NamedTuple):
    """What a registry answered a host that did not log in."""

    why: str  # what kept it from answering; empty for nothing
    ends: float  # seconds until its certificate ends
    read: int
    write: int


def test_registry_answers_with_its_certificate(image_host: CheckedHost, cluster: Cluster) -> None:
    """the image registry answers over TLS, by a certificate that the host trusts and that lasts"""
    registry = wanted(cluster)
    for place in registry.places:
        answer = ask(image_host, place)
        repair = deploy(*dict.fromkeys((registry.host, image_host.name)))
        assert not answer.why, (
            f"no answer from {place} that this host trusts: {answer.why}. Repair: {repair}; then see "
            f"`systemctl status docker-registry` on {registry.host}"
        )
        assert answer.ends > DAYS * DAY, (
            f"the certificate of {place} ends in {answer.ends / DAY:.0f} days. Repair: {deploy(registry.host)}"
        )


def test_registry_is_trusted_by_the_locks_authority_alone(
    image_host: CheckedHost, cluster: Cluster, lock: Lock
) -> None:
    """the host trusts the registry by the authority that the lock has, and by no other one in its place"""
    registry = wanted(cluster)
    repair = f"Repair: {deploy(*dict.fromkeys((registry.host, image_host.name)))}"
    assert lock.registry_ca, f"the lock has no authority of the registry yet. {repair}"
    paths = [f"{directory}/{place}/ca.crt" for directory in TRUSTED for place in registry.places]
    paths += [FILE, *((REGISTRY_CA,) if image_host.name == registry.host else ())]
    found = {
        path: sha
        for sha, path in (
            line.split() for line in image_host.run(f"sha256sum -- {shlex.join(paths)} 2>/dev/null").stdout.splitlines()
        )
    }
    wrong = [path for path in paths if found.get(path) != fingerprint(lock.registry_ca)]
    assert not wrong, f"{' and '.join(wrong)} of {image_host.name} is not the certificate that the lock has. {repair}"


def test_registry_takes_no_image_without_a_login(image_host: CheckedHost, cluster: Cluster) -> None:
    """nobody sends images without a login, and nobody reads them without one unless the cluster file says so"""
    registry = wanted(cluster)
    for place in registry.places:
        answer = ask(image_host, place)
        assert not answer.why, f"no answer from {place}: {answer.why}"
        right = (ALLOWED, NO_WRITING) if place != registry.place else (NO_LOGIN, NO_LOGIN)
        assert (answer.read, answer.write) == right, (
            f"{place} answers {answer.read} to reading and {answer.write} to writing without a login, not {right[0]} "
            f"and {right[1]}. Repair: {deploy(registry.host)}"
        )


def wanted(cluster: Cluster) -> Registry:
    """The registry of the cluster file; the argument `image_host` exists only where there is one."""
    assert cluster.registry is not None, "the argument asks for it"
    return cluster.registry


def ask(host: CheckedHost, place: str) -> Answer:
    """Ask a registry from a host, without a login."""
    name, _, port = place.rpartition(":")
    done = host.run("python3 -I -S -c %s %s %s %s", ASK, name, port, f"/etc/containers/certs.d/{place}/ca.crt")
    values = last_object(done)
    if done.rc != 0 or not values:
        return Answer(last_words(done), 0, 0, 0)
    ends, read, write = (values.get(name) for name in ("ends", "read", "write"))
    return Answer(
        str(values.get("why", "")),
        float(ends) if isinstance(ends, int | float) else 0,
        read if isinstance(read, int) else 0,
        write if isinstance(write, int) else 0,
    )
