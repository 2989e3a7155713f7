"""Targets of rollbacks as tables: records in, the run that is undone and the state before it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over, with_key

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock, with_host
from slurmfab.commands.history.rollback import undoing
from slurmfab.commands.history.rollback.undo_state import UndoState
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.core.plan.pinned import pin
from slurmfab.on_hosts.agent.core.resource import CHANGED, Outcome

NOW = datetime(2026, 11, 21, 10, tzinfo=timezone.utc)
FILE = "slurm-files:/etc/slurm"
LOCK = pin(cluster(), Lock(), facts_of(cluster(), prepared))
PRESENT = Inventory(cluster(), LOCK, Path("cluster.yaml"))


def ran(number: int, command: str = "deploy", *changed: str, **more: object) -> Record:
    """A run that ended well, the tenth hour's minute in its id; without names it changed slurm.conf on c1."""
    outcomes = tuple(Outcome(name, CHANGED) for name in changed or (FILE,) if name)
    done = {
        "hosts": ("c1", "n1", "n2"),
        "ended": NOW,
        "steps": (Step("any", "c1", outcomes),),
        "cluster_file": f"# {number}\n{THREE_HOSTS}",
        "lock": asdict(LOCK),
    }
    name = f"20261121T10{number:02}00.000000Z-{command}"
    return Record(run=name, command=command, by="ann@laptop", begun=NOW, **{**done, **more})  # type: ignore[arg-type]


def cut(number: int, command: str = "deploy", **more: object) -> Record:
    return ran(number, command, ended=None, steps=(), **more)


@pytest.mark.parametrize(
    ("records", "undone"),
    [
        pytest.param([ran(1), ran(2)], 1, id="the last"),
        pytest.param([ran(1), ran(2), ran(3, "drain", "node-drain:n1")], 1, id="one that only drained does not count"),
        pytest.param([ran(1), ran(2), ran(3, "deploy", "")], 1, id="nor one that found all as wanted"),
        pytest.param([ran(1), ran(2), ran(3, "resume", "service:slurmd")], 2, id="but one that mended a daemon does"),
        pytest.param([ran(1), cut(2)], 1, id="one that was cut off may have changed something"),
        pytest.param([ran(1), cut(2, "drain"), ran(3)], 2, id="unless it was about to drain"),
        pytest.param([ran(1), cut(2), ran(3)], 1, id="one that goes on with it is undone together with it"),
        pytest.param([ran(1), cut(2), cut(3), ran(4)], 1, id="however often that was tried"),
        pytest.param([ran(1), cut(2), ran(3, "deploy", ""), ran(4)], 3, id="unless all was found well in between"),
        pytest.param([ran(1), ran(2, only=("ssh",))], 1, id="one of some phases is undone alone"),
        pytest.param([ran(1), cut(2), ran(3, only=("ssh",)), ran(4)], 1, id="it completes none that was cut off"),
        pytest.param([ran(1), cut(2), ran(3, only=("ssh",))], 1, id="and is undone with it"),
        pytest.param([ran(1), ran(2, only=("ssh",)), ran(3)], 2, id="but not with one that comes after it"),
        pytest.param([ran(1), cut(2, only=("ssh",)), ran(3)], 1, id="unless it was cut off"),
        pytest.param([ran(1), ran(2), cut(3, "rollback", undoes="ID2")], 1, id="a rollback that was cut off goes on"),
        pytest.param(
            [ran(1), ran(2), ran(3, "rollback", exit_code=3, undoes="ID2")], 1, id="as does one that left hosts out"
        ),
        pytest.param([ran(1), ran(2), ran(3, "rollback", undoes="ID2")], 2, id="one that ended is itself undone"),
    ],
)
def test_the_run_that_is_undone_by_default(records: Sequence[Record], undone: int) -> None:
    by_word = {f"ID{number}": record.run for number, record in enumerate(records, 1)}
    known = [dataclasses.replace(record, undoes=by_word.get(record.undoes, "")) for record in records]
    assert undoing.target_latest(known) == known[undone]


def test_without_any_run_there_is_nothing_to_undo() -> None:
    with pytest.raises(InputError, match="nothing to roll back"):
        undoing.target_latest([ran(1, "drain", "node-drain:n1")])


