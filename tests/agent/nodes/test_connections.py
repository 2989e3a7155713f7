"""Connections to other hosts: a refusal shows that packets arrive; rules of nftables in a namespace keep them out."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import OK, WOULD_CHANGE, Context, OtherHostsFailed, ResourceFailed, apply
from slurmfab.on_hosts.agent.nodes.connections import Connections, blocked, chains

PACKAGE = Path(__file__).parents[3]
TRY = "from slurmfab.on_hosts.agent.nodes.connections import blocked; print(blocked('127.0.0.1', 7), end='')"
REJECTS = (
    "ip link set lo up; nft 'add table inet t; add chain inet t i { type filter hook input priority 0; };"
    ' add rule inet t i tcp dport 7 reject with icmpx type admin-prohibited\'; exec "$@"'
)


def test_a_port_is_open_where_something_listens_refuses_or_has_no_known_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert blocked("127.0.0.1", port) == ""
    assert blocked("127.0.0.1", port) == "", "nothing listens any more"
    assert blocked("no-such-host.invalid", 1) == ""
    here = Connections("n1", (("ctl", "127.0.0.1", port, "slurmctld"),))
    assert apply(here, Context(dry_run=True)).status == OK


def test_a_port_that_rules_reject_is_blocked() -> None:
    namespace = ["unshare", "--net", "sh", "-c", REJECTS, "sh", sys.executable, "-c", TRY]
    done = subprocess.run(namespace, cwd=PACKAGE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no namespace with rules here: {done.stderr}")
    assert done.stdout == "No route to host"


def test_what_is_blocked_is_the_failure_of_a_node_or_of_the_host_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rules that drop packets to this machine's own address would need a namespace for the whole test.
    monkeypatch.setattr("slurmfab.on_hosts.agent.nodes.connections.blocked", lambda *_: "no answer within 4 s")
    target = (("n2", "10.0.0.2", 6818, "slurmd"),)
    words = "n1 cannot connect to slurmd on n2, 10.0.0.2 TCP port 6818: no answer within 4 s. Let n1 in there"
    with pytest.raises(ResourceFailed, match=words):
        Connections("n1", target).converge(Context(), frozenset())
    with pytest.raises(OtherHostsFailed, match=f"n2: {words}"):
        Connections("n1", target, ("n2",)).converge(Context(), frozenset())
    found = apply(Connections("n1", target), Context(dry_run=True))
    (change,) = found.changes
    assert (found.status, change.name) == (WOULD_CHANGE, "slurmd on n2 port 6818")
    assert (change.actual, change.wanted) == ("no answer within 4 s", "open")


def test_chains_of_others_that_drop_what_no_rule_accepts_are_told() -> None:
    chain = '{"chain": {"family": "inet", "table": "%s", "name": "input", "hook": "input", "policy": "%s"}}'
    some = ", ".join((chain % ("filter", "drop"), chain % ("slurmfab", "accept")))
    assert chains(f'{{"nftables": [{{"metainfo": {{}}}}, {some}]}}') == ["inet filter input"]
    assert chains("no JSON") == []
