"""New nodes: prepared before anything is written, kept from jobs, and let in one by one when a job has run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, host_facts, prepared, run_over, situation

from slurmfab import inventory
from slurmfab import lock as locks
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.membership import joined
from slurmfab.newcomers import Newcomer
from slurmfab.nodes import admission, joining
from slurmfab.plan import make_plan
from slurmfab.run import Run
from slurmfab.situation import pin


@dataclass
class TriedHosts(FakeHosts):
    """Hosts of which a controller lets in new nodes, but for those on which no job runs."""

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
        changes = [{"name": node, "actual": "idle, drain, slurmfab: no job runs there: no route", "wanted": "ready"}
                   for node in nodes if node in self.hopeless]  # fmt: skip
        status = "would change" if changes else "ok"
        return {"id": "node-trial:" + ",".join(nodes), "status": status, "changes": changes}


def newcomer(name: str, address: str) -> Newcomer:
    return Newcomer(name, address, "", host_facts(name), ("ssh-ed25519", f"host+key+of+{name}"))


def growing(folder: Path, *names: str) -> tuple[Run, TriedHosts, str]:
    """A run over a deployed cluster of two nodes and these new ones, of which its files say nothing yet."""
    path = folder / "cluster.yaml"
    path.write_text("# Ours.\n" + THREE_HOSTS)
    members = cluster()
    lock = pin(members, Lock(slurm="24.11.5"), facts_of(members, prepared))
    locks.save(lock, inventory.lock_path(path))
    new = [newcomer(name, f"10.0.0.{number + 4}") for number, name in enumerate(names)]
    grown, text = joined(Inventory(members, lock, path), new)
    wrong = {name: {"group:slurm"} for name in names}
    hosts = TriedHosts({**facts_of(members, prepared), **{name: prepared(name) for name in names}}, wrong)
    run = run_over(hosts, grown.cluster, lock=grown.lock)
    run.inventory, run.keep = grown, lambda now: locks.save(now.lock, inventory.lock_path(path))
    return run, hosts, text


def marks(run: Run) -> dict[str, bool]:
    stored = inventory.load(run.inventory.path).lock.hosts
    return {name: stored[name].on_trial for name in stored if name in run.inventory.cluster.compute_nodes}


def test_new_hosts_when_they_are_prepared_then_members_are_asked_for_facts_alone(tmp_path: Path) -> None:
    run, hosts, _ = growing(tmp_path, "n3", "n4")
    joining.prepare(run, ("n3", "n4"))
    assert hosts.of("c1") == ["facts", "claim"]
    assert hosts.of("n1") == hosts.of("n2") == ["facts"]
    assert hosts.of("n3") == hosts.of("n4")
    assert run.hosts == ("c1", "n1", "n2", "n3", "n4")


def test_new_hosts_when_there_are_many_of_them_then_each_is_asked_as_often_as_one(tmp_path: Path) -> None:
    counts = set()
    for names in (("n3",), ("n3", "n4", "n5", "n6")):
        run, hosts, _ = growing(tmp_path, *names)
        joining.prepare(run, names)
        counts |= {len(hosts.of(name)) for name in names}
    assert len(counts) == 1


def test_a_new_host_that_fails_while_it_is_prepared_then_the_files_and_all_members_are_as_before(
    tmp_path: Path,
) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    hosts.failing["n4"] = {"group:slurm"}
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    words = r"n4: group:slurm: it cannot be done\n.*as it was.* n3 could join without it"
    with pytest.raises(SlurmfabError, match=words):
        joining.carry_out(run, ("n3", "n4"), text)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before
    assert hosts.of("n1") in ([], ["facts"]), "nobody waits for the others then"


def test_a_new_host_whose_connection_breaks_while_it_is_prepared_then_nothing_is_written(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3")
    hosts.losing["n3"] = 2
    with pytest.raises(SlurmfabError, match="n3: the connection was lost"):
        joining.carry_out(run, ("n3",), text)
    assert "n3" not in run.inventory.path.read_text()


def test_new_hosts_when_a_job_has_run_on_each_then_they_are_in_the_file_and_no_longer_on_trial(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    joining.carry_out(run, ("n3", "n4"), text)
    assert run.inventory.path.read_text() == text
    assert hosts.tried == [("n3", "n4")]
    assert marks(run) == dict.fromkeys(("n1", "n2", "n3", "n4"), False)
    assert run.report().exit_code == 0


def test_a_new_host_on_which_no_job_runs_then_it_alone_stays_on_trial_and_the_run_fails(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    hosts.hopeless = ("n4",)
    joining.carry_out(run, ("n3", "n4"), text)
    assert marks(run) == {"n1": False, "n2": False, "n3": False, "n4": True}
    assert run.report().exit_code == 1
    assert "left drained" in str(run.lost["n4"])
    assert "no route" in str(run.lost["n4"])


def test_nodes_that_are_on_trial_when_the_run_is_about_others_then_they_are_not_tried(tmp_path: Path) -> None:
    run, hosts, _ = growing(tmp_path, "n3")
    run.hosts = ("c1", "n1")
    admission.admit(run)
    assert hosts.tried == []


def test_a_lost_node_when_others_are_let_in_then_it_stays_on_trial(tmp_path: Path) -> None:
    run, hosts, text = growing(tmp_path, "n3", "n4")
    del hosts.facts["n4"]
    run.inventory.path.write_text(text)
    run.inventory = replace(run.inventory, lock=pin(run.inventory.cluster, run.inventory.lock, {"n4": prepared("n4")}))
    joining.deploying.deploy_and_admit(run)
    assert marks(run)["n4"]
    assert not marks(run)["n3"]


@pytest.mark.parametrize(
    ("hosts", "half"), [("n3", True), ("10.0.0.4", True), ("n1", False), ("n3,n1", False), ("n9", False)]
)
def test_hosts_of_an_addition_that_was_cut_off_are_known_by_name_and_by_address(
    tmp_path: Path, hosts: str, half: bool
) -> None:
    run, _, _ = growing(tmp_path, "n3")
    assert joining.is_half_added(run.inventory, hosts) is half


def test_a_wish_for_what_is_not_there_is_refused_with_what_there_is(tmp_path: Path) -> None:
    run, _, _ = growing(tmp_path, "n3")
    with pytest.raises(InputError, match=r"--like c1: no compute node \(known: n\[1-3\]\)"):
        joining.check_wish(run.inventory, joining.Wish(like="c1"))
    with pytest.raises(InputError, match=r"--partition gpu: no partition \(known: main\)"):
        joining.check_wish(run.inventory, joining.Wish(partitions=("main", "gpu")))
    joining.check_wish(run.inventory, joining.Wish("n1", ("main",)))


def test_nodes_that_no_partition_would_have_are_refused_with_the_way_in() -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: some, Nodes: n1}, {PartitionName: none, Nodes: []}]\n"
    known = Inventory(cluster(text), Lock(), Path("cluster.yaml"))
    with pytest.raises(InputError, match=r"n2 would be in no partition.*--partition some\|none"):
        joining.refuse_without_partition(known, ("n1", "n2"))
    joining.refuse_without_partition(known, ("n1",))


@pytest.mark.parametrize("slurm", ["22.05.8", "24.11.5"])
def test_a_new_node_in_a_plan_gets_its_slurmd_only_after_slurmctld_keeps_it(slurm: str) -> None:
    facts = {name: prepared(name, slurm) for name in cluster().hosts}
    facts["c1"] = replace(facts["c1"], services={"slurmctld": "active"}, slurm_conf="NodeName=n1 CPUs=4\n")
    known = situation(cluster(), facts)
    marked = locks.with_host(known.lock, "n2", replace(known.lock.hosts["n2"], on_trial=True))
    plan = make_plan(replace(known, lock=marked), cluster().hosts)
    places = [(planned.phase.name, tuple(planned.resources)) for planned in plan.phases if planned.resources]
    after_files = places[[name for name, _ in places].index("slurm.conf") + 1 :]
    start = {"22.05.8": [("slurmd", ("n1",)), ("slurmctld start", ("c1",))],
             "24.11.5": [("slurmctld", ("c1",)), ("slurmd", ("n1",))]}[slurm]  # fmt: skip
    assert after_files == [*start, ("new nodes", ("c1",)), ("new slurmd", ("n2",)), ("nodes", ("c1",))]