def test_the_target_is_the_state_after_the_run_before() -> None:
    records = [ran(1), ran(2), ran(3)]
    target = undoing.target_before(records, records[2])
    assert (target.undone, target.cluster_file, target.was_deployed, target.why) == (
        records[2].run, records[1].cluster_file, True, "",
    )  # fmt: skip
    assert target.lock == LOCK


def test_undoing_the_first_run_does_not_change_the_cluster_file() -> None:
    records = [ran(1), ran(2)]
    target = undoing.target_before(records, records[0])
    assert (target.cluster_file, target.lock, target.was_deployed) == (None, None, False)
    assert "was the first run, so the hosts go back to before it; the cluster file is not changed" in target.why
    assert undoing.inventory_then(target, PRESENT) == PRESENT


def test_undoing_the_first_deployment_after_an_import_leads_to_what_was_found_and_leaves_the_daemons() -> None:
    records = [ran(1, "import", ""), ran(2), ran(3)]
    assert undoing.target_latest(records[:2]) == records[1]
    for undone in records[:2]:  # an import changed no host, so that this is the same
        target = undoing.target_before(records, undone)
        assert (target.cluster_file, target.was_deployed) == (records[0].cluster_file, True)
        undoing.refuse_unnamed(target)


def test_the_run_that_made_the_cluster_is_undone_only_by_name() -> None:
    records = [ran(1), ran(2)]
    with pytest.raises(InputError, match=f"If this is intended, name the run: fab rollback --run {records[0].run}"):
        undoing.refuse_unnamed(undoing.target_before(records, records[0]))
    undoing.refuse_unnamed(undoing.target_before(records, records[1]))


def test_after_only_failed_runs_the_cluster_counts_as_not_deployed() -> None:
    records = [ran(1, exit_code=1), ran(2)]
    target = undoing.target_before(records, records[1])
    assert (target.cluster_file, target.was_deployed) == (records[0].cluster_file, False)


def test_a_target_after_an_interrupted_run_is_refused_with_the_run_to_name() -> None:
    records = [ran(1), cut(2), ran(3, "drain", "node-drain:n1"), ran(4)]
    with pytest.raises(InputError, match=f"Undo both: fab rollback --run {records[1].run}"):
        undoing.target_before(records, records[3])
    assert undoing.target_before(records, records[1]).cluster_file == records[0].cluster_file


@pytest.mark.parametrize("only", [(), ("ssh",)])
def test_a_run_of_some_phases_neither_completes_an_interrupted_one_nor_makes_a_cluster(only: tuple[str, ...]) -> None:
    records = [ran(1), cut(2), ran(3, only=only), ran(4)]
    if only:
        with pytest.raises(InputError, match=f"Undo both: fab rollback --run {records[1].run}"):
            undoing.target_before(records, records[3])
    else:
        assert undoing.target_before(records, records[3]).cluster_file == records[2].cluster_file
    assert undoing.target_before(records[2:], records[3]).was_deployed == (not only)


def test_a_run_of_an_older_slurmfab_cannot_be_undone() -> None:
    records = [ran(1, cluster_file=None, lock=None), ran(2)]
    with pytest.raises(InputError, match="cannot be undone: that slurmfab had no undo store on hosts yet"):
        undoing.target_before(records, records[0])
    target = undoing.target_before(records, records[1])
    assert (target.cluster_file, target.was_deployed) == (None, True)
    assert "does not have the cluster file, so the file is not changed" in target.why


def test_the_lock_keeps_newer_host_keys_and_the_installed_version() -> None:
    n1 = dataclasses.replace(LOCK.hosts["n1"], host_keys={"ssh-ed25519": "host+key+of+n1", "ssh-rsa": "new"})
    present = dataclasses.replace(PRESENT, lock=dataclasses.replace(with_host(LOCK, "n1", n1), slurm="25.05.1"))
    records = [ran(1), ran(2)]
    then = undoing.inventory_then(undoing.target_before(records, records[1]), present)
    assert then.lock.hosts["n1"].host_keys == n1.host_keys
    assert then.lock.slurm == "25.05.1"
    assert dataclasses.replace(then.lock.hosts["n1"], host_keys={}) == dataclasses.replace(n1, host_keys={})


