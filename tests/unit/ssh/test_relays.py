"""Relays: who is reached through whom, and what takes the place of a relay that does not work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from support import cluster

from slurmfab.base.errors import (
    AgentFailed,
    ClusterFileError,
    ConnectionLost,
    HostKeyChanged,
    LoginRefused,
    Unreachable,
)
from slurmfab.cluster.inventory import loading
from slurmfab.hosts import connection as ssh_connection
from slurmfab.hosts.client_config import config_text
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.relays import PROHIBITED
from slurmfab.hosts.route import MOST_RELAYS, Route, relays_of, to_hosts, with_relays
from slurmfab.hosts.session import Session
from slurmfab.hosts.transport import Ends, SshTransport, only_reads

NOTHING = paramiko.SSHConfig()
HOSTS = ("ctl", "r1", "r2", "n1", "n2", "n3", "n4")
PAIR = '{"r[1-2]": "n[1-4]"}'
FILE = """\
cluster: far
ssh: {{user: root, relays: {relays}}}
addresses: {{"n[1-4]": "10.0.0.[1-4]"}}
controllers: [ctl]
nodes: [{{hosts: "r[1-2],n[1-4]"}}]
"""


def file_with(relays: str) -> Any:
    return cluster(FILE.format(relays=relays))


@pytest.mark.parametrize(
    ("relays", "through"),
    [
        ("{}", {}),
        ("ctl", dict.fromkeys(("r1", "r2", "n1", "n2", "n3", "n4"), "ctl")),
        ("[]", {}),
        (
            '[ctl, "r[1-2]"]',
            {"n1": "ctl r1 r2", "n2": "r1 r2 ctl", "n3": "r2 ctl r1", "n4": "ctl r1 r2"},
        ),
        ('{r1: "n[1-2]", r2: n3}', {"n1": "r1", "n2": "r1", "n3": "r2"}),
        ('{r1: "n[1-2]", ctl: ALL}', {"r2": "ctl", "n1": "r1 ctl", "n2": "r1 ctl", "n3": "ctl", "n4": "ctl"}),
        ('{ctl: all, r1: "n[1-2]"}', {"r2": "ctl", "n1": "r1 ctl", "n2": "r1 ctl", "n3": "ctl", "n4": "ctl"}),
        ('{"r[1-2]": "n[1-4]"}', {"n1": "r1 r2", "n2": "r2 r1", "n3": "r1 r2", "n4": "r2 r1"}),
        ('{r1: "r2,n[1-90]", r2: "r1"}', dict.fromkeys(("n1", "n2", "n3", "n4"), "r1")),
    ],
)
def test_relays_of_a_cluster_file_when_read_then_each_host_goes_through_these(
    relays: str, through: dict[str, str]
) -> None:
    ways = to_hosts(file_with(relays), NOTHING)
    assert {host: " ".join(one.host for one in way.relays) for host, way in ways.items() if way.relays} == through
    assert all(one == ways[one.host] for way in ways.values() for one in way.relays)


def test_many_relays_when_they_serve_all_then_each_host_is_given_a_few_and_all_get_equal_shares() -> None:
    names = [f"n{number}" for number in range(1, 10_001)]
    found = relays_of(names, {"n[1-100]": "ALL"})
    assert {len(relays) for relays in found.values()} == {MOST_RELAYS}
    firsts = [relays[0] for relays in found.values()]
    assert {firsts.count(f"n{number}") for number in range(1, 101)} == {99}


def test_a_new_host_when_all_go_through_a_relay_then_it_does_too() -> None:
    ways = {"root@10.0.0.9": ("10.0.0.9", Route("10.0.0.9", "10.0.0.9", "root"))}
    known = file_with("ctl")
    assert [relay.host for relay in with_relays(ways, known)["root@10.0.0.9"].relays] == ["ctl"]
    assert with_relays(ways, file_with('{ctl: "n[1-4]"}'))["root@10.0.0.9"].relays == ()


@pytest.mark.parametrize(
    ("relays", "complaint"),
    [
        ("gate", 'ssh.relays.gate: "gate" is not a host of the cluster (known: '),
        ('[ctl, "x[1-2]"]', '"x[1-2]" are not hosts of the cluster'),
        ('{ctl: "m[1-4]"}', 'ssh.relays.ctl: "m[1-4]" has no host of the cluster'),
        ("{ctl: []}", 'ssh.relays.ctl: "" has no host of the cluster'),
        ('{"c[": "n1"}', "ssh.relays"),
    ],
)
def test_relays_that_cannot_be_when_read_then_are_refused(relays: str, complaint: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        loading.parse(FILE.format(relays=relays), "far.yaml")
    assert complaint in str(refused.value)


def test_ssh_config_when_there_are_relays_then_jumps_over_the_first(tmp_path: Path) -> None:
    text = config_text(to_hosts(file_with("[ctl, r1]"), NOTHING), {}, tmp_path)
    blocks = {block.split()[1]: block for block in text.split("\n\n")}
    assert "ProxyJump r1" in blocks["n1"]
    assert "ProxyJump ctl" in blocks["n2"]
    assert "ProxyJump" not in blocks["ctl"]


class Client:
    """A connection that stands until it is ended."""

    def __init__(self, host: str, through: Client | None) -> None:
        self.host, self.through, self.is_ended = host, through, False

    def get_transport(self) -> Client:
        return self

    def is_active(self) -> bool:
        return not (self.is_ended or (self.through is not None and self.through.is_ended))

    def join(self, seconds: float) -> None:
        assert seconds > 0

    def close(self) -> None:
        self.is_ended = True


class Net:
    """Which host leads where: what takes the place of `connect`, with the lines that people are told."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        self.answers: dict[tuple[str, str], Exception] = {}
        self.tried: list[str] = []
        self.told: list[str] = []

    def connect(self, route: Route, policy: PinnedKey, gateway: Client | None = None) -> Client:
        by = gateway.host if gateway else ""
        self.tried.append(f"{by}>{route.host}")
        assert policy.host == route.host
        if route.host in self.off and not gateway:
            raise Unreachable(route.host, "no answer.")
        problem = self.answers.get((by, route.host))
        if isinstance(problem, Unreachable):
            raise problem
        if problem:
            raise Unreachable(route.host, "no channel.") from problem
        return Client(route.host, gateway)

    def transport(self, relays: str, *hosts: str) -> SshTransport:
        ways = to_hosts(file_with(relays), NOTHING)
        policies = {host: PinnedKey(host, {}) for host in HOSTS}
        return SshTransport({host: ways[host] for host in hosts or HOSTS}, policies, tell=self.told.append)


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    made = Net()
    monkeypatch.setattr(ssh_connection, "connect", made.connect)
    return made


