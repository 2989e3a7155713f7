"""Which hosts `deploy --retry-failed` is about: a table of what earlier runs left behind."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import SMALL, FakeHosts, cluster, facts_of, plan_input, prepared, run_over

from slurmfab.base.errors import HostFailed, InputError, Unreachable
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.core.engine import commands, record, retry
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import DeployOptions
from slurmfab.core.plan.preflight.configuration import refuse_uneven_files
from slurmfab.on_hosts.agent.core.resource import Outcome

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
HOSTS = ("c1", "n1", "n2")
FAILED = Step("slurmd", "n2", (Outcome("service:slurmd", "failed"),))


def a_run(command: str = "deploy", **more: Any) -> Record:
    """The record of a run over all hosts that ended well, but for what is said."""
    return dataclasses.replace(Record("20260102", command, "ann@laptop", NOON, NOON, hosts=HOSTS), **more)


LOST = a_run(lost={"n1": "off."})


@pytest.mark.parametrize(("phase", "hosts"), [("nodes", ("c1", "n2")), ("slurmd", ("n2",))])
def test_nodes_that_slurmctld_reported_when_they_are_tried_again_the_controller_is_asked_too(
    phase: str, hosts: tuple[str, ...]
) -> None:
    records = (a_run(steps=(dataclasses.replace(FAILED, phase=phase),), lost={"n2": "down."}),)
    assert retry.with_controller(records, "c1", ("n2",)) == hosts


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
        ([LOST, a_run(hosts=("n1",), only=("munge-key",))], ("n1",)),
        ([a_run(hosts=("n1",), only=("munge-key",), lost={"n1": "off."})], ()),
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
        "some phases well since then",
        "some phases alone",
        "not in the cluster any more",
        "cut off",
        "without the controller",
        "cut off, of some hosts",
    ],
)
def test_hosts_failed_before_if_the_last_run_about_them_failed(records: list[Record], hosts: tuple[str, ...]) -> None:
    assert retry.failed_before(records, HOSTS) == hosts


def known(path: Path, **lock: HostLock) -> Inventory:
    """A cluster whose hosts the lock knows well, but for those that are given."""
    well = HostLock(hardware=SMALL, public_key="ssh-ed25519 key")
    return Inventory(cluster(), Lock(hosts={host: lock.get(host, well) for host in HOSTS}), path / "lab.yaml")


def run_of(inventory: Inventory) -> Run:
    """A run over all hosts."""
    return run_over(FakeHosts({}), inventory.cluster, lock=inventory.lock, path=inventory.path)


def chosen(path: Path, *lost: str, error: str = "", **lock: HostLock) -> tuple[str | None, str]:
    """What is chosen after a run that lost these hosts, and what is told."""
    run = run_of(known(path, **lock))
    for host in lost:
        run.exclude(host, Unreachable(host, "off."))
    record.finish(run, error)
    told: list[str] = []
    return retry.hosts_to_retry(run.inventory, told.append), " ".join(told)


def test_a_retry_is_about_the_hosts_that_were_excluded(tmp_path: Path) -> None:
    assert chosen(tmp_path, "n1", "n2") == ("n[1-2]", "Retrying n[1-2].")


def test_a_retry_after_a_run_without_failures_has_no_hosts(tmp_path: Path) -> None:
    hosts, told = chosen(tmp_path)
    assert hosts is None
    assert "No hosts to retry" in told


def test_a_retry_after_a_run_that_stopped_early_is_about_all_hosts(tmp_path: Path) -> None:
    hosts, told = chosen(tmp_path, "c1", error="c1 is the controller, so nothing else was started.")
    assert hosts == ""
    assert "so this run is about all hosts" in told


@pytest.mark.parametrize("early", [HostLock(), HostLock(hardware=SMALL), HostLock(public_key="ssh-ed25519 key")])
def test_a_retry_of_a_host_without_pinned_keys_or_hardware_is_about_all_hosts(tmp_path: Path, early: HostLock) -> None:
    hosts, told = chosen(tmp_path, "n2", n2=early)
    assert hosts == ""
    assert "n2: not in the configuration of the other hosts yet" in told


def test_a_file_that_is_not_a_record_is_named_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "lab.runs").mkdir()
    (tmp_path / "lab.runs/20260101T000000.000000Z-deploy.json").write_text("{")
    hosts, told = chosen(tmp_path, "n1")
    assert hosts == "n1"
    assert "is not the record of a run" in told


def test_retry_failed_with_hosts_or_plan_is_refused() -> None:
    for wish in (DeployOptions(hosts="n1", retry_failed=True), DeployOptions(plan_file="saved", retry_failed=True)):
        with pytest.raises(InputError, match="--retry-failed chooses the hosts itself"):
            commands.deploy("cluster.yaml", wish, ConnectionOptions(), Output())


def test_a_retry_after_a_change_of_slurm_conf_names_what_to_do_first() -> None:
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf="ClusterName=lab\nNodeName=n[1-2]\n")
    with pytest.raises(InputError, match=r"First, without --hosts or --retry-failed: fab deploy"):
        refuse_uneven_files(plan_input(cluster(), facts), ["n1"])


def test_a_host_with_a_failed_resource_is_retried(tmp_path: Path) -> None:
    run = run_of(known(tmp_path))
    run.record_steps(FAILED)
    run.exclude("n2", HostFailed("n2", "service:slurmd: it does not stay active"))
    record.finish(run)
    assert retry.hosts_to_retry(run.inventory, lambda _: None) == "n2"


@pytest.mark.parametrize(
    ("hosts", "plan_file", "words"),
    [("n1", "", "leave out --hosts."), ("", "x", "leave out --plan."), ("n1", "x", "leave out --hosts and --plan.")],
)
def test_options_that_choose_hosts_too_are_refused(hosts: str, plan_file: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        retry.refuse_others(hosts, plan_file)
    retry.refuse_others("", "")


@pytest.mark.parametrize(
    ("lock", "host", "is_new"),
    [
        (None, "n1", True),
        (HostLock(hardware=SMALL), "n1", True),
        (HostLock(public_key="k"), "n1", True),
        (HostLock(public_key="k", hardware=SMALL), "n1", False),
        (HostLock(public_key="k"), "c1", False),
    ],
)
def test_a_host_is_new_while_the_lock_lacks_its_key_or_its_hardware(
    lock: HostLock | None, host: str, is_new: bool
) -> None:
    known = Inventory(cluster(), Lock(hosts={host: lock} if lock else {}), Path("lab.yaml"))
    assert retry.is_new(known, host) is is_new


def reported(status: str, name: str = "service:slurmd", message: str = "") -> Report:
    """The report of a run with one resource of n2."""
    return Report("plan", "lab", HOSTS, (Step("slurmd", "n2", (Outcome(name, status, message=message),)),), {}, 1.0)


def test_what_a_deployment_failed_at_comes_before_the_next_one_until_one_succeeds(tmp_path: Path) -> None:
    run = run_of(known(tmp_path))
    run.record_steps(Step("slurmd", "n2", (Outcome("service:slurmd", "failed", message="fatal: no plugin (7)"),)))
    record.finish(run)
    path, would = run.inventory.path, reported("would change")
    assert "first what made the last deployment fail" in retry.after_failures(path, would)
    assert "n2: service:slurmd: fatal: no plugin (7)" in retry.after_failures(path, would)
    assert retry.after_failures(path, reported("would change", "file:/etc/hosts")) == ""
    again = reported("failed", message="fatal: no plugin (8)")
    assert "n2: the deployment of " in retry.repeated(path, again, "this one")
    assert retry.repeated(path, again, run.id) == "", "it is the run itself"
    assert retry.repeated(path, reported("failed", message="fatal: no file"), "this one") == ""
    better = run_over(FakeHosts({}), cluster(), path=path, started=run.started + timedelta(minutes=1))
    record.finish(better)  # with nothing changed
    assert (retry.after_failures(path, would), retry.repeated(path, again, "this one")) == ("", "")
