"""What is said of things that are as wanted; and what hosts are asked about people."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, plan_input, prepared, prepared_input, run_over

from slurmfab.base.paths import FORMER_SPOOL, SLURM_SPOOL
from slurmfab.cluster.inventory.lock import Spool
from slurmfab.core.engine import notices
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.approvals import Approvals
from slurmfab.on_hosts.agent.core.resource import Change, Outcome
from slurmfab.on_hosts.agent.nodes.registered import LEFT_DRAINED

WITH_ANN = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\nusers: [{name: ann, groups: [ml]}]\n'


def told(*steps: Step, approvals: Approvals | None = None) -> list[str]:
    wanted = cluster(WITH_ANN)
    run = run_over(FakeHosts({}), wanted, approvals=approvals or Approvals())
    out = io.StringIO()
    run.progress = Progress(out)
    notices.tell_of_resources(run, steps)
    return out.getvalue().splitlines()


def test_a_remark_is_told_once_for_all_hosts_that_make_it() -> None:
    left = Outcome("person-gone:bob", "ok", message="bob was left as a user")
    assert told(Step("people", "n1", (left,)), Step("people", "n2", (left, Outcome("group:ann", "ok")))) == [
        "n[1-2]: bob was left as a user.",
        "fab deploy --prune removes such users; their files stay.",
    ]
    assert told(Step("people", "n1", (left,)), approvals=Approvals(prune=True)) == ["n1: bob was left as a user."]


def test_what_failed_or_changed_and_drained_nodes_are_told_elsewhere() -> None:
    outcomes = (Outcome("a:b", "failed", message="x"), Outcome("nodes:c", "ok", message=LEFT_DRAINED))
    assert told(Step("people", "n1", outcomes)) == []


def test_hosts_are_asked_about_the_people_of_the_cluster_file() -> None:
    wanted = cluster(WITH_ANN)
    hosts = FakeHosts(facts_of(wanted, prepared))
    gather(run_over(hosts, wanted), wanted.hosts)
    for _, request in hosts.requests:
        assert request["users"] == ("slurm", "munge", "ann")
        assert request["groups"] == ("ml",)


def test_exports_that_stay_for_hosts_that_failed_meanwhile_are_told_after_the_change() -> None:
    run = run_over(FakeHosts({}), cluster(WITH_ANN))
    out = io.StringIO()
    run.progress = Progress(out)
    outcomes = (Outcome("export-files:former", "ok", message="/home stays exported to n2"), Outcome("file:/x", "ok"))
    notices.tell_after_change(run, [Step("former exports", "c1", outcomes)])
    assert out.getvalue() == "c1: /home stays exported to n2.\n"


KEYS = "block:/var/lib/slurm/home/.ssh/authorized_keys#slurm keys"


@pytest.mark.parametrize(
    ("more", "before", "expected"),
    [
        ("", '-restrict,pty,from="10.0.0.2" ssh-ed25519 k slurm@n1\n-ssh-ed25519 k slurm@n2\n', "n[1-2]"),
        ("", "-ssh-ed25519 k slurm@n2\n-ssh-ed25519 k ann@n1\n-ssh-ed25519 k slurm@elsewhere\n", "n2"),
        ("", "-ssh-ed25519 k slurm@elsewhere\n-a slurm@n1\n+b slurm@n1\n c slurm@n2\n", ""),
        ("slurm_ssh: both\n", "-ssh-ed25519 k slurm@n1\n", ""),
    ],
)
def test_slurm_users_who_cannot_log_in_on_controllers_any_more_are_told(more: str, before: str, expected: str) -> None:
    wanted = cluster(THREE_HOSTS + more)
    outcome = Outcome(KEYS, "would change", (Change("content", diff=before),))
    known = prepared_input(wanted)
    found = notices.lost_logins(known, [Step("ssh", "c1", (outcome,)), Step("ssh", "n1", (outcome,))])
    sentence = "does not log in here any more; `slurm_ssh: both` in the cluster file keeps these logins"
    assert found == ([("c1", f"the slurm user of {expected} {sentence}")] if expected else [])


@pytest.mark.parametrize(
    ("spool", "more", "expected"),
    [
        (FORMER_SPOOL, "", True),
        (SLURM_SPOOL, "", False),
        (FORMER_SPOOL, f"slurm_conf: {{SlurmdSpoolDir: {SLURM_SPOOL}}}\n", False),
    ],
)
def test_a_directory_of_slurmd_that_stays_where_it_was_is_told_until_the_cluster_file_names_one(
    spool: Spool, more: str, *, expected: bool
) -> None:
    known = prepared_input(THREE_HOSTS + more)
    assert notices.keeps_spool(replace(known, lock=replace(known.lock, spool=spool))) == expected


def test_a_controller_that_becomes_a_login_host_is_told_until_its_users_have_limits() -> None:
    wanted = cluster(THREE_HOSTS.replace("controllers:", "login: [c1, l1]\ncontrollers:"))
    assert [*notices.users_beside_slurmctld(prepared_input(wanted))] == [
        (
            "c1",
            f"{notices.LOGIN_BESIDE} Without a job you can use here: 25% of memory, 1024 tasks (`login_limits` changes "
            "that)",
        )
    ]
    limited = facts_of(wanted, prepared, owned=("login-limits",))
    assert [*notices.users_beside_slurmctld(plan_input(wanted, limited))] == []


@pytest.mark.parametrize(("status", "is_told"), [("changed", True), ("would change", False), ("failed", False)])
def test_a_user_who_was_removed_is_told_after_that_alone(status: str, is_told: bool) -> None:
    assert notices.is_removal(Outcome("person-gone:bob", status, message="bob was removed")) is is_told
    assert not notices.is_removal(Outcome("person:bob", status, message="bob was removed"))


def lines_of(tell: Callable[[Run], None], text: str = THREE_HOSTS) -> list[str]:
    """What is printed."""
    out = io.StringIO()
    tell(run_over(FakeHosts({}), cluster(text), progress=Progress(out)))
    return out.getvalue().splitlines()


def test_every_kind_of_notice_is_told_once_for_the_hosts_that_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    one = [("n1", "of {}"), ("n2", "of {}")]
    for module, name in (
        (notices, "root_jobs"),
        (notices.gres, "remarks"),
        (notices.slurm_source, "unwanted_versions"),
        (notices, "doubtful_addresses"),
        (notices, "users_beside_slurmctld"),
        (notices, "lost_logins"),
    ):
        found = [(host, text.format(f"{module.__name__}.{name}")) for host, text in one]
        monkeypatch.setattr(module, name, lambda *_, found=found: found)
    monkeypatch.setattr(notices, "cgroup_notices", lambda *_: ["of control groups"])
    monkeypatch.setattr(notices, "keeps_spool", lambda _: True)
    facts = facts_of(cluster(), prepared)
    facts["n1"] = replace(facts["n1"], slurm_versions={"slurmd": "24.05.1"})
    conf = "ClusterName=lab\nSlurmctldHost=c1\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"
    facts["c1"] = replace(facts["c1"], slurm_conf=conf)
    known = plan_input(cluster(THREE_HOSTS + "keep_files: true\n"), facts)
    left = Outcome("person:bob", "ok", message="bob was left")
    shown = lines_of(lambda run: notices.tell(run, known, [Step("people", "n1", (left,))]))
    text = "\n".join(shown)
    for words in (
        "n1: bob was left.",
        "of control groups",
        "n[1-2]: of slurmfab.core.engine.notices.root_jobs.",
        "n[1-2]: of slurmfab.core.engine.notices.users_beside_slurmctld.",
        "n[1-2]: of slurmfab.core.plan.preflight.gres.remarks.",
        "n[1-2]: of slurmfab.core.plan.phases.slurm_source.unwanted_versions.",
        "n[1-2]: of slurmfab.core.engine.notices.doubtful_addresses.",
        "n[1-2]: of slurmfab.core.engine.notices.lost_logins.",
        "slurm.conf, cgroup.conf stay as they are on the hosts (keep_files), where they say otherwise",
        f"slurmd keeps its directory {FORMER_SPOOL}",
    ):
        assert text.count(words) == 1, (words, shown)
    assert [line for line in shown if "24.05.1" in line]


def test_nothing_is_told_of_a_cluster_without_oddities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "cgroup_notices", lambda *_: [])
    known = prepared_input()
    assert lines_of(lambda run: notices.tell(run, known, [])) == []


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({}, {}),
        ({"n1": "24.05.1"}, {"n1": "24.05.1"}),
        ({"n1": ""}, {}),
        ({"c1": "24.05.1"}, {"n1": "24.11.5", "n2": "24.11.5"}),
        ({"c1": ""}, {}),
    ],
)
def test_hosts_with_another_slurm_than_the_controllers_are_named(
    versions: dict[str, str], found: dict[str, str]
) -> None:
    facts = facts_of(cluster(), prepared)
    for host, version in versions.items():
        packages = {} if not version else {"slurm-client": f"{version}-1"}
        facts[host] = replace(facts[host], packages=packages, slurm_versions={"slurmd": version} if version else {})
    assert notices.with_other_slurm(plan_input(cluster(), facts)) == found


@pytest.mark.parametrize(
    ("kind", "status", "changes", "is_told"),
    [
        ("export-files", "ok", (), True),
        ("export-files", "changed", (), True),
        ("export-files", "failed", (), False),
        ("in-effect", "changed", (), True),
        ("root-log", "ok", (), True),
        ("person-gone", "changed", (), True),
        ("person-gone", "ok", (), False),
        ("file", "ok", (Change("mode"),), True),
        ("file", "ok", (), False),
        ("file", "changed", (Change("mode"),), False),
    ],
)
def test_what_stays_or_was_left_is_told_after_a_change(
    kind: str, status: str, changes: tuple[Change, ...], is_told: bool
) -> None:
    outcome = Outcome(f"{kind}:x", status, changes, "it stays")
    shown = lines_of(lambda run: notices.tell_after_change(run, [Step("files", "n1", (outcome,))]))
    assert shown == (["n1: it stays."] if is_told else [])
    silent = replace(outcome, message="")
    assert lines_of(lambda run: notices.tell_after_change(run, [Step("files", "n1", (silent,))])) == []


def test_other_hardware_is_told_for_the_nodes_that_have_it() -> None:
    changes = (Change("RealMemory", "8000", "16000"), Change("GPUs", "0", "1"))
    outcome = Outcome("hardware:x", "ok", changes, "the lock keeps it")
    known = prepared_input()
    steps = [Step("hardware", host, (outcome,)) for host in ("n1", "n2")]
    assert lines_of(lambda run: notices.print_other_hardware(run, known, steps)) == [
        "n[1-2]: other hardware: RealMemory is 8000 instead of 16000; the lock keeps it"
    ]


def test_a_host_with_another_key_than_the_controllers_is_told_and_one_without_any_is_not() -> None:
    other, new = (Change("content"),), (Change("content"), Change("owner", "", "munge"))
    steps = (
        Step("munge", "n1", (Outcome("file:/etc/munge/munge.key", "would change", other),)),
        Step("munge", "n2", (Outcome("file:/etc/munge/munge.key", "would change", new),)),
        Step("token keys", "d1", (Outcome("file:/etc/slurm/slurmfab-jwt.key", "would change", other),)),
        Step("files", "n3", (Outcome("file:/etc/motd", "would change", other),)),
    )
    found = dict(notices.replaced_keys("c1", steps))
    assert {host: text.partition(",")[0] for host, text in found.items()} == {
        "n1": "it has another munge key than c1",
        "d1": "it has another key of tokens than c1",
    }
