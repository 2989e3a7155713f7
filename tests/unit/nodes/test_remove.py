"""Removing nodes: what is refused, and the order of steps, so that an interrupted run can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over
from terminals import at_a_terminal, words_on

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.facts import ClusterMark, HostFacts, SlurmUse
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import node_removal
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.nodes import remove
from slurmfab.commands.nodes.remove import RemoveNodeOptions, refuse
from slurmfab.core.engine import job_waiting
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.pinned import pin
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.service import Service

IDLE = "NodeName={} State=IDLE CPUAlloc=0 CPUTot=4\n"


@dataclass
class LeavingHosts(FakeHosts):
    """Hosts whose controller reports idle nodes, and their pending jobs and reservations."""

    pending: list[dict[str, str]] = field(default_factory=list)
    reservations: dict[str, str] = field(default_factory=dict)
    busy: str = ""

    def call(self, host: str, request: Mapping[str, Any], *rest: Any) -> tuple[dict[str, Any], ...]:
        if request["op"] == "node-jobs":
            return ({"node_jobs": {"pending": self.pending, "reservations": self.reservations}},)
        if request["op"] == "slurm":
            nodes = "".join(map(IDLE.format, ("n1", "n2")))
            if self.busy:
                start, end = IDLE.format(self.busy), f"NodeName={self.busy} State=ALLOCATED CPUAlloc=4 CPUTot=4\n"
                nodes = nodes.replace(start, end)
            return ({"slurm": {"ping": "Slurmctld(primary) at c1 is UP", "trouble": "", "nodes": nodes, "jobs": ""}},)
        return super().call(host, request, *rest)


def leaving(folder: Path, *, asks: bool = False) -> tuple[Run, LeavingHosts, str]:
    """A run over a deployed cluster from which n2 is removed."""
    path = folder / "cluster.yaml"
    path.write_text("# Ours.\n" + THREE_HOSTS)
    lock = pin(cluster(), Lock(slurm="24.11.5"), facts_of(cluster(), prepared))
    locks.save(lock, loading.lock_path(path))
    hosts = LeavingHosts(facts_of(cluster(), prepared), {"n2": {Service("slurmd", running=False).id}})
    run = run_over(
        hosts, cluster(), lock=lock, path=path, hooks=remove.hooks(Inventory(cluster(), lock, path), ("n2",)), asks=asks
    )
    return run, hosts, node_removal.without_nodes(path.read_text(), ["n2"])


def test_a_removed_node_is_stopped_cleaned_and_removed_from_both_files(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    known = loading.load(run.inventory.path)
    assert run.inventory.path.read_text() == text
    assert known.cluster.compute_nodes == ("n1",)
    assert "n2" not in known.lock.hosts
    assert hosts.of("n2") == ["facts", "apply service", "facts", "apply service,absent,block,no-kept-secrets"]
    assert run.hosts == ("c1", "n1")


def test_a_node_whose_jobs_do_not_end_in_time_stays_in_both_files_and_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(job_waiting, "POLL_SECONDS", 0.01)
    run, hosts, text = leaving(tmp_path)
    hosts.busy = "n2"
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(SlurmfabError, match=r"n2: jobs still run there, so no node was removed.*--now"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions(minutes=0))
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    assert hosts.of("n2") == ["facts"]


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_a_removal_when_somebody_can_answer_then_says_what_will_happen_and_asks_before_it_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    run, hosts, text = leaving(tmp_path, asks=True)
    before, shown = run.inventory.path.read_text(), at_a_terminal(monkeypatch, typed)
    with contextlib.nullcontext() if typed == "y\n" else pytest.raises(SlurmfabError, match="Nothing was changed"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions(purge=True))
    assert run.inventory.path.read_text() == (text if typed == "y\n" else before)
    assert ("apply node-drain" in hosts.of("c1")) == (typed == "y\n")
    assert "Slurm's packages and the keys are removed there. No job runs there." in words_on(shown)
    assert shown.getvalue().endswith("Remove n2 from the cluster? [y/N] ") or typed == "y\n"


def test_a_removal_with_now_when_jobs_are_there_then_says_which_are_cancelled() -> None:
    job = Job("7", "7", "ann", ("main",), "RUNNING", "", 1, 1, 0, 5, "1:00", "n2", "x")
    told = remove.consequences(("n2",), RemoveNodeOptions(now=True), [job], ["9"])
    assert told.endswith("7 (ann) and 9 will be cancelled.")
    assert remove.consequences(("n2",), RemoveNodeOptions(), [job], []).endswith("The end of 7 (ann) is waited for.")


def test_packages_are_removed_only_with_purge_and_after_all_cluster_files() -> None:
    assert "packages-gone" not in [resource.kind for resource in remove.decommission_cleaned(purge=False)]
    *_, last = remove.decommission_cleaned(purge=True)
    assert last.kind == "packages-gone"
    assert not {"openssh-client", "slurmctld"} & remove.purged()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_host_that_another_cluster_uses_is_removed_from_the_files_and_left_as_it_is(
    tmp_path: Path, is_known: bool
) -> None:
    """Its slurmd is not stopped, and its munge key is not removed."""
    run, hosts, text = leaving(tmp_path)
    if not is_known:
        run.update_lock(locks.without_hosts(run.inventory.lock, ["n2"]))
    mark = ClusterMark("/etc/slurm/slurm.conf", "alpha", ("u1(10.9.0.1)",))
    use = SlurmUse((mark,), ("slurmd",), (7,))
    hosts.facts["n2"] = replace(hosts.facts["n2"], slurm_use=use, services={"slurmd": "active"})
    remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    assert hosts.of("n2") == ["facts"]
    assert run.inventory.path.read_text() == text
    assert run.report().exit_code == 0


def test_a_dead_node_is_removed_and_the_exit_code_tells_that_it_was_not_cleaned(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    del hosts.facts["n2"]
    remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    assert run.inventory.path.read_text() == text
    assert run.report().exit_code == 3


def test_a_node_that_cannot_be_cleaned_stays_in_the_files_so_that_the_command_can_be_repeated(
    tmp_path: Path,
) -> None:
    run, hosts, text = leaving(tmp_path)
    hosts.failing["n2"] = hosts.wrong["n2"]
    with pytest.raises(SlurmfabError, match="run the same command again"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    assert "n[1-2]" in run.inventory.path.read_text()
    assert "n2" in loading.load(run.inventory.path).lock.hosts


def test_pending_jobs_and_reservations_of_the_node_stop_the_removal_before_any_change(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    hosts.pending = [{"id": "7", "user": "ann", "wants": "n[2-3]"}, {"id": "8", "user": "bob", "wants": "n1"}]
    with pytest.raises(SlurmfabError, match=r"7 \(ann, wants n\[2-3\]\)\. .*--now"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    hosts.pending, hosts.reservations = [], {"school": "n2", "other": "n1"}
    with pytest.raises(SlurmfabError, match="school: this reservation"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions(now=True))
    assert hosts.of("n2") == ["facts", "facts"]


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (("n9",), r"n9: not in .*known: n\[1-2\]"),
        (("c1",), "c1: its roles are controller; "),
        (("n1", "n2"), "No compute node would be left"),
        (("n2",), "lone: no node would be left in the partition"),
    ],
)
def test_hosts_that_cannot_be_removed_are_refused_with_the_reason(hosts: tuple[str, ...], words: str) -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: main, Nodes: ALL}, {PartitionName: lone, Nodes: n2}]\n"
    known = Inventory(cluster(text), Lock(), Path("cluster.yaml"))
    with pytest.raises(InputError, match=f"(?s){words}.*Nothing was changed"):
        refuse(known, hosts, empty_partition=False)


def test_a_partition_may_be_emptied_if_the_user_allows_it() -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: main, Nodes: ALL}, {PartitionName: lone, Nodes: n2}]\n"
    refuse(Inventory(cluster(text), Lock(), Path("cluster.yaml")), ("n2",), empty_partition=True)


WITH_OPTIONS = (
    THREE_HOSTS
    + """\