MORE = THREE_HOSTS.replace("n[1-2]", "n[1-3]").replace("10.0.0.[2-3]", "10.0.0.[2-4]")


@pytest.mark.parametrize(
    ("present", "then", "words"),
    [
        pytest.param(
            Inventory(cluster(MORE), LOCK, Path("c")), PRESENT, "Remove it first: fab remove-node n3", id="joined"
        ),
        pytest.param(PRESENT, Inventory(cluster(MORE), LOCK, Path("c")), "fab add-node n3 adds it again", id="left"),
        pytest.param(
            PRESENT,
            dataclasses.replace(
                PRESENT,
                lock=with_host(LOCK, "n2", dataclasses.replace(LOCK.hosts["n2"], host_keys={"ssh-ed25519": "other"})),
            ),
            "n2: another machine than before",
            id="replaced",
        ),
        pytest.param(
            PRESENT,
            dataclasses.replace(PRESENT, lock=dataclasses.replace(LOCK, ids={**LOCK.ids, "slurm.uid": 1001})),
            "slurm.uid 1001 -> 64030",
            id="other numbers",
        ),
    ],
)
def test_other_machines_and_other_numbers_are_refused_with_the_right_command(
    present: Inventory, then: Inventory, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        undoing.refuse_other_machines("RUN", present, then)
    assert words in str(refused.value)
    assert str(refused.value).endswith("Nothing was changed.")
    undoing.refuse_other_machines("RUN", present, present)


def test_a_run_that_an_undo_store_lacks_is_refused_with_the_oldest_possible_one() -> None:
    records = [ran(1), ran(2), ran(3), ran(4, "drain", "node-drain:n1"), ran(5)]
    kept = {"n1": UndoState(dropped=records[0].run), "c1": UndoState(dropped=records[1].run)}
    run = run_over(FakeHosts(with_key()), cluster())
    undoing.refuse_forgotten(run, records[2].run, kept, records)
    with pytest.raises(InputError) as refused:
        undoing.refuse_forgotten(run, records[1].run, kept, records)
    assert str(refused.value).startswith(
        f"c1: the undo store there does not have the state before {records[1].run} any more"
    )
    assert f"The oldest run that can be undone is {records[2].run}: fab rollback --run {records[2].run}." in str(
        refused.value
    )
    kept = {"n1": UndoState(dropped=records[4].run)}
    with pytest.raises(InputError, match="No run can be undone"):
        undoing.refuse_forgotten(run, records[1].run, kept, records)


def test_a_host_without_undo_state_of_its_changes_was_reinstalled() -> None:
    records = [ran(1), ran(2, "deploy", "service:slurmctld"), ran(3, "deploy", "user:slurm")]
    assert undoing.without_undo_state({"c1": UndoState(), "n1": UndoState()}, records[1].run, records) == ("c1",)
    assert undoing.without_undo_state({"c1": UndoState(runs=(records[1].run,))}, records[1].run, records) == ()
    assert undoing.without_undo_state({"c1": UndoState()}, records[2].run, records) == ()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (ran(1, "drain", "node-drain:n1", hosts=("n1",)), "fab resume n1 undoes it."),
        (ran(1, "resume", "node-resume:n1", hosts=("n1",)), "fab drain n1 undoes it."),
        (ran(1, "reboot", "node-reboot:n1", hosts=("n1",)), "There is nothing to roll back."),
    ],
)
def test_a_run_that_changed_no_file_is_reported_with_the_command_that_undoes_it(record: Record, words: str) -> None:
    assert undoing.nothing_to_undo(record).endswith(words)


@pytest.mark.parametrize("undone", [0, 1])
def test_a_run_since_which_a_backup_was_restored_cannot_be_undone(undone: int) -> None:
    records = [ran(1), ran(2, "restore")]
    with pytest.raises(InputError, match=r"Only another backup can bring it back: fab restore"):
        undoing.target_before(records, records[undone])
    assert undoing.target_before([*records, ran(3)], ran(3)).cluster_file == records[1].cluster_file


def test_a_run_when_gpus_were_divided_since_then_it_is_not_undone() -> None:
    records = [ran(1), ran(2), ran(3, "deploy", "mig:instances", FILE)]
    with pytest.raises(InputError, match="divided GPUs into other MIG instances"):
        undoing.target_before(records, records[1])
