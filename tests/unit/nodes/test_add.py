"""New nodes: prepared before anything is written, drained, and accepted one by one after a test job ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, host_facts, plan_input, prepared, run_over

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.nodes import add, discovery
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.commands.nodes.membership import joined
from slurmfab.core.engine import acceptance
from slurmfab.core.engine.file_writing import save_lock
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan import make_plan


@dataclass
class TriedHosts(FakeHosts):
    """Hosts whose controller accepts new nodes, except those on which no job runs."""

    hopeless: tuple[str, ...] = ()
    tried: list[tuple[str, ...]] = field(default_factory=list)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        trials = [wanted for wanted in request["resources"] if wanted["kind"] == "node-trial"]
        if not trials:
            return list(super().outcomes(host, request))
        assert host == "c1"
        if not request["dry_run"]:
            self.tried += [tuple(trial["nodes"]) for trial in trials]
        return [self.verdict(tuple(trial["nodes"])) for trial in trials]

    def verdict(self, nodes: tuple[str, ...]) -> dict[str, Any]:
        changes = [{"name": node, "actual": "idle, drain, slurmfab: acceptance failed: no route", "wanted": "ready"}
                   for node in nodes if node in self.hopeless]  # fmt: skip
        status = "would change" if changes else "ok"
        return {"id": "node-trial:" + ",".join(nodes), "status": status, "changes": changes}


def discovered(name: str, address: str) -> DiscoveredHost:
    return DiscoveredHost(name, address, "", host_facts(name), ("ssh-ed25519", f"host+key+of+{name}"))


def growing(folder: Path, *names: str) -> tuple[Run, TriedHosts, str]:
    """A run over a deployed cluster of two nodes and these new ones, which are not in its files yet."""
    path = folder / "cluster.yaml"
    path.write_text("# Ours.\n" + THREE_HOSTS)
    members = cluster()
    lock = pin(members, Lock(slurm="24.11.5"), facts_of(members, prepared))
    locks.save(lock, loading.lock_path(path))
    new = [discovered(name, f"10.0.0.{number + 4}") for number, name in enumerate(names)]
    grown, text = joined(Inventory(members, lock, path), new)
    wrong = {name: {"group:slurm"} for name in names}
    hosts = TriedHosts({**facts_of(members, prepared), **{name: prepared(name) for name in names}}, wrong)
    hooks = RunHooks(save_lock=save_lock)
    run = run_over(hosts, grown.cluster, lock=grown.lock, path=path, hooks=hooks)
    return run, hosts, text


def marks(run: Run) -> dict[str, bool]:
    stored = loading.load(run.inventory.path).lock.hosts
    return {name: stored[name].on_trial for name in stored if name in run.inventory.cluster.compute_nodes}


def test_while_new_hosts_are_prepared_members_are_only_asked_for_facts(tmp_path: Path) -> None:
    run, hosts, _ = growing(tmp_path, "n3", "n4")
    add.prepare(run, ("n3", "n4"))
    assert hosts.of("c1") == ["facts", "claim"]
    assert hosts.of("n1") == hosts.of("n2") == ["facts"]
    assert hosts.of("n3") == hosts.of("n4")
    assert run.hosts == ("c1", "n1", "n2", "n3", "n4")


def test_each_of_many_new_hosts_gets_as_many_requests_as_a_single_one(tmp_path: Path) -> None:
    counts = set()
    for names in (("n3",), ("n3", "n4", "n5", "n6")):
        run, hosts, _ = growing(tmp_path, *names)
        add.prepare(run, names)
        counts |= {len(hosts.of(name)) for name in names}
    assert len(counts) == 1


def test_if_preparing_a_new_host_fails_files_and_members_are_unchanged(
    tmp_path: Path,
) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    hosts.failing["n4"] = {"group:slurm"}
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    words = r"n4: group:slurm: it cannot be done\n.*was not changed.* n3 could join without it"
    with pytest.raises(SlurmfabError, match=words):
        add.carry_out(run, ("n3", "n4"), text)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    assert hosts.of("n1") in ([], ["facts"]), "nobody waits for the others then"


def test_if_the_connection_to_a_new_host_breaks_nothing_is_written(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3")
    hosts.losing["n3"] = 2
    with pytest.raises(SlurmfabError, match="n3: the connection was lost"):
        add.carry_out(run, ("n3",), text)
    assert "n3" not in run.inventory.path.read_text()


def test_new_hosts_are_in_the_file_and_accepted_after_a_job_ran_on_each(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    add.carry_out(run, ("n3", "n4"), text)
    assert run.inventory.path.read_text() == text
    assert hosts.tried == [("n3", "n4")]
    assert marks(run) == dict.fromkeys(("n1", "n2", "n3", "n4"), False)
    assert run.report().exit_code == 0


def test_a_new_host_on_which_no_job_runs_is_not_accepted_and_the_run_fails(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    hosts.hopeless = ("n4",)
    add.carry_out(run, ("n3", "n4"), text)
    assert marks(run) == {"n1": False, "n2": False, "n3": False, "n4": True}
    assert run.report().exit_code == 1
    assert "left drained" in str(run.failed_hosts["n4"])
    assert "no route" in str(run.failed_hosts["n4"])


def test_nodes_on_trial_are_not_tried_by_a_run_over_other_hosts(tmp_path: Path) -> None:
    run, hosts, _ = growing(tmp_path, "n3")
    with run.limited_to(("c1", "n1")):
        acceptance.accept_new_nodes(run)
    assert hosts.tried == []


def test_a_failed_node_stays_on_trial_when_others_are_accepted(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    del hosts.facts["n4"]
    run.inventory.path.write_text(text)
    run.update_lock(pin(run.inventory.cluster, run.inventory.lock, {"n4": prepared("n4")}))
    add.commands.deploy_and_accept(run)
    assert marks(run)["n4"]
    assert not marks(run)["n3"]


@pytest.mark.parametrize(
    ("hosts", "half"), [("n3", True), ("10.0.0.4", True), ("n1", False), ("n3,n1", True), ("n3,n9", False)]
)
def test_hosts_of_an_interrupted_addition_are_recognized_by_name_and_address(
    tmp_path: Path, hosts: str, half: bool
) -> None:
    run, _, _ = growing(tmp_path, "n3")
    assert add.is_half_added(run.inventory, hosts) is half


def test_options_that_name_unknown_nodes_or_partitions_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    run, _, _ = growing(tmp_path, "n3")
    with pytest.raises(InputError, match=r"--like c1: not a compute node \(known: n\[1-3\]\)"):
        add.check_options(run.inventory, add.AddNodeOptions(like="c1"))
    with pytest.raises(InputError, match=r"--partition gpu: no such partition \(known: main\)"):
        add.check_options(run.inventory, add.AddNodeOptions(partitions=("main", "gpu")))
    add.check_options(run.inventory, add.AddNodeOptions("n1", ("main",)))


def test_nodes_without_a_partition_are_refused_with_the_option_to_add() -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: some, Nodes: n1}, {PartitionName: none, Nodes: []}]\n"
    known = Inventory(cluster(text), Lock(), Path("cluster.yaml"))
    with pytest.raises(InputError, match=r"n2 would not be in any partition.*--partition some\|none"):
        add.refuse_without_partition(known, ("n1", "n2"))
    add.refuse_without_partition(known, ("n1",))


def test_new_nodes_without_a_partition_are_refused_before_anything_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(THREE_HOSTS + "partitions: [{PartitionName: some, Nodes: n1}]\n")
    lock = pin(cluster(path.read_text()), Lock(slurm="24.11.5"), facts_of(cluster(), prepared))
    locks.save(lock, loading.lock_path(path))
    found = discovery.Discovery((discovered("n3", "10.0.0.4"),), "")
    monkeypatch.setattr(add, "discover", lambda *_: found)
    monkeypatch.setattr(add.session, "start", lambda *_, **__: pytest.fail("a run was begun"))
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"n3 would not be in any partition.*--partition some"):
        add.add_node(str(path), "10.0.0.4", add.AddNodeOptions(), False, add.Output())
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("slurm", ["22.05.8", "24.11.5"])
def test_in_a_plan_a_new_nodes_slurmd_starts_after_slurmctld_drained_the_node(slurm: str) -> None:
    facts = {name: prepared(name, slurm) for name in cluster().hosts}
    facts["c1"] = replace(facts["c1"], services={"slurmctld": "active"}, slurm_conf="NodeName=n1 CPUs=4\n")
    known = plan_input(cluster(), facts)
    marked = locks.with_host(known.lock, "n2", replace(known.lock.hosts["n2"], on_trial=True))
    plan = make_plan(replace(known, lock=marked), cluster().hosts)
    places = [(planned.phase.name, tuple(planned.resources)) for planned in plan.phases if planned.resources]
    after_files = places[[name for name, _ in places].index("slurm.conf") + 1 :]
    start = {"22.05.8": [("slurmd", ("n1",)), ("slurmctld start", ("c1",))],
             "24.11.5": [("slurmctld", ("c1",)), ("slurmd", ("n1",))]}[slurm]  # fmt: skip
    assert after_files == [*start, ("new nodes", ("c1",)), ("new slurmd", ("n2",)), ("nodes", ("c1",))]
