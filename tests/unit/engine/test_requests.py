"""Who may change a cluster: one run at a time, which has the controller's lock before it changes anything anywhere."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, lost_words, prepared, run_over, with_key

from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    ConnectionLost,
    DeployFailed,
    HostFailed,
    PythonMissing,
    SlurmfabError,
)
from slurmfab.core.engine import requests
from slurmfab.core.engine.converge import deploy
from slurmfab.core.engine.requests import ask_ahead, gather, outcomes_until, request_apply, require_claim, take_claim
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.files.file import Absent

HOLDER = "ann@laptop since 2026-11-21 09:00:00 +0100, fab deploy"


@dataclass
class LockedHosts(FakeHosts):
    """Hosts whose locks others may have.

    Args:
        held: by host, who has its lock.
        idle: how long ago somebody else had the controller's, `None` for never.
    """

    held: dict[str, str] = field(default_factory=dict)
    idle: float | None = None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        answer = super().call(host, request, heard)
        if request["op"] == "apply" and not request["dry_run"]:
            if host in self.held:
                raise AnotherRun(host, self.held[host])
            if not request["resources"]:
                return ({"lock": {"idle": self.idle}},)
        return answer


def in_place(**more: Any) -> LockedHosts:
    """Three hosts that are as wanted, but for what is said."""
    facts = with_key()
    return LockedHosts(facts, **more)


def changes(hosts: FakeHosts) -> list[str]:
    """The hosts that were told to change anything, beginning with claims."""
    return [host for host, request in hosts.requests if request["op"] == "apply" and not request["dry_run"]]


def test_a_run_takes_the_lock_on_the_controller_before_any_change() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "n2": {"service:slurmd"}})
    deploy(run_over(hosts, cluster()))
    assert changes(hosts)[0] == "c1"
    assert hosts.of("c1").count("claim") == 1


def test_a_run_without_differences_takes_no_lock_and_ends_beside_another_run() -> None:
    hosts = in_place(held={"c1": HOLDER})
    assert deploy(run_over(hosts, cluster())).exit_code == 0
    assert changes(hosts) == []


def test_a_second_run_names_who_started_the_first_one_and_changes_nothing() -> None:
    hosts = in_place(wrong={host: {"service:slurmd"} for host in ("n1", "n2")}, held={"c1": HOLDER})
    run = run_over(hosts, cluster())
    with pytest.raises(SlurmfabError) as refused:
        deploy(run)
    assert f"c1: another run is changing this cluster: {HOLDER}. This run changed nothing." in str(refused.value)
    assert refused.value.exit_code == 1
    assert changes(hosts) == ["c1"]
    assert (run.failed_hosts, run.steps, run.claim.is_held) == ({}, [], False)


def test_a_host_on_which_an_older_run_still_finishes_is_excluded_alone() -> None:
    hosts = in_place(wrong={host: {"service:slurmd"} for host in ("n1", "n2")}, held={"n1": HOLDER})
    report = deploy(run_over(hosts, cluster()))
    assert report.failed_hosts["n1"].reason == f"another run is in progress here: {HOLDER}."
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n2")]
    assert report.exit_code == 3


def test_hosts_that_are_changed_at_once_take_the_lock_once() -> None:
    class Busy(LockedHosts):
        """Hosts of which a second one is to be changed while the controller's lock is being taken."""

        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            if request["op"] == "apply" and not request["resources"] and not others:
                others.append(threading.Thread(target=require_claim, args=(run,)))
                others[0].start()
                others[0].join(0.2)  # one that does not wait for the lock ends in this time
            return super().call(host, request, heard)

    others: list[threading.Thread] = []
    hosts = Busy(facts_of(cluster(), prepared))
    run = run_over(hosts, cluster())
    require_claim(run)
    others[0].join()
    assert hosts.of("c1") == ["claim"]