def by(transport: SshTransport, host: str) -> str:
    """Through whom a host is reached."""
    client: Any = transport.connection(host)
    return client.through.host if client.through else ""


def test_hosts_behind_a_relay_when_all_are_reached_then_share_its_one_connection(net: Net) -> None:
    transport = net.transport("ctl")
    assert [by(transport, host) for host in HOSTS] == ["", *["ctl"] * 6]
    assert net.tried.count(">ctl") == 1
    assert net.told == []


def test_a_relay_that_is_no_host_of_the_run_when_needed_then_is_reached_with_its_own_policy(net: Net) -> None:
    assert by(net.transport("ctl", "n1"), "n1") == "ctl"


def test_a_relay_that_is_off_when_hosts_are_reached_then_it_is_tried_once_and_another_takes_its_place(net: Net) -> None:
    net.off = {"r1"}
    transport = net.transport(PAIR)
    assert [by(transport, host) for host in ("n1", "n2", "n3", "n4")] == ["r2"] * 4
    assert net.tried.count(">r1") == 1
    assert net.told == ["r1: not used as a relay, so the hosts behind it are reached another way: no answer."]


def test_all_relays_off_when_hosts_are_reached_then_they_are_reached_directly(net: Net) -> None:
    net.off = {"r1", "r2"}
    assert by(net.transport("[r1, r2]"), "n1") == ""
    assert len(net.told) == 2


def test_a_relay_that_forwards_nothing_when_found_out_then_it_is_told_once_and_not_asked_again(net: Net) -> None:
    net.answers = {("ctl", host): paramiko.ChannelException(PROHIBITED, "prohibited") for host in HOSTS}
    transport = net.transport("ctl")
    assert [by(transport, host) for host in ("n1", "n2", "n3")] == [""] * 3
    assert [one for one in net.tried if one.startswith("ctl>")] == ["ctl>n1"]
    assert len(net.told) == 1
    assert "its sshd forwards no connections (AllowTcpForwarding" in net.told[0]


def test_a_host_that_one_relay_cannot_reach_when_another_can_then_that_one_does_for_it_alone(net: Net) -> None:
    net.answers = {("r1", "n1"): paramiko.ChannelException(2, "Connect failed")}
    transport = net.transport(PAIR)
    assert [by(transport, host) for host in ("n1", "n3")] == ["r2", "r1"]
    assert net.told == []


def test_a_host_that_nobody_can_reach_when_asked_for_then_all_ways_are_told(net: Net) -> None:
    net.answers = {("ctl", "n1"): paramiko.ChannelException(2, "Connect failed")}
    net.off = {"n1"}
    with pytest.raises(Unreachable, match=r"no answer\. Neither .* ctl: it cannot connect to 10\.0\.0\.1 port 22"):
        net.transport("ctl").connection("n1")


@pytest.mark.parametrize(
    "refusal", [HostKeyChanged("n1", "another key."), LoginRefused("n1", "no login.")], ids=["key", "login"]
)
def test_a_host_that_refuses_or_shows_another_key_behind_a_relay_then_no_other_way_is_tried(
    net: Net, refusal: Unreachable
) -> None:
    net.answers = {("r1", "n1"): refusal}
    with pytest.raises(type(refusal)):
        net.transport(PAIR).connection("n1")
    assert net.tried == [">r1", "r1>n1"]


