"""Figures for Prometheus: a real one sees a drained node within a minute, and all of it goes with the key.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import ExtendedLab, eventually
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEY = "monitoring: {every: 10, prometheus: {host: ctl, every: 10}}\n"
MINUTE = 60.0
PORTS = "ss -Hltn 'sport = :9100 or sport = :9090' | awk '{print $4}' | sort"
FIGURES = "cat /var/lib/slurmfab/node-exporter/slurmfab.prom"
QUERY = (
    'python3 -c "import urllib.parse as p, urllib.request as r, sys; '
    "print(r.urlopen('http://{}:9090/api/v1/query?query=' + p.quote(sys.argv[1]), timeout=5).read().decode())\" '{}'"
)
STARTED = "journalctl -o cat -u prometheus -u prometheus-node-exporter | grep -i 'listening on' | grep -v 'TLS'; true"
LEFT = (
    "ls -d /etc/slurmfab-metrics* /usr/local/lib/slurmfab/metrics /var/lib/slurmfab/node-exporter "
    "/var/lib/slurmfab/owned/monitoring* /etc/prometheus/slurmfab* /etc/systemd/system/prometheus*.d/slurmfab.conf "
    "2>/dev/null; systemctl list-unit-files --no-legend 'slurmfab-metrics.*'; command -v prometheus-node-exporter; "
    f"command -v prometheus; {PORTS}"
)
"""Prints what a deployment without the key must not leave."""

DRAIN = "scontrol update NodeName=n2 State=DRAIN Reason='a \"loose\" cable\\'"


TOLD = (
    "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}:9100/metrics', timeout=5).read().decode())\""
)
FORGE = """for user in slurm munge prometheus; do
    place=/var/lib/$user/node-exporter
    setpriv --reuid=$user --regid=$user --clear-groups \
        sh -c "mkdir -p $place && echo forged_by_$user 1 >$place/x.prom" || :
