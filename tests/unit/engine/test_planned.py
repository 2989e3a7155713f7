"""`deploy --plan` against hosts that answer from memory: what was shown is done, and anything else is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, plan_input, prepared, run_over, with_key

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.core.engine import planned, saved_plan
from slurmfab.core.engine.converge import deploy, dry_run
from slurmfab.core.engine.file_writing import save_lock
from slurmfab.core.engine.planned import PlanVerifier
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.engine.saved_plan import Files, PlanOutdated, SavedPlan
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import Approvals, DeployOptions

TEXT = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""


def in_place(**more: object) -> FakeHosts:
    facts = with_key()
    return FakeHosts(facts, **more)  # type: ignore[arg-type]


def plan_of(hosts: FakeHosts) -> SavedPlan:
    run = run_over(hosts, cluster(), digest_key="key")
    dry_run(run)
    hosts.requests.clear()
    return saved_plan.from_run(run, Files("", ""))


def kept_to(plan: SavedPlan, hosts: FakeHosts, directory: Path) -> tuple[Run, PlanVerifier]:
    """A deployment that may do what the plan shows."""
    verifier = PlanVerifier(plan)
    hooks = RunHooks(save_lock=save_lock, check_survey=verifier.check_survey)
    run = run_over(hosts, cluster(), path=directory / "lab.yaml", hooks=hooks, installs_python=False)
    return run, verifier


def applied(hosts: FakeHosts) -> list[str]:
    """The hosts that were given anything; a request without resources takes the right to change them, and no more."""
    changing = [one for one in hosts.requests if one[1]["op"] == "apply" and not one[1]["dry_run"]]
    return [host for host, request in changing if request["resources"]]


def test_hosts_as_in_the_plan_get_what_it_shows(tmp_path: Path) -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    run, _ = kept_to(plan_of(hosts), hosts, tmp_path)
    report = deploy(run)
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n1")]
    assert (tmp_path / "lab.lock.json").exists()


def test_a_host_with_more_differences_than_in_the_plan_stops_the_run_before_any_change(
    tmp_path: Path,
) -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    plan = plan_of(hosts)
    hosts.wrong["n2"] = {"file:/etc/munge/munge.key"}
    run, _ = kept_to(plan, hosts, tmp_path)
    with pytest.raises(PlanOutdated, match=r"n2: file:/etc/munge/munge\.key: state was correct") as refused:
        deploy(run)
    assert "Nothing was changed on any host. Make the plan again" in str(refused.value)
    assert refused.value.exit_code == 1
    assert applied(hosts) == []
    assert list(tmp_path.iterdir()) == []


def test_a_host_with_fewer_differences_than_in_the_plan_stops_the_run(tmp_path: Path) -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "n2": {"service:slurmd"}})
    plan = plan_of(hosts)
    hosts.wrong["n2"] = set()
    run, _ = kept_to(plan, hosts, tmp_path)
    with pytest.raises(PlanOutdated, match="n2: service:slurmd: the plan sets state to right; now nothing differs"):
        deploy(run)


def test_a_host_without_python3_is_excluded_as_in_the_plan(tmp_path: Path) -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}}, without_python={"n2"})
    run, _ = kept_to(plan_of(hosts), hosts, tmp_path)
    report = deploy(run)
    assert hosts.installed == []
    assert set(report.failed_hosts) == {"n2"}
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n1")]


def test_a_first_deployment_is_done_as_shown_although_keys_were_unknown_then(tmp_path: Path) -> None:
    hosts = FakeHosts(facts_of(cluster()))
    hosts.wrong = {
        "c1": {"munge-key:/etc/munge/munge.key", "packages:munge,openssh-client,slurm-client,slurmctld"},
        "n1": {"file:/etc/munge/munge.key", "service:slurmd"},
    }
    plan = plan_of(hosts)

    def remember(host: str, _resource: str) -> None:
        hosts.facts[host] = dataclasses.replace(prepared(host), munge_key=MUNGE_KEY)

    hosts.when_changed = remember
    run, _ = kept_to(plan, hosts, tmp_path)
    report = deploy(run)
    assert report.exit_code == 0
    assert not any(hosts.wrong.values())


def test_a_difference_after_the_preparing_phases_that_is_not_in_the_plan_stops_the_run(tmp_path: Path) -> None:
    hosts = in_place(wrong={"n1": {"ssh-key:slurm"}})
    plan = plan_of(hosts)
    hosts.when_changed = lambda host, _id: hosts.wrong.update({host: {"service:slurmd"}})
    run, _ = kept_to(plan, hosts, tmp_path)
    with pytest.raises(PlanOutdated, match="n1: service:slurmd: state was correct") as refused:
        deploy(run)
    assert "Users, packages and keys are in place; nothing else was changed" in str(refused.value)
    assert [step.phase for step in run.steps] == ["ssh keys"]
    assert (tmp_path / "lab.lock.json").exists()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A plan in a file, with the cluster file and the lock that it was made from."""
    path = tmp_path / "lab.yaml"
    path.write_text(TEXT)
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    locks.save(plan_input(cluster(), hosts.facts).lock, tmp_path / "lab.lock.json")
    plan = dataclasses.replace(plan_of(hosts), cluster_file=str(path), files=Files.of(path))
    saved_plan.save(plan, tmp_path / "plan.json")
    return tmp_path / "plan.json"