def test_a_host_that_answers_a_relay_not_at_all_then_no_other_is_made_to_wait_for_it(net: Net) -> None:
    net.answers = {("r1", "n1"): paramiko.SSHException("Timeout opening channel.")}
    with pytest.raises(Unreachable, match="no channel"):
        net.transport(PAIR).connection("n1")
    assert net.tried == [">r1", "r1>n1"]


def test_ends_when_a_host_is_behind_a_relay_then_the_relay_is_on_the_way(net: Net) -> None:
    transport = net.transport("n4")
    transport.connection("n1")
    assert transport.ends("n1") == Ends("10.0.0.1", ("10.0.0.4",))


READING, CHANGING = {"op": "facts"}, {"op": "apply", "dry_run": False}


@pytest.mark.parametrize(
    ("request_", "is_reading"),
    [
        (READING, True),
        ({"op": "apply", "dry_run": True}, True),
        ({"op": "logs"}, True),
        (CHANGING, False),
        ({"op": "updates", "fetch": True}, False),
        ({"op": "stage"}, False),
    ],
)
def test_only_reads_when_a_request_changes_or_locks_then_is_false(request_: dict[str, Any], is_reading: bool) -> None:
    assert only_reads(request_) is is_reading


def losing(transport: SshTransport, lose: Callable[[int], None]) -> list[str]:
    """Make agents answer through whom they were asked, after `lose` got the number of the request."""
    asked: list[str] = []

    def ask(host: str, *_: object) -> tuple[dict[str, str], ...]:
        way: Any = transport.connection(host)
        asked.append(f"{way.through.host if way.through else ''}>{host}")
        lose(len(asked))
        if not way.is_active():
            raise ConnectionLost(host, "the connection was lost.")
        transport.sessions[host] = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
        return ({"way": asked[-1]},)

    transport.ask = ask  # type: ignore[method-assign]
    return asked


def test_a_relay_that_dies_when_a_host_is_only_asked_then_it_is_asked_again_by_another(net: Net) -> None:
    transport = net.transport(PAIR)

    def lose(number: int) -> None:
        if number == 1:
            net.off = {"r1"}
            transport.connections["r1"].close()

    losing(transport, lose)
    assert transport.call("n1", READING) == ({"way": "r2>n1"},)
    assert net.told[0] == "r1: its connection was lost; the hosts behind it are reached anew."
    assert net.told[1].startswith("r1: not used as a relay")


def test_a_relay_that_is_back_when_its_connection_had_ended_then_it_is_used_again(net: Net) -> None:
    transport = net.transport("r1")
    asked = losing(transport, lambda number: transport.connections["r1"].close() if number == 1 else None)
    assert transport.call("n1", READING) == ({"way": "r1>n1"},)
    assert (asked, net.tried.count(">r1"), len(net.told)) == (["r1>n1"] * 2, 2, 1)


def test_a_relay_that_dies_when_a_host_is_being_changed_then_the_host_is_lost_and_not_changed_twice(net: Net) -> None:
    transport = net.transport("r1")
    asked = losing(transport, lambda _: transport.connections["r1"].close())
    with pytest.raises(ConnectionLost, match="The connection of its relay r1 ended"):
        transport.call("n1", CHANGING)
    assert asked == ["r1>n1"]


def test_a_relay_that_dies_between_requests_when_the_host_is_changed_next_then_it_is_reached_anew(net: Net) -> None:
    transport = net.transport("r1")
    losing(transport, lambda _: None)
    transport.call("n1", READING)
    transport.connections["r1"].close()
    net.off = {"r1"}
    assert transport.call("n1", CHANGING) == ({"way": ">n1"},)


def test_an_agent_that_holds_the_lock_of_the_run_when_its_relay_dies_then_is_not_replaced(net: Net) -> None:
    transport = net.transport("r1")
    asked = losing(transport, lambda _: None)
    transport.call("n1", CHANGING)
    transport.connections["r1"].close()
    with pytest.raises(ConnectionLost):
        transport.call("n1", READING)
    assert asked == ["r1>n1"] * 2


def test_an_agent_that_fails_while_its_relay_stands_then_is_not_asked_again(net: Net) -> None:
    transport = net.transport("r1")
    way: Any = transport.connection("n1")

    def ask(*_: object) -> tuple[dict[str, str], ...]:
        raise AgentFailed("n1", "no answer.")

    transport.ask = ask  # type: ignore[method-assign, assignment]
    with pytest.raises(AgentFailed, match=r"^n1: no answer\.$"):
        transport.call("n1", READING)
    assert way.through.host == "r1"


def test_a_relay_when_its_own_agent_is_given_up_then_keeps_the_connection_of_the_hosts_behind_it(net: Net) -> None:
    transport = net.transport("r1")
    assert by(transport, "n1") == "r1"
    transport.sessions["r1"] = Session("r1", SimpleNamespace(close=lambda: None))  # type: ignore[arg-type]
    transport.forget("r1")
    assert "r1" not in transport.sessions
    assert transport.leads_on("r1")
    transport.close()
    assert not transport.leads_on("r1")
