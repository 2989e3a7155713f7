"""What hosts are asked when an upgrade is planned, and the plan that comes of their answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import FakeSlurm
from support import cluster, facts_of, plan_input, prepared, run_over

from slurmfab.base.errors import SlurmfabError, Unreachable
from slurmfab.base.exit_codes import FAILURE, SOMETHING_TO_DO
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock, UpgradeUnderWay
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.commands.upgrade import asking, planning
from slurmfab.commands.upgrade.asked import SpankPlugin
from slurmfab.commands.upgrade.plan import SlurmUser, UpgradePlan
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line

SITE = """\
cluster: lab
addresses: {c1: 10.0.0.1, db: 10.0.0.3, login: 10.0.0.4, "n[1-3]": "10.0.0.[5-7]"}
controllers: [c1]
database: {host: db}
login: [login]
nodes: [{hosts: "n[1-3]"}]
"""
OF = {"c1": "slurmctld", "db": "slurmdbd", "login": "slurm-client", "n1": "slurmd", "n2": "slurmd", "n3": "slurmd"}
OLD, NEW = "24.11.5-4", "26.05.5-1"
ROWS = [
    ["7", "ann", "RUNNING", "1", "n1"],
    ["8", "ann", "RUNNING", "0", "n1"],
    ["9", "bob", "PENDING", "1", ""],
]


def state_of(host: str) -> dict[str, Any]:
    """What a host tells of its Slurm."""
    daemons = {} if OF[host] == "slurm-client" else {OF[host]: "24.11.5"}
    told: dict[str, Any] = {
        "packages": {OF[host]: OLD}, "programs": daemons, "running": daemons, "held": [], "plugins": [], "foreign": [],
        "spank": [], "state": "", "free": {DEBIAN.manager.archives: 1 << 33}, "users": [], "digest": OF[host],
    }  # fmt: skip
    if host == "c1":
        told |= {"state": "24.11", "jobs": ROWS, "no_jobs": ""}
    if host == "db":
        told |= {"rows": {"lab_job_table": 100_000}, "bytes": 1 << 30, "place": asking.DATABASE, "trouble": ""}
        told["free"][asking.DATABASE] = 1 << 33
    return told


@dataclass
class Asked(FakeSlurm):
    """Hosts that tell what an upgrade asks for.

    Args:
        silent: hosts that do not answer that question.
        asked: host and request, of the questions of an upgrade.
        trouble_of: why apt would install nothing, by host.
        says: what else a host tells of what apt would install, by host.
    """

    silent: tuple[str, ...] = ()
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    trouble_of: dict[str, str] = field(default_factory=dict)
    says: dict[str, dict[str, Any]] = field(default_factory=dict)

    def call(self, host: str, request: Mapping[str, Any], *heard: Any) -> tuple[Line, ...]:
        if request["op"] in ("upgrade", "upgrade-offer"):
            self.asked.append((host, request))
        if request["op"] == "upgrade" and host not in self.silent:
            return ({"upgrade": state_of(host)},)
        if request["op"] == "upgrade-offer":
            answer = {"versions": {OF[host]: NEW}, "others": {}, "removed": [], "offered": [NEW], "plugins": []}
            more = {"trouble": self.trouble_of.get(host, ""), **self.says.get(host, {})}
            return ({"upgrade_offer": {**answer, **more}},)
        if request["op"] == "upgrade":
            raise Unreachable(host, "nothing listens at port 22.")
        return super().call(host, request, *heard)


def asked_of(text: str = SITE, **more: Any) -> tuple[Asked, Run]:
    """The hosts of a deployed cluster, and a run over them."""
    wanted: Cluster = cluster(text)
    facts = facts_of(wanted, prepared)
    conf = dict(plan_input(wanted, facts).files)["slurm.conf"]
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf=conf, services={"slurmctld": "active"})
    nodes = dict.fromkeys(wanted.compute_nodes, ("IDLE", "", ""))
    nodes["n3"] = ("IDLE+DRAIN", "loose cable", "ann")
    hosts = Asked(facts, nodes=nodes, **more)
    return hosts, run_over(hosts, wanted, command="upgrade")


def planned(_: Asked, run: Run, source: Mapping[str, Any] | None = None) -> UpgradePlan:
    """The plan of an upgrade to 26.05, without its last step."""
    wanted = SlurmPackages.model_validate({"version": "26.05.*", **({"source": source} if source else {})})
    return planning.made(run, wanted, "26.05", "", at_once="1", is_whole=False)


def test_each_host_is_asked_what_it_has_and_what_apt_would_give_and_one_of_each_kind_for_plugins() -> None:
    hosts, run = asked_of()
    plan = planned(hosts, run)
    told = {host: request for host, request in hosts.asked if request["op"] == "upgrade"}
    assert [*told] == [*run.hosts] or {*told} == {*run.hosts}
    assert (told["c1"]["jobs"], told["c1"]["state"], "jobs" in told["n1"]) == (True, "/var/lib/slurm/slurmctld", False)
    archives = DEBIAN.manager.archives
    assert (told["db"]["database"], told["db"]["paths"]) == ("slurm_acct_db", [archives, asking.DATABASE])
    assert ("settings" in told["db"], told["n1"]["paths"]) == (False, [archives])
    offers = {host: request for host, request in hosts.asked if request["op"] == "upgrade-offer"}
    assert {*offers} == {*run.hosts}
    assert {host for host, request in offers.items() if request["plugins"]} == {"c1", "db", "login", "n1"}
    assert {request["version"] for request in offers.values()} == {"26.05.*"}
    assert {"suite", "stanza", "key"} & {*offers["c1"]} == set()
    assert [*plan.hosts] == [*run.hosts]
    assert {host: dict(versions.offered) for host, versions in plan.hosts.items()} == {
        host: {name: NEW} for host, name in OF.items()
    }


def test_the_plan_of_these_answers_has_its_steps_jobs_and_times() -> None:
    plan = planned(*asked_of())
    assert [(step.what, step.hosts) for step in plan.steps] == [
        ("backup", ("db", "c1")),
        ("slurmdbd", ("db",)),
        ("controllers", ("c1",)),
        ("nodes", ("n1", "n2", "n3")),
        ("others", ("login",)),
    ]
    assert (plan.refusals, plan.jobs, plan.batches) == ((), {"RUNNING": 2, "PENDING": 1}, 3)
    assert (str(plan.have), str(plan.target.series), plan.target.suite) == ("24.11", "26.05", "")
    assert plan.conversion
    assert (dict(plan.conversion.rows), plan.conversion.bytes) == ({"lab_job_table": 100_000}, 1 << 30)
    assert plan.conversion.seconds == (2.0 + 1, 30.0 + 20)
    assert plan.seconds == (5 + 15 + 15 + 10 + 30 + 3 * 15 + 3, 120 + 120 + 120 + 60 + 300 + 3 * 90 + 50)
    assert [text for text in plan.warnings if "n3" in text and "loose cable" in text]
    assert [text for text in plan.warnings if text.startswith("srun or salloc waits for 8 of ann")]
    assert plan.exit_code == 4


def test_the_lines_of_the_steps_are_sorted_and_folded() -> None:
    along = {host: {"others": {"libhwloc15": "2.15.0-2"}} for host in ("n1", "n2", "n3")}
    steps = {step.what: step for step in planned(*asked_of(says=along)).steps}
    assert steps["backup"].lines == (
        "db: the dump of the database is loaded into one of its own, the new slurmdbd converts it there, and that is "
        "removed",
    )
    assert steps["nodes"].lines == (
        f"n[1-3]: slurmd {NEW}",
        "n[1-3]: comes along: libhwloc15 2.15.0-2",
        "n[1-3]: slurmd starts with the new files",
        "n[1-3]: a job of the slurm user runs there",
    )
    assert steps["nodes"].changes["n2"] == ("packages-exchanged:slurmd", "renewed-daemon:slurmd", "job:n2")
    assert steps["others"].changes == {"login": ("packages-exchanged:slurm-client",)}


def test_a_host_that_does_not_tell_is_left_out_and_named() -> None:
    hosts, run = asked_of(silent=("n2",))
    plan = planned(hosts, run)
    assert ("n2" in plan.hosts, [*plan.silent]) == (False, ["n2"])
    assert plan.silent["n2"].startswith("nothing listens")
    assert next(step.hosts for step in plan.steps if step.what == "nodes") == ("n1", "n3")


@pytest.mark.parametrize(("host", "words"), [("db", "db has the accounting database"), ("c1", "c1")])
def test_an_upgrade_when_the_controller_or_the_databases_host_does_not_tell_is_not_planned(
    host: str, words: str
) -> None:
    with pytest.raises(SlurmfabError, match=words):
        planned(*asked_of(silent=(host,)))


def test_an_upgrade_when_nothing_is_deployed_is_not_planned() -> None:
    hosts, run = asked_of()
    hosts.facts["c1"] = dataclasses.replace(hosts.facts["c1"], slurm_conf="")
    with pytest.raises(SlurmfabError, match=r"c1: nothing is deployed there yet\. First: fab deploy"):
        planned(hosts, run)


def test_an_upgrade_when_apt_would_install_nothing_on_one_kind_of_host_is_refused_with_that() -> None:
    plan = planned(*asked_of(trouble_of={"n1": "E: Unable to locate package slurmd"}))
    assert [text for text in plan.refusals if "Unable to locate package slurmd" in text]
    assert plan.exit_code == 1


def test_a_source_goes_to_the_hosts_as_apt_wants_it(tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_text(
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----\n"
    )
    hosts, run = asked_of()
    run.change_cluster(dataclasses.replace(run.inventory, path=tmp_path / "cluster.yaml"), run.hosts)
    source = {"uris": "https://apt.example.org/slurm", "suites": "trixie", "components": "main more", "key": "key.asc"}
    planned(hosts, run, source)
    request = next(request for _, request in hosts.asked if request["op"] == "upgrade-offer")
    assert request["stanza"].splitlines() == [
        "Types: deb",
        "URIs: https://apt.example.org/slurm",
        "Suites: trixie",
        "Components: main more",
    ]
    assert "BEGIN PGP PUBLIC KEY BLOCK" in request["key"]


def test_another_suite_goes_to_the_hosts_by_its_name() -> None:
    hosts, run = asked_of()
    planned(hosts, run, {"suite": "sid"})
    request = next(request for _, request in hosts.asked if request["op"] == "upgrade-offer")
    assert (request["suite"], "stanza" in request) == ("sid", False)


def test_a_database_elsewhere_is_asked_with_the_login_of_slurmdbd_conf() -> None:
    external = SITE.replace("{host: db}", "{host: db, external: 10.0.0.9, password_file: pw}")
    hosts, run = asked_of(external)
    planned(hosts, run)
    told = {host: request for host, request in hosts.asked if request["op"] == "upgrade"}
    assert told["db"]["settings"] == asking.SLURMDBD_CONF


def test_a_plan_without_an_answer_of_slurmctld_knows_no_node_that_is_out_of_service() -> None:
    hosts, run = asked_of(ping="Slurmctld(primary) at c1 is DOWN\n")
    assert asking.out_of_service(run) == {}
    assert not [text for text in planned(hosts, run).warnings if "loose cable" in text]


def test_the_question_of_an_upgrade_installs_nothing_on_a_host_that_lacks_python() -> None:
    hosts, run = asked_of(without_python={"n1"})
    assert [*planned(hosts, run).silent] == ["n1"]
    assert hosts.installed == []


def shown(monkeypatch: pytest.MonkeyPatch, **hosts: Any) -> tuple[int | Exception, bool]:
    """How `fab upgrade --plan` ends, and whether the connections are closed then."""
    there, run = asked_of(**hosts)
    closed: list[bool] = []
    monkeypatch.setattr(there, "close", lambda: closed.append(True))
    known = Inventory(run.inventory.cluster, Lock(), Path("lab.yaml"))
    monkeypatch.setattr(planning.loading, "load_named", lambda _: known)
    monkeypatch.setattr(planning.session, "start", lambda *_: run)
    monkeypatch.setattr(planning.last_files, "with_files", lambda _run, plan, _facts, _final: plan)
    try:
        return planning.plan("lab", "26.05", "", Output()), closed == [True]
    except SlurmfabError as error:
        return error, closed == [True]


def test_a_plan_is_printed_with_the_command_that_carries_it_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch) == (SOMETHING_TO_DO, True)
    out = capsys.readouterr().out
    assert out.startswith("Upgrade from Slurm 24.11 to 26.05. Jobs now: 1 pending, 2 running.\n")
    assert out.endswith("\nNext: fab upgrade --to 26.05 --cluster lab.yaml\n")


def test_a_plan_that_is_refused_names_no_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch, trouble_of={"n1": "E: Unable to locate package slurmd"}) == (FAILURE, True)
    assert "Next:" not in capsys.readouterr().out


def test_a_plan_that_cannot_be_made_ends_with_its_reason_and_the_connections_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[Run] = []
    monkeypatch.setattr(planning.session, "print_failures", failed.append)
    error, closed = shown(monkeypatch, silent=("db",))
    assert (str(error).partition(",")[0], closed) == ("db has the accounting database", True)
    assert [[*run.failed_hosts] for run in failed] == [["db"]]


@pytest.mark.parametrize(
    ("to", "suite", "words"),
    [("26.05", "", "--to 26.05 "), ("", "sid", "--suite sid "), ("26.05", "a b", "--to 26.05 --suite 'a b' ")],
)
def test_the_command_of_a_plan_has_its_options(to: str, suite: str, words: str) -> None:
    known = Inventory(cluster(SITE), Lock(), Path("lab.yaml"))
    assert planning.command(known, to, suite) == f"fab upgrade {words}--cluster lab.yaml"


@pytest.mark.parametrize(
    ("version", "suite", "ends"),
    [("26.05.5", "", "26.05.5"), ("26.05.*", "sid", "26.05.*"), ("24.11.5", "sid", "26.05.*"), (None, "", "26.05.*")],
)
def test_the_cluster_file_gets_the_version_that_was_named_or_the_series_of_the_suite(
    version: str | None, suite: str, ends: str
) -> None:
    plan = planned(*asked_of())
    there = dataclasses.replace(plan, target=dataclasses.replace(plan.target, suite=suite))
    assert planning.final_key(there, SlurmPackages(version=version)).version == ends


@pytest.mark.parametrize(
    ("is_whole", "is_under_way", "is_compared"), [(True, True, True), (True, False, True), (False, True, False)]
)
def test_the_last_step_is_compared_where_there_is_an_upgrade(
    is_whole: bool, is_under_way: bool, is_compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(
        planning.last_files, "with_files", lambda _run, plan, _facts, final: (compared.append(final.version), plan)[1]
    )
    _, run = asked_of()
    record = UpgradeUnderWay("24.11.5", "26.05.*", "now", "ann")
    run.update_lock(dataclasses.replace(run.inventory.lock, upgrade=record if is_under_way else None))
    planning.made(run, SlurmPackages(version="26.05.*"), "26.05", "", is_whole=is_whole)
    assert compared == (["26.05.*"] if is_compared else [])


@pytest.mark.parametrize("liar", ["n1", "n2"])
def test_a_host_that_lies_about_what_apt_would_install_then_answers_for_itself_alone(liar: str) -> None:
    hosts, run = asked_of(says={liar: {"others": {"evil": "6.6"}}})
    plan = planned(hosts, run)
    assert {host: dict(versions.others) for host, versions in plan.hosts.items() if versions.others} == {
        liar: {"evil": "6.6"}
    }
    assert [one for one in plan.warnings if "come along" in one] == [f"{liar}: these packages come along: evil 6.6."]
    for answer in ({"removed": ["slurmd"]}, {"trouble": "no"}, {"versions": {}}):
        refused = planned(*asked_of(says={liar: answer})).refusals
        assert [one.partition(" (")[0] for one in refused if "trixie" in one] == [liar], answer


def test_the_answer_of_a_host_becomes_what_a_plan_reads() -> None:
    told = {**state_of("c1"), "spank": [["/opt/x.so", True, False]], "users": [["7", "x", "y", "ann", True]]}
    found = asking.host_state("trixie amd64", told)
    assert found.spank == (SpankPlugin("/opt/x.so", True, False),)
    assert found.users == (SlurmUser("7", "x", "y", "ann", True),)
    assert found.jobs
    assert found.jobs[0] == ("7", "ann", "RUNNING", "1", "n1")
    assert asking.host_state("trixie amd64", state_of("n1")).jobs is None


@pytest.mark.parametrize(
    ("facts", "release"),
    [({}, "trixie amd64"), ({"codename": "", "os_id": "other", "architecture": "arm64"}, "other arm64")],
)
def test_hosts_of_one_release_and_architecture_get_the_same_packages(facts: dict[str, str], release: str) -> None:
    assert asking.release_of(prepared("n1", **{"architecture": "amd64", **facts})) == release


def test_nodes_on_which_jobs_may_begin_are_not_out_of_service() -> None:
    _, run = asked_of()
    assert {name: text[-13:] for name, text in asking.out_of_service(run).items()} == {"n3": "(loose cable)"}


@pytest.mark.parametrize("is_under_way", [True, False])
def test_a_daemon_that_does_not_run_is_started_where_an_upgrade_is_under_way(is_under_way: bool) -> None:
    hosts, run = asked_of()
    record = UpgradeUnderWay("24.11.5", "26.05.*", "now", "ann") if is_under_way else None
    run.update_lock(dataclasses.replace(run.inventory.lock, upgrade=record))
    assert asking.ask(run, SlurmPackages(version="26.05.*"), "26.05.*", "").is_under_way is is_under_way
    assert hosts.asked