def begun(
    saved: Path,
    wish: DeployOptions | None = None,
    connection_options: ConnectionOptions | None = None,
    cluster_file: str = "",
) -> Run | None:
    return planned.start_run(
        cluster_file, wish or DeployOptions(plan_file=str(saved)), connection_options or ConnectionOptions(), Output()
    )


def test_a_plan_brings_its_cluster_file_hosts_and_approvals(saved: Path) -> None:
    plan = dataclasses.replace(saved_plan.load(saved), move_ids=True, prune=True, hosts="c1,n1")
    saved_plan.save(plan, saved)
    run = begun(saved, DeployOptions(plan_file=str(saved), approvals=Approvals(drain_first=True)))
    assert run is not None
    assert (run.hosts, run.inventory.path, run.options.command) == (("c1", "n1"), saved.parent / "lab.yaml", "deploy")
    assert run.options.approvals == Approvals(drain_first=True, move_ids=True, prune=True)
    assert (run.options.digest_key, run.options.installs_python) == (plan.digest_key, False)


@pytest.mark.parametrize(
    ("wish", "connection_options", "words"),
    [
        ({"hosts": "n1"}, ConnectionOptions(), "leave out --hosts"),
        ({"retry_failed": True}, ConnectionOptions(), "leave out --retry-failed"),
        ({}, ConnectionOptions(user="ann"), "leave out the options of a first contact"),
        ({}, ConnectionOptions(accept_new=True), "leave out the options of a first contact"),
        ({"approvals": Approvals(move_ids=True)}, ConnectionOptions(), "was made without --move-ids"),
        ({"approvals": Approvals(prune=True)}, ConnectionOptions(), "was made without --prune"),
    ],
)
def test_options_that_would_change_what_the_plan_does_are_refused(
    saved: Path, wish: dict[str, object], connection_options: ConnectionOptions, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        begun(saved, DeployOptions(plan_file=str(saved), **wish), connection_options)  # type: ignore[arg-type]


def test_a_plan_of_another_cluster_is_refused_with_both_names(saved: Path) -> None:
    other = saved.parent / "other.yaml"
    other.write_text(TEXT.replace("cluster: lab", "cluster: other"))
    with pytest.raises(InputError, match=r"is a plan of the cluster lab, and .*other.yaml describes other"):
        begun(saved, cluster_file=str(other))


@pytest.mark.parametrize("name", ["lab.yaml", "lab.lock.json"])
def test_a_changed_cluster_file_or_lock_stops_the_run_before_any_host_is_asked(saved: Path, name: str) -> None:
    path = saved.parent / name
    path.write_text(path.read_text() + "\n")
    with pytest.raises(PlanOutdated, match=f"{path} was (edited after the plan was saved|changed by another run)"):
        begun(saved)


def test_an_empty_plan_is_reported(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved_plan.save(dataclasses.replace(saved_plan.load(saved), differences=()), saved)
    assert begun(saved) is None
    assert capsys.readouterr().out == f"lab: there is nothing to do in {saved}.\n"
    assert planned.start_run("", DeployOptions(plan_file=str(saved)), ConnectionOptions(), Output(json="-")) is None
    assert json.loads(capsys.readouterr().out)["steps"] == []


def test_an_outdated_plan_is_an_error_with_a_message() -> None:
    assert issubclass(PlanOutdated, SlurmfabError)
