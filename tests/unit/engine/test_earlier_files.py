"""The way back when a daemon does not start with new files: which hosts get the earlier ones, and what is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from support import (
    THREE_HOSTS,
    FakeHosts,
    cluster,
    facts_of,
    plan_input,
    prepared,
    prepared_input,
    run_over,
    with_key,
)

from slurmfab.base.errors import DeployFailed, HostFailed, Unreachable
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.core.engine import earlier_files
from slurmfab.core.engine.converge import deploy
from slurmfab.core.engine.report import Step
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Outcome
from slurmfab.on_hosts.agent.services.service import Service

HOSTS = ("c1", "n1", "n2")
FILES = "slurm-files:/etc/slurm"
RUNNING = {"slurmctld": "active", "slurmd": "active", "slurmdbd": "active"}


class StartingLater(FakeHosts):
    """Hosts whose failing daemons start once their earlier files are back."""

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        if any(wanted["kind"] == "earlier-files" for wanted in request["resources"]):
            self.failing = {}
        return super().outcomes(host, request)


def hosts_of(
    wanted: Cluster, failing: dict[str, set[str]], services: Mapping[str, str] = RUNNING, *, starts_later: bool = True
) -> FakeHosts:
    """Hosts that all get new files, with daemons that do not start."""
    facts = with_key(wanted, services=services)
    wrong = {host: {FILES, *failing.get(host, set())} for host in facts}
    return (StartingLater if starts_later else FakeHosts)(facts, wrong, failing)


def put_back(hosts: FakeHosts) -> dict[str, list[str]]:
    """What each host was asked for after its last phase of the deployment."""
    asked = {host: hosts.of(host) for host in hosts.facts}
    return {
        host: words[next(place for place, word in enumerate(words) if "earlier-files" in word) :]
        for host, words in asked.items()
        if any("earlier-files" in word for word in words)
    }


def test_a_slurmctld_that_does_not_start_gets_its_earlier_files_back_as_all_hosts_do() -> None:
    hosts = hosts_of(cluster(), {"c1": {"service:slurmctld"}})
    with pytest.raises(DeployFailed) as error:
        deploy(run_over(hosts, cluster()))
    assert put_back(hosts) == {
        "c1": ["apply earlier-files", "apply service", "apply slurm-nodes"],
        "n1": ["apply earlier-files,service"],
        "n2": ["apply earlier-files,service"],
    }
    assert str(error.value) == (
        "c1 is the controller, so nothing else was started. Slurm's earlier files are back on c1,n[1-2], and slurmctld "
        f"runs with them. Correct the cluster file, then: {FAB} deploy."
    )
    assert error.value.exit_code == 1


def test_what_cannot_be_put_back_is_told() -> None:
    hosts = hosts_of(cluster(), {"c1": {"service:slurmctld"}}, starts_later=False)
    with pytest.raises(DeployFailed, match=r"Not all .* taken back: c1: service:slurmctld: it cannot be done"):
        deploy(run_over(hosts, cluster()))


def test_a_slurmctld_that_did_not_run_before_keeps_the_new_files() -> None:
    hosts = hosts_of(cluster(), {"c1": {"service:slurmctld"}}, services={"slurmd": "active"})
    with pytest.raises(DeployFailed, match=r"nothing else was started\.$"):
        deploy(run_over(hosts, cluster()))
    assert put_back(hosts) == {}


def test_slurmd_that_starts_on_no_node_takes_the_files_of_all_hosts_back() -> None:
    failing = {host: {"service:slurmd"} for host in ("n1", "n2")}
    hosts = hosts_of(cluster(), failing)
    with pytest.raises(
        DeployFailed, match=r"slurmd starts on no node with the new files\. Slurm's earlier files are back"
    ):
        deploy(run_over(hosts, cluster()))
    assert set(put_back(hosts)) == set(HOSTS)


def test_slurmd_that_does_not_start_on_one_node_takes_its_files_back_there_alone() -> None:
    hosts = hosts_of(cluster(), {"n2": {"service:slurmd"}})
    report = deploy(run_over(hosts, cluster()))
    assert put_back(hosts) == {"n2": ["apply earlier-files,service"]}
    assert report.exit_code == 3
    assert report.failed_hosts["n2"].reason == (
        "service:slurmd: it cannot be done. The earlier files are back. slurmd runs with them again. Correct the "
        f"cluster file, then: {FAB} deploy."
    )


def test_a_slurmdbd_that_does_not_start_gets_its_file_back() -> None:
    with_database = cluster(f"{THREE_HOSTS}database: d1\n")
    hosts = hosts_of(with_database, {"d1": {"service:slurmdbd"}})
    with pytest.raises(DeployFailed, match="d1 is the host of the accounting database"):
        deploy(run_over(hosts, with_database))
    assert put_back(hosts) == {"d1": ["apply earlier-files,service,listening"]}


def test_a_slurmdbd_beside_slurmctld_gets_its_file_back_too_and_slurmctld_goes_on() -> None:
    with_database = cluster(f"{THREE_HOSTS}database: c1\n")
    hosts = hosts_of(with_database, {"c1": {"service:slurmdbd"}})
    with pytest.raises(DeployFailed, match=r"nothing else was started\.$"):
        deploy(run_over(hosts, with_database))
    assert put_back(hosts) == {"c1": ["apply earlier-files,service,listening"]}


def test_slurmd_that_fetches_its_files_and_starts_on_no_node_is_started_once_slurmctld_has_the_earlier_ones() -> None:
    configless = cluster(f"{THREE_HOSTS}configless: true\n")
    failing = {host: {"fetched-files:/run/slurm/conf"} for host in ("n1", "n2")}
    hosts = hosts_of(configless, failing)
    hosts.wrong |= {host: set(failing[host]) for host in failing}
    hosts.facts |= {host: dataclasses.replace(hosts.facts[host], fetches=True) for host in failing}
    with pytest.raises(DeployFailed, match="slurmd starts on no node with the new files"):
        deploy(run_over(hosts, configless))
    # The controller waits meanwhile, at its own pace, until slurmds have fetched the new files.
    told = {host: [word for word in words if "carried-files" not in word] for host, words in put_back(hosts).items()}
    assert told == {"c1": ["apply earlier-files", "apply service", "apply slurm-nodes"]}
    assert hosts.of("n1")[-1] == hosts.of("n2")[-1] == "apply service"


# --- Which hosts and daemons it is about


CONFIGLESS = f"{THREE_HOSTS}configless: true\n"
SHARED = f"{THREE_HOSTS}slurm_conf_directory: /shared/slurm\n"


def planned(text: str = THREE_HOSTS, services: Mapping[str, str] = RUNNING) -> PlanInput:
    return prepared_input(text, services=services)


@pytest.mark.parametrize(
    ("resource", "unit", "does"),
    [
        ("service:slurmd", "slurmd", True),
        ("service:slurmdbd", "slurmd", False),
        ("listening:slurmdbd:6819", "slurmdbd", True),
        ("fetched-files:/run/slurm/conf", "slurmd", True),
        ("fetched-files:/run/slurm/conf", "slurmdbd", False),
        ("file:/etc/slurm", "slurmd", False),
    ],
)
def test_a_resource_starts_the_daemon_that_it_names_or_that_fetches(resource: str, unit: str, does: bool) -> None:
    assert earlier_files.starts(resource, unit) is does


@pytest.mark.parametrize(("resource", "is_it"), [("service:slurmdbd", True), ("service:mariadb", False), ("x", False)])
def test_slurmdbd_itself_is_known_from_its_database(resource: str, is_it: bool) -> None:
    class Named:
        id = resource

    assert earlier_files.is_of_slurmdbd(Named()) is is_it  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "reads"), [(THREE_HOSTS, False), (CONFIGLESS, True), (SHARED, True)])
def test_a_node_reads_the_controllers_files_if_it_fetches_them_or_they_are_shared(text: str, reads: bool) -> None:
    assert earlier_files.reads_others(planned(text), "n1") is reads


@pytest.mark.parametrize(
    ("text", "host", "services", "starts"),
    [
        (THREE_HOSTS, "n1", RUNNING, True),
        (THREE_HOSTS, "n1", {}, False),
        (THREE_HOSTS, "n1", {"slurmd": "inactive"}, False),
        (THREE_HOSTS, "c1", RUNNING, False),
        (THREE_HOSTS, "elsewhere", RUNNING, False),
        (CONFIGLESS, "n1", RUNNING, False),
        (SHARED, "n1", RUNNING, True),
    ],
)
def test_a_slurmd_that_ran_and_reads_its_own_files_starts_with_the_earlier_ones(
    text: str, host: str, services: Mapping[str, str], starts: bool
) -> None:
    found = earlier_files.slurmd(planned(text, services), host)
    assert bool(found) is starts
    assert all(isinstance(one, Service) and one.stops_early for one in found)


def test_all_files_of_slurm_go_back_with_slurm_conf_last() -> None:
    shown = earlier_files.paths(planned())
    assert shown[-1] == "/etc/slurm/slurm.conf"
    assert {"/etc/slurm/gres.conf", "/etc/slurm/cgroup.conf", "/etc/slurm/job_submit.lua"} <= {*shown}
    assert list(shown[2:-1]) == sorted(shown[2:-1])
    both = earlier_files.paths(planned(SHARED))
    assert {"/shared/slurm/slurm.conf", "/etc/slurm/slurm.conf"} <= {*both}
    written = dataclasses.replace(planned().facts["n1"], written_site_files=("topology.conf",))
    there = dataclasses.replace(planned(), facts={**planned().facts, "n1": written})
    assert "/etc/slurm/topology.conf" in earlier_files.paths(there)


def test_files_with_a_password_are_not_shown() -> None:
    run = run_over(FakeHosts({}), cluster())
    assert earlier_files.before(run, "/etc/slurm/slurmdbd.conf").secret is True
    assert earlier_files.before(run, "/etc/slurm/slurm.conf").secret is False


def test_a_host_that_was_lost_cannot_be_ready_again() -> None:
    run = run_over(
        FakeHosts({}), cluster(), failed_hosts={"n1": Unreachable("n1", "off."), "n2": HostFailed("n2", "x")}
    )
    assert [earlier_files.can_work(run, planned(), host) for host in ("n1", "n2", "c1")] == [False, True, False]
    assert earlier_files.can_work(run_over(FakeHosts({}), cluster()), planned(), "n1") is True


def test_what_was_taken_back_is_told_with_the_hosts_that_had_new_files() -> None:
    hosts = hosts_of(cluster(), {})
    run = run_over(hosts, cluster(), steps=[Step("slurm.conf", "n1", (Outcome("slurm-files:/etc/slurm", "changed"),))])
    told = earlier_files.whole_cluster(run, planned())
    assert told.startswith("Slurm's earlier files are back on n1, and slurmctld runs with them.")
    asked = {host: words for host in HOSTS if (words := hosts.of(host))}
    assert asked["n1"] == ["apply earlier-files,service"]
    assert asked["c1"] == ["claim", "apply service", "apply slurm-nodes"]
    assert "n2" not in asked
    none = earlier_files.whole_cluster(run_over(hosts_of(cluster(), {}), cluster()), planned())
    assert none == "No file of Slurm was replaced, and slurmctld runs with the present ones."


def test_in_a_shared_directory_the_controller_puts_the_files_back_and_then_all_slurmd_start() -> None:
    wanted = cluster(SHARED)
    hosts = hosts_of(wanted, {})
    run = run_over(hosts, wanted, steps=[Step("slurm.conf", "c1", (Outcome("slurm-files:/shared", "changed"),))])
    earlier_files.whole_cluster(run, planned(SHARED))
    assert hosts.of("c1")[:3] == ["claim", "apply earlier-files", "apply earlier-files"]
    assert hosts.of("n1") == hosts.of("n2") == ["apply earlier-files,service"]
    still = hosts_of(wanted, {})
    earlier_files.whole_cluster(run_over(still, wanted), planned(SHARED))
    assert "apply earlier-files" not in [word for host in HOSTS for word in still.of(host)]


def test_all_controllers_start_again_the_primary_first() -> None:
    text = THREE_HOSTS.replace("[c1]", "[c1, n1]\nstate_directory: /shared")
    hosts = hosts_of(cluster(text), {})
    earlier_files.whole_cluster(run_over(hosts, cluster(text)), planned(text))
    starts = [
        host for host, request in hosts.requests if any(one.get("unit") == "slurmctld" for one in request["resources"])
    ]
    assert starts == ["c1", "n1"]


@pytest.mark.parametrize(
    ("more", "fetches", "phase", "asked"),
    [
        ("", False, "slurm.conf", ["n1"]),
        ("", False, "other", []),
        ("configless: true\n", True, "slurm.conf", []),
        ("configless: true\n", True, "other", []),
        ("slurm_conf_directory: /shared/slurm\n", False, "slurm.conf", []),
    ],
)
def test_a_node_gets_its_own_earlier_files_back_and_no_others(
    monkeypatch: pytest.MonkeyPatch, more: str, phase: str, asked: list[str], *, fetches: bool
) -> None:
    wanted = cluster(THREE_HOSTS + more)
    facts = facts_of(wanted, prepared, services=RUNNING, fetches=fetches)
    steps = [
        Step(phase, "n1", (Outcome(FILES, "changed"),)),
        Step("slurmd", "n1", (Outcome("service:slurmd", "failed", message="it ended."),)),
    ]
    run = run_over(FakeHosts(facts), wanted, steps=steps, failed_hosts={"n1": HostFailed("n1", "it ended.")})
    back = list[str]()
    monkeypatch.setattr(earlier_files, "put_back", lambda _, wanted: back.extend(wanted) or "")
    earlier_files.after_slurmd(run, plan_input(wanted, facts))
    assert back == asked