mounts: [{path: /home, source: "nas:/homes", type: nfs4}]
node_logins: with_job
user_ssh: hostbased
modules: lmod
health: true
packages: {all: [htop]}
files: {/etc/apt/sources.list.d/site.list: {text: ""}, /etc/motd: {text: hello, hosts: n2}}
users: [{name: ann}]
"""
)
OWNED = ("apt", "files", "modules", "mounts", "node-logins", "user-ssh")
OURS = ("htop", "libpam-slurm-adopt", "lmod", "munge", "nfs-common", "slurmd")


def with_options() -> tuple[Inventory, HostFacts]:
    """A cluster with many optional keys, and the facts of n2 after a deployment."""
    known = cluster(WITH_OPTIONS)
    facts = facts_of(known, prepared)
    facts["n2"] = replace(facts["n2"], owned=OWNED, added_packages=OURS, programs=("health-check", "prolog"))
    lock = replace(pin(known, Lock(slurm="24.11.5"), facts), ids={"ann.uid": 20001, "ann.gid": 20001})
    return Inventory(known, lock, Path("cluster.yaml")), facts["n2"]


def test_all_that_a_node_has_for_optional_keys_is_taken_back_in_the_order_of_a_deployment() -> None:
    known, facts = with_options()
    opened = [one.id for one in remove.open_again(known, facts)]
    assert opened == ["login-guard:taken back", "node-logins:/etc/pam.d/sshd"]
    resources = remove.taken_back(known, facts)
    assert [one.id for one in resources] == [
        "owned-files:files",
        "in-effect:files",
        "released-mounts:former",
        "owned-files:mounts",
        "units-loaded:mounts",
        "absent:/etc/sudoers.d/slurmfab",
        "sshd-files:user-ssh",
        "owned-files:modules",
        "scripts:/etc/slurm/prolog.d",
        "absent:/usr/local/lib/slurmfab/prolog",
        "absent:/etc/slurmfab-health.json",
        "absent:/usr/local/lib/slurmfab/health-check",
        "program:/usr/local/lib/slurmfab/health",
        "packages-former:htop,libpam-slurm-adopt,lmod,nfs-common",
        "owned-files:apt",
    ]
    assert not [one for one in resources if getattr(one, "files", None)]


def test_copies_of_secrets_go_after_all_files_and_before_packages() -> None:
    known, facts = with_options()
    resources = remove.decommission_cleaned(purge=True, taken_back=remove.taken_back(known, facts))
    kinds = [one.kind for one in resources]
    assert kinds[-3:] == ["no-kept-secrets", "packages-former", "packages-gone"]
    assert kinds.index("absent") < kinds.index("released-mounts")


def test_a_node_of_which_no_optional_key_asks_anything_has_nothing_to_take_back() -> None:
    known = Inventory(cluster(), pin(cluster(), Lock(), facts_of(cluster(), prepared)), Path("cluster.yaml"))
    facts = prepared("n2")
    assert (remove.open_again(known, facts), remove.taken_back(known, facts)) == ((), ())


def test_files_of_a_capability_without_a_phase_of_its_own_are_taken_back_too() -> None:
    known, facts = with_options()
    resources = remove.taken_back(known, replace(facts, owned=(*OWNED, "something-new")))
    assert resources[-1] == OwnedFiles("something-new", ())


def test_a_node_whose_logins_are_not_open_again_for_another_login_keeps_them_and_stays_in_the_file(
    tmp_path: Path,
) -> None:
    run, hosts, text = leaving(tmp_path)
    hosts.facts["n2"] = replace(hosts.facts["n2"], owned=("node-logins",))
    hosts.wrong["n2"].add("node-logins:/etc/pam.d/sshd")
    hosts.locked_out = {"n2"}
    with pytest.raises(SlurmfabError, match=r"(?s)another login failed.*run the same command again"):
        remove.carry_out(run, ("n2",), text, RemoveNodeOptions())
    assert "n[1-2]" in run.inventory.path.read_text()
    assert not [words for words in hosts.of("n2") if "no-kept-secrets" in words]


def test_the_keys_by_which_something_may_be_left_on_a_dead_node_are_those_that_ask_for_it_there() -> None:
    known, _ = with_options()
    keys = ("mounts", "node_logins", "user_ssh", "files", "packages", "modules", "health", "users")
    assert remove.left_on(known.cluster, "n2") == keys
    assert remove.left_on(cluster(), "n2") == ()