@pytest.mark.parametrize(("there", "offset"), [(1005.0, 0.0), (1105.0, 100.0), (905.0, -100.0)])
def test_a_hosts_clock_is_compared_with_the_middle_of_the_request(
    there: float, offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Far(FakeHosts):
        """Hosts that answer after 10 s, and whose clock shows a given time in the middle of these."""

        def call(self, host: str, request: Mapping[str, Any], *heard: Any) -> tuple[Line, ...]:
            (line,) = super().call(host, request, *heard)
            now.append(1010.0)
            return ({"facts": {**line["facts"], "clock": there}},)

    now = [1000.0]
    monkeypatch.setattr(requests.time, "time", lambda: now[-1])
    assert requests.ask_facts(Far(facts_of(cluster(), prepared)), "n1", with_secrets=False).clock_offset == offset


def test_requests_name_the_user_with_the_command() -> None:
    hosts = in_place()
    take_claim(run_over(hosts, cluster()))
    assert hosts.requests[0][1]["who"].endswith(", fab deploy")


@pytest.mark.parametrize(
    ("idle", "asks_again"),
    [(None, False), (0.0, True), (30.0, True), (100.0, False)],
    ids=["never", "now", "since", "before"],
)
def test_hosts_are_asked_again_if_another_run_had_the_lock_after_they_were_asked(
    idle: float | None, asks_again: bool
) -> None:
    run = run_over(in_place(idle=idle), cluster())
    run.pending.asked_at = time.monotonic() - 60
    assert take_claim(run) is asks_again


def test_a_run_after_another_one_that_just_ended_compares_again() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}}, idle=0.0)
    deploy(run_over(hosts, cluster()))
    assert hosts.of("n1") == ["facts", "compare", "facts", "compare", "apply service"]
    assert hosts.of("c1")[:5] == ["facts", "compare", "claim", "facts", "compare"]


def test_a_change_outside_of_a_deployment_takes_the_lock_on_the_controller_too() -> None:
    hosts = in_place()
    run = run_over(hosts, cluster())
    for _ in range(2):
        request_apply(run, "n1", [Absent("/etc/slurm/old.conf")], dry_run=False)
    assert changes(hosts) == ["c1", "n1", "n1"]
    hosts.held["c1"] = HOLDER
    with pytest.raises(SlurmfabError, match="another run is changing this cluster"):
        request_apply(run_over(hosts, cluster()), "n1", [Absent("/etc/slurm/old.conf")], dry_run=False)
    assert changes(hosts) == ["c1", "n1", "n1", "c1"]


def test_python3_is_installed_on_no_host_before_the_controller_answers() -> None:
    hosts = in_place(without_python={"n1", "n2"})
    del hosts.facts["c1"]
    with pytest.raises(DeployFailed, match="c1 is the controller"):
        gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))
    assert hosts.installed == []


def test_python3_is_installed_on_the_controller_first_and_then_only_without_another_run() -> None:
    hosts = in_place(without_python={"c1", "n1"})
    assert set(gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))) == {"c1", "n1", "n2"}
    assert hosts.installed == ["c1", "n1"]
    hosts = in_place(without_python={"c1", "n1"}, held={"c1": HOLDER})
    with pytest.raises(SlurmfabError, match="another run is changing this cluster"):
        gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))
    assert hosts.installed == ["c1"]


def test_hosts_that_are_asked_ahead_are_not_waited_for_and_not_asked_again() -> None:
    answering = threading.Event()

    class SlowHosts(LockedHosts):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            answering.wait(60)
            return super().call(host, request, heard)

    hosts = SlowHosts(in_place().facts)
    run = run_over(hosts, cluster())
    ask_ahead(run)
    answering.set()
    assert list(gather(run, run.hosts)) == ["c1", "n1", "n2"]
    assert sorted(host for host, _ in hosts.requests) == ["c1", "n1", "n2"]
    gather(run, run.hosts)
    assert len(hosts.requests) == 6


def test_a_host_that_is_off_when_asked_ahead_is_excluded_when_answers_are_collected() -> None:
    facts = dict(in_place().facts)
    del facts["n2"]
    run = run_over(LockedHosts(facts), cluster())
    ask_ahead(run)
    assert not run.failed_hosts
    assert list(gather(run, run.hosts)) == ["c1", "n1"]
    assert list(run.failed_hosts) == ["n2"]