done; cat /var/lib/*/node-exporter/x.prom"""
"""Each user who owns a directory in /var/lib makes one there in which figures could be; prints the figures."""

HOSTILE = """systemctl stop prometheus-node-exporter
cat >/run/hostile.py <<'END'
import http.server, itertools, os
new = itertools.count()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if os.path.exists("/run/redirects"):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:7777/private?do=delete")
            self.end_headers()
            return
        number = next(new)
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join('own_figure{n="%d.%d"} 1\\n' % (number, one) for one in range(19000)).encode())
http.server.HTTPServer(("ADDRESS", 9100), Handler).serve_forever()
END
systemd-run --quiet --unit hostile /usr/bin/python3 /run/hostile.py"""
"""A node whose root tells 19,000 new series at each scrape, or sends whoever asks to a service of their own host."""

PRIVATE = """cat >/run/private.py <<'END'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("/run/private.asked", "a").write(self.path + "\\n")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"secret_of_loopback 42\\n")
http.server.HTTPServer(("127.0.0.1", 7777), Handler).serve_forever()
END
systemd-run --quiet --unit private /usr/bin/python3 /run/private.py"""


@dataclass
class Watched(ExtendedLab):
    """A cluster of two nodes whose controller has Prometheus."""

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series that Prometheus has for a query now."""
        address = self.lab.lab.host("ctl").address
        found = json.loads(self.lab.on("ctl", QUERY.format(address, query), check=False) or '{"data": {"result": []}}')
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def value(self, query: str) -> float | None:
        """The value of a query with one series; `None` for none."""
        found = self.ask(query)
        return float(found[0]["value"][1]) if found else None

    def check(self) -> dict[str, str]:
        """The outcomes of the group's checks by name and host, with the causes of failures."""
        rows = self.lab.checks("monitoring")
        return {f"{one['check']}/{one['host']}": one["outcome"] + one.get("cause", "") for one in rows}


@pytest.fixture(scope="module", params=in_turn("monitoring"))
def watched(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Watched]:
    with stock.copy(request.param, nodes=2) as hosts:
        found = Watched(hosts, hosts.inventory_path.read_text())
        found.write(KEY)
        hosts.deploy()
        yield found


def test_daemons_when_deployed_then_they_listen_where_the_file_says_and_never_elsewhere(watched: Watched) -> None:
    for host, ports in (("ctl", ["9090", "9100"]), ("n1", ["9100"]), ("n2", ["9100"])):
        address = watched.lab.lab.host(host).address
        assert watched.lab.on(host, PORTS).split() == [f"{address}:{port}" for port in ports]
        # Debian's packages would have started them on all addresses when they were installed.
        assert "[::]" not in watched.lab.on(host, STARTED)
    again = watched.lab.deploy()["steps"]
    assert again == [], again


def test_prometheus_when_a_node_is_drained_then_it_shows_that_within_a_minute(watched: Watched) -> None:
    eventually(lambda: watched.value("slurm_up") == 1, lambda: watched.lab.on("ctl", FIGURES), MINUTE)
    assert watched.value('slurm_nodes{state="drained"}') == 0
    watched.lab.on("ctl", DRAIN)
    since = time.monotonic()
    query = 'slurm_node_out_of_service{node="n2",state="drained"}'
    eventually(lambda: watched.value(query) == 1, lambda: watched.lab.on("ctl", FIGURES), MINUTE)
    assert time.monotonic() - since < MINUTE
    (told,) = watched.ask("slurm_nodes_out_of_service")
    assert told["metric"]["reason"] == 'a "loose" cable\\'
    assert (told["metric"]["instance"], told["metric"]["cluster"]) == ("ctl", watched.lab.lab.spec.name)
    watched.lab.on("ctl", "scontrol update NodeName=n2 State=RESUME")


def test_prometheus_when_it_has_asked_all_then_every_host_answers_and_the_checks_pass(watched: Watched) -> None:
    eventually(lambda: watched.value('count(up{job="node"} == 1)') == len(("ctl", "n1", "n2")), "all targets", MINUTE)
    found = watched.check()
    assert set(found.values()) == {"passed"}, found
    watched.lab.on("n1", "systemctl stop prometheus-node-exporter")
    found = watched.check()
    assert "nothing listens on port 9100" in found["exporter_answers_where_it_should/n1"], found
    assert watched.lab.deploy()["hosts"]


def test_figures_of_users_who_own_directories_in_var_lib_then_are_told_by_no_exporter(watched: Watched) -> None:
    for host in ("ctl", "n1"):
        assert "forged_by_slurm 1" in watched.lab.on(host, FORGE)
        watched.lab.on(host, "echo own_figure 7 >/var/lib/slurmfab/node-exporter/own.prom")
        told = watched.lab.on(host, TOLD.format(watched.lab.lab.host(host).address))
        assert "\nown_figure 7\n" in told
        assert "forged_by_" not in told
        assert "\nnode_textfile_scrape_error 0\n" in told
        watched.lab.on(host, "rm -rf /var/lib/slurm/node-exporter /var/lib/munge/node-exporter")


def test_a_host_with_more_figures_than_any_has_counts_as_down(watched: Watched) -> None:
    own = "/var/lib/slurmfab/node-exporter/own.prom"
    watched.lab.on("n2", f"seq 20001 | sed 's/.*/own_figure{{n=\"&\"}} 1/' > {own}.new && mv {own}.new {own}")
    eventually(lambda: watched.value('up{instance="n2",job="node"}') == 0, "n2 is left out", MINUTE)
    assert watched.ask('own_figure{instance="n2"}') == []
    watched.lab.on("n2", f"rm {own}")
    eventually(lambda: watched.value('up{instance="n2",job="node"}') == 1, "n2 is heard again", MINUTE)


def test_a_node_that_redirects_prometheus_or_tells_ever_new_series_then_is_told_and_nothing_else_is_asked(
    watched: Watched,
) -> None:
    watched.lab.on("ctl", PRIVATE)
    watched.lab.on("n1", "touch /run/redirects; " + HOSTILE.replace("ADDRESS", watched.lab.lab.host("n1").address))
    eventually(lambda: watched.value('up{instance="n1",job="node"}') == 0, "n1 counts as down", MINUTE)
    assert watched.ask("secret_of_loopback") == []
    assert watched.lab.on("ctl", "cat /run/private.asked 2>&1", check=False).endswith("No such file or directory")
    watched.lab.on("n1", "rm /run/redirects")
    eventually(lambda: watched.ask('ALERTS{alertname="HostTellsNewFigures",instance="n1"}') != [], "alert", 2 * MINUTE)
    assert watched.ask('ALERTS{alertname="HostTellsNewFigures",instance!="n1"}') == []
    watched.lab.on("ctl", "systemctl stop private")
    watched.lab.on("n1", "systemctl stop hostile; systemctl start prometheus-node-exporter")
    eventually(lambda: watched.value('up{instance="n1",job="node"}') == 1, "n1 is heard again", MINUTE)


def test_figures_when_slurmctld_is_silent_then_they_say_so(watched: Watched) -> None:
    watched.lab.on("ctl", "systemctl stop slurmctld")
    # The timer may have begun to gather the figures while slurmctld still answered.
    eventually(
        lambda: "\nslurm_up 0\n" in watched.lab.on("ctl", FIGURES), lambda: watched.lab.on("ctl", FIGURES), MINUTE
    )
    text = watched.lab.on("ctl", FIGURES)
    watched.lab.on("ctl", "systemctl start slurmctld")
    assert "slurm_nodes{" not in text


def test_monitoring_when_the_file_no_longer_has_it_then_all_of_it_goes(watched: Watched) -> None:
    watched.write("")
    watched.lab.deploy()
    for host in ("ctl", "n1", "n2"):
        assert watched.lab.on(host, LEFT, check=False) == ""
    again = watched.lab.deploy()["steps"]
    assert again == [], again
