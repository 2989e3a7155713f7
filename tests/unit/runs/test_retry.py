"""Which hosts `deploy --retry-failed` is about: a table of what earlier runs left behind."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import SMALL, cluster, facts_of, prepared, run_over, situation

from slurmfab import deploying
from slurmfab.agent.resource import Outcome
from slurmfab.consent import Wish
from slurmfab.contact import Contact
from slurmfab.errors import HostFailed, InputError, Unreachable
from slurmfab.inventory import Inventory
from slurmfab.lock import HostLock, Lock
from slurmfab.operations import Output
from slurmfab.report import Step
from slurmfab.runs import record, retry
from slurmfab.runs.record import Record

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
HOSTS = ("c1", "n1", "n2")
FAILED = Step("slurmd", "n2", (Outcome("service:slurmd", "failed"),))


def a_run(command: str = "deploy", **more: Any) -> Record:
    """The record of a run over all hosts that ended well, but for what is said."""
    return dataclasses.replace(Record("20260102", command, "ann@laptop", NOON, NOON, hosts=HOSTS), **more)


LOST = a_run(lost={"n1": "off."})


@pytest.mark.parametrize(
    ("records", "hosts"),
    [
        ([], ()),
        ([a_run()], ()),
        ([LOST], ("n1",)),
        ([a_run(steps=(FAILED,), exit_code=1)], ("n2",)),
        ([LOST, a_run()], ()),
        ([LOST, a_run(hosts=("n2",))], ("n1",)),
        ([LOST, a_run(hosts=("n1",))], ()),
        ([LOST, a_run(hosts=("n2",), lost={"n2": "full."})], ("n1", "n2")),
        ([LOST, a_run("drain", hosts=("n1",)), a_run("reboot", hosts=("n2",), lost={"n2": "not back."})], ("n1",)),
        ([a_run(lost={"gone": "off."})], ()),
        ([a_run(ended=None)], HOSTS),
        ([a_run(lost={"c1": "off."}, error="c1 is the controller, so nothing else was started.")], HOSTS),
        ([a_run(), a_run(hosts=("n1",), ended=None)], ("n1",)),
    ],
    ids=[
        "no record",
        "all well",
        "lost",
        "failed",
        "well since then",
        "others well since then",
        "itself well since then",
        "two runs",
        "other commands",
        "not in the cluster any more",
        "cut off",
        "without the controller",
        "cut off, of some hosts",
    ],
)
def test_those_are_left_out_that_were_not_well_in_the_last_run_about_them(
    records: list[Record], hosts: tuple[str, ...]
) -> None:
    assert retry.left_out(records, HOSTS) == hosts


def known(path: Path, **lock: HostLock) -> Inventory:
    """A cluster whose hosts the lock knows well, but for those that are given."""
    well = HostLock(hardware=SMALL, public_key="ssh-ed25519 key")
    return Inventory(cluster(), Lock(hosts={host: lock.get(host, well) for host in HOSTS}), path / "lab.yaml")


def chosen(path: Path, *lost: str, error: str = "", **lock: HostLock) -> tuple[str | None, str]:
    """What is chosen after a run that lost these hosts, and what is told."""
    run = run_over(None, cluster())  # type: ignore[arg-type]
    run.inventory = known(path, **lock)
    run.lost.update({host: Unreachable(host, "off.") for host in lost})
    record.finish(run, error)
    told: list[str] = []
    return retry.chosen(run.inventory, told.append), " ".join(told)


def test_a_retry_is_about_the_hosts_that_were_lost(tmp_path: Path) -> None:
    assert chosen(tmp_path, "n1", "n2") == ("n[1-2]", "Going on with n[1-2].")


def test_a_retry_after_a_run_that_lost_nobody_is_about_nobody(tmp_path: Path) -> None:
    hosts, told = chosen(tmp_path)
    assert hosts is None
    assert "nothing is tried again" in told


def test_a_retry_after_a_run_that_did_not_get_through_is_about_all_hosts(tmp_path: Path) -> None:
    hosts, told = chosen(tmp_path, "c1", error="c1 is the controller, so nothing else was started.")
    assert hosts == ""
    assert "about all hosts again" in told


@pytest.mark.parametrize("early", [HostLock(), HostLock(hardware=SMALL), HostLock(public_key="ssh-ed25519 key")])
def test_a_retry_of_a_host_that_the_others_know_nothing_of_is_about_all_hosts(tmp_path: Path, early: HostLock) -> None:
    hosts, told = chosen(tmp_path, "n2", n2=early)
    assert hosts == ""
    assert "n2: the other hosts know nothing of it yet" in told


def test_a_file_that_is_no_record_is_told_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lab.runs").mkdir()
    (tmp_path / "lab.runs/20260101T000000.000000Z-deploy.json").write_text("{")
    hosts, told = chosen(tmp_path, "n1")
    assert hosts == "n1"
    assert "is no record of a run" in told


def test_a_retry_together_with_other_ways_to_choose_hosts_is_wrong_input() -> None:
    for wish in (Wish(hosts="n1", retry_failed=True), Wish(plan_file="saved", retry_failed=True)):
        with pytest.raises(InputError, match="--retry-failed chooses the hosts itself"):
            deploying.deploy("cluster.yaml", wish, Contact(), Output())


def test_a_retry_when_slurm_conf_has_changed_meanwhile_says_what_to_do_first() -> None:
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf="ClusterName=lab\nNodeName=n[1-2]\n")
    with pytest.raises(InputError, match=r"First, without --hosts or --retry-failed: fab deploy"):
        situation(cluster(), facts).refuse_uneven_files(["n1"])


def test_a_host_that_could_not_be_made_as_wanted_is_tried_again_as_well(tmp_path: Path) -> None:
    run = run_over(None, cluster())  # type: ignore[arg-type]
    run.inventory = known(tmp_path)
    run.steps.append(FAILED)
    run.lose("n2", HostFailed("n2", "service:slurmd: it does not stay active"))
    record.finish(run)
    assert retry.chosen(run.inventory, lambda _: None) == "n2"
