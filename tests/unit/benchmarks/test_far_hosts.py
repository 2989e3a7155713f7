"""The stand-ins for thousands of hosts: they speak SSH well enough for slurmfab, and answer as agents."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from benchmarks.scenarios import far_hosts
from slurmfab.base.hostlist import expand_endpoints
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import ask_facts
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.route import to_hosts
from slurmfab.hosts.transport import SshTransport


@pytest.mark.parametrize(("first", "count"), [("127.1.0.1", 1), ("127.1.0.1", 255), ("127.1.0.250", 600)])
def test_addresses_in_a_row_when_written_as_a_hostlist_then_are_all_there(first: str, count: int) -> None:
    start = int(IPv4Address(first))
    found = [endpoint.address for endpoint in expand_endpoints(far_hosts.hostlist(start, count))]
    assert found == [str(IPv4Address(start + number)) for number in range(count)]


def test_a_stand_in_when_asked_for_facts_then_answers_as_an_agent_and_tells_its_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setattr(far_hosts, "PORT", free.getsockname()[1])
    with far_hosts.running(tmp_path) as process:
        far = far_hosts.Far(far_hosts.cluster_file(tmp_path, 4, 1), process)
        known = loading.load(far.file)
        policies = {host: PinnedKey(host, session.trusted_keys(known, host)) for host in known.cluster.hosts}
        transport = SshTransport(to_hosts(known.cluster), policies)
        try:
            names = [ask_facts(transport, host, with_secrets=False).hostname for host in ("ctl", "n2")]
        finally:
            transport.close()
        assert names == ["ctl", "n2"]
        assert far.cost() > 0
