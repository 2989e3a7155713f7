"""The steps of an upgrade against hosts that answer from memory: in which order they are done, and where they stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, plan_input, prepared, prepared_input, run_over

from slurmfab.base.errors import DeployFailed, Unreachable
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import changes, proof, running
from slurmfab.commands.upgrade.changes import Changes
from slurmfab.commands.upgrade.making import steps
from slurmfab.commands.upgrade.plan import HostVersions, SlurmUser, Target, UpgradePlan, UpgradeStep, What
from slurmfab.commands.upgrade.running import UpgradeOptions
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.nodes.acceptance import NodeAcceptance
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.states import ACCEPTANCE_FAILED, FOR_CHANGE, our_reason
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause
from slurmfab.on_hosts.agent.upgrade.exchanged_packages import ExchangedPackages
from slurmfab.on_hosts.agent.upgrade.proved_dump import ProvedDump

SITE = """\
cluster: lab
addresses: {c1: 10.0.0.1, c2: 10.0.0.2, db: 10.0.0.3, login: 10.0.0.4, "n[1-3]": "10.0.0.[5-7]"}
controllers: [c1, c2]
state_directory: /shared/slurmctld
database: {host: db}
login: [login]
nodes: [{hosts: "n[1-3]"}]
"""
ALONE = """\
cluster: lab
addresses: {c1: 10.0.0.1}
controllers: [c1]
database: {host: c1}
nodes: [{hosts: c1}]
"""
DAEMONS = {"c1": ("slurmctld",), "c2": ("slurmctld",), "db": ("slurmdbd",), "login": ()}
STATE = "state-copy:/shared/slurmctld/.before-upgrade-to-26.05"
PATIENT = "absent:/run/systemd/system/slurmdbd.service.d/slurmfab-upgrade.conf"
REST = SlurmUser("7", "slurmrestd", "slurmrestd", "rest", False)
IDLE = ("IDLE", "", "")
CONVERTED = {"state": "done", "table": "", "seconds": 0, "percent": -1, "words": []}


def versions(daemons: Iterable[str], users: tuple[SlurmUser, ...] = ()) -> HostVersions:
    """A host with Slurm 24.11 that would get 26.05, and a library along with it."""
    had = dict.fromkeys(daemons, "24.11.5")
    packages = (*had, "slurm-client")
    new, others = dict.fromkeys(packages, "26.05.5-1"), {"libhwloc15": "2.15.0-2"}
    return HostVersions(dict.fromkeys(packages, "24.11.5-4"), had, had, new, others, users)


@dataclass
class Upgraded(FakeSlurm):
    """Hosts on which an upgrade is done, and what was changed there, in order.

    Args:
        done: host and id of each changed resource.
        conversion: what slurmdbd's host tells of it.
    """

    done: list[str] = field(default_factory=list)
    conversion: Mapping[str, Any] = field(default_factory=lambda: CONVERTED)

    def call(self, host: str, request: Mapping[str, Any], *heard: Any) -> tuple[Line, ...]:
        if request["op"] == "conversion":
            self.done.append(f"{host} conversion")
            return ({"conversion": self.conversion},)
        if request["op"] == "trial-jobs":
            self.done += [f"{node} job:{node}" for node in request["nodes"]]
        return super().call(host, request, *heard)

    def change(self, wanted: Mapping[str, Any]) -> None:
        super().change(wanted)
        for name in wanted["nodes"] if wanted["kind"] == "node-trial" else ():
            failed = self.trial.get(name, "")
            if self.state(name).is_for_change:
                self.nodes[name] = (
                    ("IDLE+DRAIN", our_reason(ACCEPTANCE_FAILED + failed, "x"), "root") if failed else IDLE
                )


@dataclass
class Place:
    """A cluster that is upgraded."""

    plan: UpgradePlan
    hosts: Upgraded
    run: Run

    def upgrade(self, *only: str, **options: Any) -> list[str]:
        """Do steps, all but the backup by default, and return what was changed, in order."""
        todo = tuple(step for step in self.plan.steps if step.what != "backup" and (not only or step.what in only))
        running.do(self.run, self.plan, todo, JobSafety(self.run, pause=lambda _: None), UpgradeOptions(**options))
        return self.hosts.done


def place(text: str = SITE, *, drain: bool = False, **more: Any) -> Place:
    """A cluster that nobody has begun to upgrade."""
    wanted = cluster(text).model_copy(update={"slurm": SlurmPackages(version="26.05.*")})
    there = {
        host: versions(DAEMONS.get(host, ("slurmd",)), (REST,) if host in ("c1", "login") else ())
        for host in wanted.hosts
    }
    if text == ALONE:
        there = {"c1": versions(("slurmctld", "slurmdbd", "slurmd"))}
    facts = facts_of(wanted, prepared)
    conf = dict(plan_input(wanted, facts).files)["slurm.conf"]
    facts["c1"] = dataclasses.replace(
        facts["c1"], munge_key=MUNGE_KEY, slurm_conf=conf, services={"slurmctld": "active"}
    )
    told = Changes(wanted, there, "26.05", wanted.state_directory, at_once="2", drain=drain)
    todo = tuple(map(told.told, steps(wanted, there)))
    plan = UpgradePlan(Target("26.05.*", "", SlurmVersion(26, 5)), SlurmVersion(24, 11), there, todo)
    differing: dict[str, set[str]] = {host: set() for host in wanted.hosts}
    for step in todo:
        for host, ids in step.changes.items():
            differing[host] |= set(ids)
    nodes = dict.fromkeys(wanted.compute_nodes, ("IDLE", "", ""))
    hosts = Upgraded(facts, wrong=differing, nodes=nodes, **more)
    hosts.when_changed = lambda host, one: hosts.done.append(f"{host} {one}")
    return Place(plan, hosts, run_over(hosts, wanted, command="upgrade"))


def packages(host: str, *names: str) -> str:
    return f"{host} packages-exchanged:{','.join(sorted((*names, 'slurm-client')))}"


def node(host: str) -> list[str]:
    return [packages(host, "slurmd"), f"{host} renewed-daemon:slurmd"]


def test_an_upgrade_follows_slurms_order_host_by_host() -> None:
    done = place().upgrade(at_once="1")
    assert done == [
        packages("db", "slurmdbd"),
        "db renewed-daemon:slurmdbd",
        "db conversion",
        f"db {PATIENT}",
        "db units-loaded:slurmdbd",
        # The primary is the last to stop and the first to start, so that no backup takes over meanwhile.
        packages("c2", "slurmctld"),
        packages("c1", "slurmctld"),
        "c2 slurmctld-pause:slurmctld",
        "c1 slurmctld-pause:slurmctld",
        f"c1 {STATE}",
        "c1 renewed-daemon:slurmctld",
        "c2 renewed-daemon:slurmctld",
        *(one for host in ("n1", "n2", "n3") for one in (*node(host), f"{host} job:{host}")),
        "c1 renewed-daemon:slurmrestd",
        packages("login"),
        "login renewed-daemon:slurmrestd",
    ]


def test_a_machine_that_is_all_in_one_pauses_slurmctld_while_its_slurmd_is_away() -> None:
    assert place(ALONE).upgrade("slurmdbd")[:3] == [
        "c1 slurmctld-pause:slurmctld",
        "c1 state-copy:/var/lib/slurm/slurmctld/.before-upgrade-to-26.05",
        packages("c1", "slurmctld", "slurmdbd", "slurmd"),
    ]


@pytest.mark.parametrize(("text", "drain"), [(SITE, False), (SITE, True), (ALONE, False)])
def test_an_upgrade_changes_what_its_plan_names_and_nothing_else(text: str, drain: bool) -> None:
    there = place(text, drain=drain)
    named = {f"{host} {one}" for step in there.plan.steps for host, ids in step.changes.items() for one in ids}
    named = {one for one in named if " proved-dump:" not in one}
    assert {one for one in there.upgrade(at_once="2", drain=drain) if not one.endswith(" conversion")} == named
    changed = {f"{step.host} {one.id}" for step in there.run.steps for one in step.outcomes if one.status == "changed"}
    assert changed == named


def test_a_plan_tells_its_changes_in_words_with_equal_hosts_folded() -> None:
    told = {step.what: step.lines for step in place().plan.steps}
    assert told["nodes"] == (
        "n[1-3]: slurm-client, slurmd 26.05.5-1",
        "n[1-3]: comes along: libhwloc15 2.15.0-2",
        "n[1-3]: slurmd starts with the new files",
        "n[1-3]: a job of the slurm user runs there",
    )
    assert told["controllers"] == (
        "c[1-2]: slurmctld stops",
        "c1: slurmctld's state is copied to /shared/slurmctld/.before-upgrade-to-26.05",
        "c[1-2]: slurm-client, slurmctld 26.05.5-1",
        "c[1-2]: comes along: libhwloc15 2.15.0-2",
        "c[1-2]: slurmctld starts with the new files",
    )
    assert "login,c1: slurmrestd starts with the new files" in told["others"]


def test_all_words_of_a_host_are_about_resources_of_the_step() -> None:
    there = place()
    told = Changes(there.run.inventory.cluster, there.plan.hosts, "26.05", "/shared/slurmctld")
    step = next(step for step in there.plan.steps if step.what == "controllers")
    assert all(list(changes.change_texts(resource)) for _, resource in told.of_step(step))


def test_slurmdbd_that_ends_while_it_converts_stops_the_upgrade_before_the_controllers() -> None:
    there = place(conversion={**CONVERTED, "state": "ended", "words": ["no space left"]})
    with pytest.raises(DeployFailed, match="slurmdbd ended while it converted its database: no space left"):
        there.upgrade()
    assert there.hosts.done[-1] == "db conversion"


def test_a_controller_that_fails_stops_the_upgrade_before_the_nodes() -> None:
    there = place(failing={"c2": {packages("c2", "slurmctld").partition(" ")[2]}})
    with pytest.raises(DeployFailed, match=r"c2: packages-exchanged:.*: it cannot be done"):
        there.upgrade()
    assert not any("pause" in one or one.startswith("n") for one in there.hosts.done)


@pytest.mark.parametrize(("host", "what"), [("db", "slurmdbd"), ("c2", "controllers")])
def test_a_host_that_was_lost_before_its_step_stops_the_upgrade_there(host: str, what: str) -> None:
    there = place()
    there.run.exclude(host, Unreachable(host, "nothing listens at port 22."))
    with pytest.raises(DeployFailed, match=f"{host} did not get the new Slurm, so nothing else was begun"):
        there.upgrade(what)


def test_a_job_that_the_new_slurmctld_does_not_know_stops_the_upgrade_before_the_nodes() -> None:
    there = place(jobs=[job_line(7, "n1"), job_line(8, "n2")])

    def lose(host: str, one: str) -> None:
        there.hosts.done.append(f"{host} {one}")
        if (host, one) == ("c1", "renewed-daemon:slurmctld"):
            del there.hosts.jobs[0]

    there.hosts.when_changed = lose
    with pytest.raises(DeployFailed, match=r"slurmctld no longer knows jobs 7\. The state of before is in /shared"):
        there.upgrade()
    assert not any(one.startswith("n1") for one in there.hosts.done)


def test_jobs_that_the_new_slurmctld_knows_are_counted() -> None:
    there = place(jobs=[job_line(7, "n1"), job_line(8, "n2")])
    lines: list[str] = []
    there.run.progress.line = lines.append  # type: ignore[method-assign]
    there.upgrade("controllers")
    assert "slurmctld 26.05 answers and knows all jobs: 2 running, 0 pending." in lines


def test_nodes_go_some_at_a_time_and_the_first_that_fails_leaves_the_others_as_they_are() -> None:
    there = place(failing={"n2": {"renewed-daemon:slurmd"}})
    with pytest.raises(DeployFailed, match=r"n2 did not come back: .*it cannot be done\. n3 stay as they are\. "):
        there.upgrade("nodes", at_once="1")
    assert there.hosts.done == [*node("n1"), "n1 job:n1", node("n2")[0]]


def test_a_node_whose_job_fails_or_that_does_not_register_has_not_come_back() -> None:
    with pytest.raises(DeployFailed, match="n1 did not come back: a job on it failed: no room in /tmp"):
        place(trial={"n1": "no room in /tmp"}).upgrade("nodes", at_once="1")
    silent = place(others={"slurm-nodes:n1": {"n1": "slurmd does not answer"}})
    with pytest.raises(DeployFailed, match="n1 did not come back: slurmd does not answer"):
        silent.upgrade("nodes", at_once="1")


def test_nodes_with_drain_are_empty_before_and_given_back_by_a_job_after_each_batch() -> None:
    there = place(drain=True)
    assert there.upgrade("nodes", at_once="2", drain=True) == [
        "c1 node-drain:n1,n2",
        *there.hosts.done[1:5],
        "c1 node-trial:n1,n2",
        "c1 node-drain:n3",
        *node("n3"),
        "c1 node-trial:n3",
    ]
    assert sorted(there.hosts.done[1:5]) == sorted([*node("n1"), *node("n2")])
    assert set(there.hosts.nodes.values()) == {IDLE}


def test_a_drained_node_whose_job_fails_stays_drained_and_stops_the_upgrade() -> None:
    there = place(drain=True, trial={"n1": "no room in /tmp"})
    with pytest.raises(DeployFailed, match=r"n1 did not come back: .*no room in /tmp"):
        there.upgrade("nodes", at_once="2", drain=True)
    assert (there.hosts.nodes["n1"][0], there.hosts.nodes["n2"]) == ("IDLE+DRAIN", IDLE)
    assert not any("n3" in one for one in there.hosts.done)


def test_nodes_that_a_person_has_drained_run_no_job_and_stay_drained() -> None:
    for drain in (False, True):
        there = place(drain=drain)
        there.hosts.nodes["n1"] = ("IDLE+DRAIN", "broken fan", "ann")
        assert "n1 job:n1" not in there.upgrade("nodes", drain=drain)
        assert there.hosts.nodes["n1"] == ("IDLE+DRAIN", "broken fan", "ann")


def test_steps_that_are_done_already_are_not_done_again() -> None:
    there = place()
    there.hosts.wrong = {}
    assert there.upgrade("slurmdbd", "controllers") == ["db conversion"]


def test_the_steps_of_a_plan_are_done_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    there, begun = place(), list[str]()
    for what in ("slurmdbd", "controllers", "nodes", "others"):
        monkeypatch.setattr(running.Stages, what, lambda _, step: begun.append(step.what))
    running.do(there.run, there.plan, there.plan.steps, JobSafety(there.run), UpgradeOptions())
    assert begun == ["slurmdbd", "controllers", "nodes", "others"]


def test_the_backup_comes_before_anything_is_changed_and_has_the_cluster_file_of_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, begun = place(), list[str]()
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: there.plan)
    for name in ("require_claim", "back_up", "write_target", "do"):
        monkeypatch.setattr(running, name, lambda *_, name=name: begun.append(name))
    monkeypatch.setattr(running, "finish", lambda *_: begun.append("finish") or True)
    monkeypatch.setattr(running.under_way, "begin", lambda *_: begun.append("begin"))
    monkeypatch.setattr(Run, "update_record", lambda _: begun.append("record"))
    every = frozenset(there.run.hosts)
    assert running.carry_out(there.run, SlurmPackages(version="26.05.*"), UpgradeOptions(), every, Output())
    assert begun == ["require_claim", "begin", "back_up", "record", "write_target", "do", "finish"]


def test_the_question_before_an_upgrade_names_the_hosts_that_get_another_slurm_and_not_those_of_the_backup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, asked = place(), list[tuple[str, ...]]()
    left = dataclasses.replace(there.plan, steps=(there.plan.steps[0], there.plan.steps[-1]))
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: left)
    monkeypatch.setattr(Run, "confirm", lambda _, *words: asked.append(words))
    for name in ("require_claim", "back_up", "write_target", "do"):
        monkeypatch.setattr(running, name, lambda *_: None)
    monkeypatch.setattr(running, "finish", lambda *_: True)
    monkeypatch.setattr(running.under_way, "begin", lambda *_: None)
    every = frozenset(there.run.hosts)
    running.carry_out(there.run, SlurmPackages(version="26.05.*"), UpgradeOptions(), every, Output())
    hosts = fold(left.steps[-1].hosts)
    assert [question for _, question in asked] == [f"Upgrade Slurm on {hosts} to 26.05.*?"]


def test_rows_of_a_cluster_without_a_database_are_none_and_nobody_is_asked() -> None:
    hosts = FakeHosts({})
    assert proof.rows(run_over(hosts, cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"))) == {}
    assert hosts.requests == []


def test_controllers_when_the_new_slurmctld_does_not_answer_then_end_the_upgrade_with_the_way_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = place()
    monkeypatch.setattr(JobSafety, "snapshot_after", lambda _: "slurmctld does not answer")
    with pytest.raises(DeployFailed, match=r"^c1: slurmctld does not answer\. Repair it, then run the same"):
        there.upgrade("controllers")


def test_a_job_that_has_ended_meanwhile_is_no_loss() -> None:
    there = place(jobs=[job_line(7, "n1"), job_line(8, "n2")], ended=[job_line(7, "n1", state="COMPLETED")])

    def end(host: str, one: str) -> None:
        if (host, one) == ("c1", "renewed-daemon:slurmctld"):
            del there.hosts.jobs[0]

    there.hosts.when_changed = end
    there.upgrade("controllers")
    assert there.run.failed_hosts == {}


def test_a_drained_batch_is_drained_for_the_change_so_that_it_is_given_back_by_that_name() -> None:
    drained = Changes(cluster(SITE), {}, "26.05", "/state", drain=True).drained(("n1",))
    assert (drained.nodes, drained.for_change, drained.text) == (("n1",), True, f"{FOR_CHANGE}Slurm's upgrade")


def changes_of(text: str, hosts: Mapping[str, HostVersions] | None = None) -> Changes:
    return Changes(cluster(text), hosts or {}, "26.05", "/state")


def test_packages_and_what_comes_along_are_sorted_and_stop_what_must_not_run() -> None:
    there = HostVersions(offered={"slurmd": "2", "slurm-client": "2"}, others={"libz": "1", "liba": "1"})
    step = UpgradeStep("nodes", ("n1",), {"n1": there.offered}, {}, "")
    (exchanged,) = changes_of(SITE, {"n1": there}).packages(step, "n1")
    assert isinstance(exchanged, ExchangedPackages)
    assert exchanged.versions == ("slurm-client=2", "slurmd=2")
    assert exchanged.others == ("liba=1", "libz=1")
    assert exchanged.stops == ("slurmd",)


@pytest.mark.parametrize(
    ("what", "text", "host", "units"),
    [
        ("slurmdbd", SITE, "db", ("slurmdbd",)),
        ("controllers", SITE, "c1", ("slurmctld",)),
        ("nodes", SITE, "n1", ("slurmd",)),
        ("others", SITE, "login", ()),
        ("slurmdbd", ALONE, "c1", ("slurmdbd", "slurmd")),
        ("controllers", ALONE, "c1", ("slurmctld", "slurmd")),
    ],
)
def test_a_step_stops_its_own_daemon_and_slurmd_where_jobs_run(
    what: What, text: str, host: str, units: tuple[str, ...]
) -> None:
    assert changes_of(text).stops(UpgradeStep(what, (host,), {}, {}, ""), host) == units


BOTH = SITE.replace('"n[1-3]"}]', '"c1,n[1-3]"}]').replace("{host: db}", "{host: c1}").replace("db: 10.0.0.3, ", "")


@pytest.mark.parametrize(
    ("what", "text", "packages", "daemons", "paused"),
    [
        ("controllers", SITE, (), {"c1": ("slurmctld",), "c2": ("slurmctld",)}, ("c2", "c1")),
        ("controllers", SITE, (), {"c1": ("slurmd",), "c2": ("slurmctld",)}, ("c2",)),
        ("slurmdbd", SITE, ("db",), {}, ()),
        ("slurmdbd", BOTH, ("c1",), {}, ("c2", "c1")),
        ("slurmdbd", BOTH, ("c1", "login"), {}, ("c2", "c1")),
        ("slurmdbd", BOTH, (), {}, ()),
        ("nodes", BOTH, ("n1",), {}, ()),
    ],
)
def test_slurmctld_stops_for_its_own_step_and_while_a_node_converts_the_database(
    what: What, text: str, packages: tuple[str, ...], daemons: dict[str, tuple[str, ...]], paused: tuple[str, ...]
) -> None:
    step = UpgradeStep(what, tuple(daemons) or packages, {host: {"slurmd": "2"} for host in packages}, daemons, "")
    assert changes_of(text).pauses(step) == paused


def test_a_dump_is_converted_on_trial_if_any_of_its_packages_is_of_another_series() -> None:
    some = HostVersions({"slurmdbd": "24.11.5-4", "libx": "26.05.5-1", "gone": "1"}, offered={"slurmdbd": "26.05.5-1",
                        "libx": "26.05.5-2"})  # fmt: skip
    dump = changes_of(SITE, {"db": some}).proved_dump()
    assert (dump.database, dump.packages) == ("slurm_acct_db", ("slurmdbd=26.05.5-1", "libx=26.05.5-2"))
    assert changes_of(SITE).proved_dump().packages == ()
    without = changes_of(SITE.replace("database: {host: db}\n", "").replace("db: 10.0.0.3, ", ""))
    assert without.proved_dump().database == ""


def test_directories_are_put_right_on_hosts_that_get_packages_and_answer() -> None:
    there = prepared_input(SITE)
    del there.facts["n2"]  # type: ignore[attr-defined]
    offered = {host: {"slurmd": "2"} for host in ("n1", "n2")}
    step = UpgradeStep("nodes", ("n1", "n2", "n3"), offered, {}, "", {"n1": ("a",), "n3": ("b",)}, ("one",))
    told = changes.with_directories(step, there)
    assert told.changes["n3"] == ("b",)
    assert told.changes["n1"][0] == "a"
    assert [one for one in told.changes["n1"] if one.startswith("directory:")]
    assert told.lines[0] == "one"
    assert [line.partition(":")[0] for line in told.lines[1:]] == ["n1"]
    assert "are put back, where the packages change them" in told.lines[1]


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (NodeDrain(("n1", "n2"), "x", "y"), "n[1-2] is drained, and waited for until its last job has ended"),
        (NodeAcceptance(("n1",), "y"), "n1 is given back after a job of the slurm user has run there"),
        (ProvedDump("a", "", ""), "the dump of the database is loaded into one of its own, and that is removed"),
        (SlurmctldPause(), "slurmctld stops"),
        (changes.IMPATIENT[0], ""),
    ],
)
def test_a_change_is_told_in_words(resource: Resource, words: str) -> None:
    assert [*changes.change_texts(resource)] == ([words] if words else [])


def test_packages_are_told_by_version() -> None:
    assert [*changes.package_words("new: ", ("a=1", "b=2", "c=1"))] == ["new: a, c 1", "new: b 2"]


def lines_of(there: Place, *only: str, **options: Any) -> list[str]:
    """What is told while steps are done."""
    lines: list[str] = []
    there.run.progress.line = lines.append  # type: ignore[method-assign]
    there.upgrade(*only, **options)
    return lines


def test_each_batch_of_nodes_is_told_with_how_many_are_done() -> None:
    assert lines_of(place(), "nodes", at_once="2") == [
        "n[1-2]: upgraded; 2 of 3 nodes are done.",
        "n3: upgraded; 3 of 3 nodes are done.",
    ]


def test_jobs_that_cannot_be_counted_before_are_told_and_do_not_stop_an_upgrade() -> None:
    there = place(trouble="the old commands do not understand it")
    lines = lines_of(there, "slurmdbd")
    assert lines == ["c1: the jobs cannot be counted before: the old commands do not understand it."]
    assert lines_of(place(), "slurmdbd") == []