@dataclass
class LyingHosts(FakeHosts):
    """Hosts of which some alter their facts, and that show SSH host keys.

    Args:
        lies: by host, the facts that replace the true ones.
        keys: by host, the key that it showed when it was connected to.
    """

    lies: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)

    def host_key(self, host: str) -> tuple[str, str] | None:
        return self.keys.get(host)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        lines = super().call(host, request, heard)
        lie = self.lies.get(host)
        return tuple({"facts": {**line["facts"], **lie} if isinstance(lie, dict) else lie or line["facts"]}
                     for line in lines)  # fmt: skip


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"hostname": "packages.example.org"}, "its facts were refused: hostname"),
        ({"hostname": "n1"}, "it calls itself n1, as n1 does"),
        ({"gpus": [{"file": "/dev/x", "cores": "0\nNodeName=n1"}]}, r"its facts were refused: gpus\.0\.cores"),
        ({"evil": 1}, "its facts were refused: evil: this key is unknown"),
        ([[[[]]]], "its facts were refused"),
    ],
)
def test_a_host_that_lies_when_all_are_asked_then_it_alone_is_left_out(lie: Any, reason: str) -> None:
    known = cluster()
    run = run_over(LyingHosts(facts_of(known, prepared), lies={"n2": lie}), known)
    assert sorted(gather(run, run.hosts)) == ["c1", "n1"]
    assert run.failed_hosts.keys() == {"n2"}
    assert re.match(rf"n2: {reason}", str(run.failed_hosts["n2"]))


def test_a_host_whose_keys_are_not_the_one_that_it_showed_when_asked_then_it_alone_is_left_out() -> None:
    known = cluster()
    keys = {host: ("ssh-ed25519", f"host+key+of+{host}") for host in known.hosts}
    run = run_over(LyingHosts(facts_of(known, prepared), keys={**keys, "n2": ("ssh-ed25519", "another+key")}), known)
    assert sorted(gather(run, run.hosts)) == ["c1", "n1"]
    assert "is not the one that it shows to SSH" in str(run.failed_hosts["n2"])


@pytest.mark.parametrize("junk", [{"outcome": []}, {"outcome": {"id": "x", "colour": "red"}}, {"outcome": None}])
def test_a_host_that_is_lost_with_lines_that_are_no_outcomes_is_lost_with_the_outcomes_before_them(
    junk: dict[str, Any],
) -> None:
    good = {"outcome": {"id": "absent:/a", "status": "changed"}}
    outcomes = outcomes_until([Absent("/a"), Absent("/b")], [good, junk, good], AgentFailed("n1", "it lies"))
    assert [(one.id, one.status) for one in outcomes] == [("absent:/a", "changed"), ("absent:/b", "unknown")]


def test_an_outcome_of_another_resource_when_it_comes_then_the_host_is_an_error() -> None:
    class Swapping(FakeHosts):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            return tuple(reversed(super().call(host, request, heard)))

    known = cluster()
    run = run_over(Swapping(facts_of(known, prepared)), known)
    with pytest.raises(AgentFailed, match=r"^n1: the agent reported another resource in the place of absent:/a"):
        request_apply(run, "n1", [Absent("/a"), Absent("/b")], dry_run=True)


def test_a_controller_that_calls_itself_like_another_host_ends_the_run() -> None:
    hosts = in_place()
    hosts.facts["c1"] = dataclasses.replace(hosts.facts["c1"], hostname="localhost")
    with pytest.raises(DeployFailed):
        requests.gather(run_over(hosts, cluster()), cluster().hosts)


def test_a_host_that_calls_itself_like_another_machine_is_left_out() -> None:
    hosts = in_place()
    hosts.facts["n1"] = dataclasses.replace(hosts.facts["n1"], hostname="localhost")
    run = run_over(hosts, cluster())
    assert [*requests.gather(run, cluster().hosts)] == ["c1", "n2"]
    assert "hostnamectl set-hostname" in lost_words(run.failed_hosts)["n1"]


