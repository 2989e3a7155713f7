"""Checks of figures for Prometheus: exporters, Slurm's figures, and Prometheus itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family, in_url
from slurmfab.base.paths import METRICS_FILE, METRICS_UNIT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.monitoring import CLUSTER, Monitoring
from slurmfab.cluster.slurm.software import NODE_EXPORTER, PROMETHEUS
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.hosts import CheckedHost, last_object, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.core import json_objects

OF_EXPORTER = "/metrics"
SECONDS = 10
MISSED = 3  # so many collections may be missing before figures are too old
GRACE = 60.0  # seconds that a collection may take on a busy controller

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared

ASK = f"""
import http.client, json, sys
told = dict(why="", text="")
try:
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout={SECONDS})
    connection.request("GET", sys.argv[3])
    answer = connection.getresponse()
    text = answer.read(64 << 20).decode(errors="replace")
    if answer.status != 200:
        raise OSError("it answers with status %d" % answer.status)
    if sys.argv[3] == "{OF_EXPORTER}":
        text = "".join(line for line in text.splitlines() if line.startswith("node_textfile_scrape_error "))
    told["text"] = text
except (OSError, http.client.HTTPException) as error:
    told["why"] = str(error) or type(error).__name__
print(json.dumps(told))
"""
"""Asks a daemon for a page, and prints its text, of an exporter one line alone, and what kept it from answering."""

LISTENING = "ss -Hltn 'sport = :'%s | awk '{print $4}'"
READ_AGE = f"date +%s; stat --format=%Y {METRICS_FILE} 2>/dev/null || echo 0"
"""Prints the clock, and when the figures were written."""


def test_exporter_answers_where_it_should(monitored: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the node exporter answers on the address of the cluster file, and listens on no other one"""
    monitoring = wanted(cluster)
    addresses = expected(monitored.name, cluster, lock, monitoring.listens_on(monitored.name))
    answers_there(monitored, Daemon(NODE_EXPORTER, addresses, monitoring.port, OF_EXPORTER))


def test_prometheus_answers_where_it_should(prometheus_host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Prometheus answers on the address of the cluster file, and listens on no other one"""
    prometheus = wanted(cluster).prometheus
    assert prometheus is not None, "the argument asks for it"
    addresses = expected(prometheus_host.name, cluster, lock, prometheus.listen)
    answers_there(prometheus_host, Daemon(PROMETHEUS, addresses, prometheus.port, "/-/ready"))


def test_figures_of_slurm_are_fresh(collector: CheckedHost, cluster: Cluster) -> None:
    """the timer that collects Slurm's figures is active, its last run succeeded, and the figures are new"""
    timer, result = timer_of(collector, METRICS_UNIT)
    clock, written = collector.ask(READ_AGE).splitlines()
    repair = f"See: journalctl -u {METRICS_UNIT}; Repair: {deploy(collector.name)}"
    assert timer == "active", f"{METRICS_UNIT}.timer is {timer}. {repair}"
    age, most = float(clock) - float(written), MISSED * wanted(cluster).every + GRACE
    assert age <= most, f"{METRICS_FILE} is {age:.0f} s old. {repair}"
    assert result == "success", f"the last collection failed ({result}). {repair}"


def test_prometheus_reaches_all(prometheus_host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Prometheus gets figures from all exporters"""
    prometheus = wanted(cluster).prometheus
    assert prometheus is not None, "the argument asks for it"
    why, text = "its address is not known", ""
    for address in expected(prometheus_host.name, cluster, lock, prometheus.listen):
        why, text = ask(prometheus_host, address, prometheus.port, "/api/v1/targets?state=active")
        if not why:
            break
    assert not why, f"Prometheus tells no targets: {why}. Repair: {deploy(prometheus_host.name)}"
    targets = targets_of(text)
    silent = {one["host"]: one["error"] for one in targets if one["health"] == "down"}
    first = next(iter(silent.values()), "")
    assert not silent, (
        f"Prometheus gets nothing from {fold(silent)}: {first}. Repair: {deploy(*silent)}; then see whether a firewall "
        f"lets {prometheus_host.name} reach port {wanted(cluster).port} there"
    )


def targets_of(text: str) -> list[dict[str, str]]:
    """Host, health and last error of each exporter that Prometheus asks."""
    found: Any = json_objects.parse(text.encode()) or {}
    data = found.get("data")
    active = data.get("activeTargets") if isinstance(data, dict) else None
    targets = []
    for one in active if isinstance(active, list) else []:
        labels = one.get("labels") if isinstance(one, dict) else None
        if isinstance(labels, dict) and labels.get("job") == "node":
            host, health, error = labels.get("instance"), one.get("health"), one.get("lastError")
            targets.append({"host": str(host), "health": str(health), "error": str(error)})
    return targets


def wanted(cluster: Cluster) -> Monitoring:
    """The key of the cluster file; the arguments of these checks exist only where there is one."""
    assert cluster.monitoring is not None, "the argument asks for it"
    return cluster.monitoring


def expected(host: str, cluster: Cluster, lock: Lock, named: str) -> tuple[str, ...]:
    """The addresses of which a daemon may listen on one: those that the file names, or the lock knows by name."""
    if named != CLUSTER:
        return (named,)
    address = cluster.addresses.get(host, "")
    known = lock.hosts.get(host)
    return (address,) if family(address) != NO_ADDRESS else (known.addresses if known else ())


class Daemon(NamedTuple):
    """A daemon that has to listen on one address."""

    unit: str  # its unit
    addresses: tuple[str, ...]  # those of which it may listen on one
    port: int
    path: str  # of the page that it is asked for


def answers_there(host: CheckedHost, daemon: Daemon) -> None:
    """Make sure that a daemon listens on one address alone, the right one, and answers there."""
    port, repair = daemon.port, f"See: systemctl status {daemon.unit}; Repair: {deploy(host.name)}"
    places = host.ask(LISTENING, str(port)).split()
    listening = {place.rpartition(":")[0].strip("[]").replace("*", "::") for place in places}
    allowed = {canonical(one) for one in daemon.addresses}
    if allowed & set(EVERYWHERE):
        allowed |= set(EVERYWHERE)
    assert listening, f"nothing listens on port {port}. {repair}"
    assert len(listening) == 1 and listening <= allowed, (  # noqa: PT018 - one message for both
        f"port {port} is open on {', '.join(sorted(listening))}, not on {' or '.join(sorted(allowed))} alone. {repair}"
    )
    address = next(iter(listening))
    why, text = ask(host, "127.0.0.1" if address in EVERYWHERE else address, port, daemon.path)
    assert not why, f"{daemon.unit} does not answer on {in_url(address)}:{port}: {why}. {repair}"
    assert daemon.path != OF_EXPORTER or text.endswith(" 0"), (
        f"the exporter cannot read a file of figures ({text or 'it has none'}). See: journalctl -u {daemon.unit}"
    )


def ask(host: CheckedHost, address: str, port: int, path: str) -> tuple[str, str]:
    """Ask a daemon from its own host: what kept it from answering, empty for nothing, and the text of the page."""
    done = host.run("python3 -I -S -c %s %s %s %s", ASK, address, str(port), path)
    values = last_object(done)
    if done.rc != 0 or not values:
        return last_words(done), ""
    return str(values.get("why", "")), str(values.get("text", ""))