def test_python3_is_installed_on_no_host_when_it_cannot_be_on_the_controller() -> None:
    class Refusing(LockedHosts):
        def install_python(self, host: str) -> None:
            self.installed.append(host)
            raise PythonMissing(host, "apt has none.")

    hosts = Refusing(in_place().facts, without_python={"c1", "n1"})
    with pytest.raises(DeployFailed):
        requests.gather(run_over(hosts, cluster()), cluster().hosts)
    assert hosts.installed == ["c1"]


@pytest.mark.parametrize("options", [{"may_prepare": False}, {}])
def test_hosts_without_python3_are_left_out_where_none_may_be_installed(options: dict[str, bool]) -> None:
    hosts = in_place(without_python={"n1"})
    run = run_over(hosts, cluster(), installs_python=bool(options))
    assert [*requests.gather(run, cluster().hosts, **options)] == ["c1", "n2"]
    assert [*run.failed_hosts] == ["n1"]
    assert hosts.installed == []


def test_questions_about_a_host_have_what_its_plan_depends_on() -> None:
    known = cluster(
        THREE_HOSTS.replace('hosts: "n[1-2]"', 'hosts: "n[1-2]", File: "/dev/accel0"')
        + "firewall: checked\npackages: {compute: [curl]}\nslurm_user: hpc\n"
    )
    inventory = run_over(in_place(), known).inventory
    node, controller = (requests.fact_selection(inventory, host) for host in ("n1", "c1"))
    assert "hpc" in node["users"]
    assert ("curl" in node["packages"], "curl" in controller["packages"]) == (True, False)
    assert (node["gpu_files"], controller["gpu_files"]) == (("/dev/accel0",), ())
    assert node["state_directories"] == (known.state_directory,)
    plain = requests.fact_selection(run_over(in_place(), cluster()).inventory, "n1")
    assert len(plain["services"]) == len(node["services"]) - 1


def test_a_claim_that_is_lost_is_no_change_of_the_host_that_was_to_be_changed() -> None:
    class Silent(LockedHosts):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            if host == "c1" and request["op"] == "apply" and not request["resources"]:
                raise ConnectionLost(host, "the connection was lost.")
            return super().call(host, request, heard)

    run = run_over(Silent(in_place().facts), cluster())
    with pytest.raises(ConnectionLost):
        requests.apply_step(run, "files", "n1", [Absent("/x")])
    assert run.steps == []


def test_what_a_host_waits_for_is_shown_and_no_part_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waiting(LockedHosts):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            heard({"waiting": "dpkg runs"})
            return super().call(host, request, heard)

    shown: list[tuple[str, str]] = []
    heard: list[Line] = []
    run = run_over(Waiting(in_place().facts), cluster())
    monkeypatch.setattr(run.progress, "host_waits", lambda *words: shown.append(words))
    request_apply(run, "n1", [Absent("/x")], dry_run=True, heard=heard.append)
    assert shown == [("n1", "dpkg runs")]
    assert [[*line] for line in heard] == [["outcome"]]


@pytest.mark.parametrize(
    ("keys", "shown", "is_refused"),
    [
        ({"ssh-ed25519": "a"}, ("ssh-ed25519", "a"), False),
        ({"ssh-ed25519": "a"}, ("ssh-ed25519", "b"), True),
        ({"ssh-ed25519": "a"}, ("ssh-rsa", "a"), True),
        ({}, ("ssh-ed25519", "b"), False),
        ({"ssh-ed25519": "a"}, None, False),
    ],
)
def test_a_host_tells_of_the_key_by_which_it_was_reached(
    keys: dict[str, str], shown: tuple[str, str] | None, is_refused: bool
) -> None:
    facts = prepared("n1", ssh_host_keys=keys)
    if is_refused:
        with pytest.raises(HostFailed, match="is not the one that it shows to SSH"):
            requests.require_shown_key("n1", facts, shown)
    else:
        requests.require_shown_key("n1", facts, shown)
