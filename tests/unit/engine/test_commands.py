"""`fab plan` from the hosts' answers to its last line, its JSON and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, run_over, with_key

from slurmfab.base.errors import DeployFailed, InputError
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.core.engine import commands
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import Approvals, DeployOptions


def plan(folder: Path, monkeypatch: pytest.MonkeyPatch, **differing: Any) -> tuple[int, dict[str, Any]]:
    """The exit code of a plan, and its JSON."""
    path = folder / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    facts = with_key()
    run = run_over(FakeHosts(facts, **differing), cluster(), path=path, command="plan")
    monkeypatch.setattr(commands, "start", lambda *_, **__: run)
    code = commands.plan(str(path), DeployOptions(), "", ConnectionOptions(), Output(json=str(folder / "plan.json")))
    return code, json.loads((folder / "plan.json").read_text())


@pytest.mark.parametrize(
    ("differing", "code"),
    [
        ({}, 0),
        ({"wrong": {"n1": {"service:slurmd"}}}, 4),
        ({"losing": {"n2": 1}}, 3),
        ({"wrong": {"n1": {"service:slurmd"}}, "losing": {"n2": 1}}, 3),
    ],
)
def test_a_plans_json_has_the_exit_code_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differing: dict[str, Any], code: int
) -> None:
    ended, told = plan(tmp_path, monkeypatch, **differing)
    assert (ended, told["exit_code"]) == (code, code)


def test_a_plan_without_its_controller_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeployFailed):
        plan(tmp_path, monkeypatch, losing={"c1": 1})


@pytest.mark.parametrize(
    ("options", "exists", "is_first"),
    [
        (DeployOptions(hosts="n1"), False, True),
        (DeployOptions(hosts="n1"), True, False),
        (DeployOptions(), False, False),
        (DeployOptions(hosts="n1", plan_file="x"), False, False),
    ],
)
def test_a_deployment_that_names_hosts_without_a_cluster_file_is_the_first_contact(
    tmp_path: Path, options: DeployOptions, exists: bool, is_first: bool
) -> None:
    path = tmp_path / "cluster.yaml"
    if exists:
        path.write_text(THREE_HOSTS)
    assert commands.is_first_contact(str(path), options) is is_first


def deployed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: DeployOptions, connection: ConnectionOptions | None = None
) -> tuple[int, list[Any]]:
    """How a deployment ends, and with which hosts and options its run was started."""
    path, begun = folder / "cluster.yaml", list[Any]()
    path.write_text(THREE_HOSTS)
    monkeypatch.setattr(
        commands, "start", lambda _known, hosts, _output, wanted, **more: begun.append((hosts, wanted, more)) or "run"
    )
    monkeypatch.setattr(commands, "perform", lambda run, _, work: begun.append((run, work)) or 3)
    return commands.deploy(str(path), options, connection or ConnectionOptions(), Output()), begun


def test_a_deployment_starts_a_run_over_the_named_hosts_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = Approvals(drain_first=True)
    options = DeployOptions(hosts="n1", approvals=approvals, yes=True, wake=True)
    code, ((hosts, wanted, more), (run, work)) = deployed(tmp_path, monkeypatch, options)
    assert (code, hosts, run, work) == (3, "n1", "run", commands.deploy_and_accept)
    assert (wanted.command, wanted.approvals, wanted.wakes, wanted.asks) == ("deploy", approvals, True, False)
    assert more == {"accept_new": False}
    _, ((_, asking, _), _) = deployed(tmp_path, monkeypatch, DeployOptions())
    assert (asking.asks, asking.wakes) == (True, False)


@pytest.mark.parametrize(
    ("hosts", "connection"),
    [
        ("ctl,10.0.0.2", ConnectionOptions(user="root", port=22022, name="lab")),
        ("root@ctl:22022,root@n1:22022", ConnectionOptions(become="none", accept_new=True)),
    ],
)
def test_a_first_contacts_command_when_given_again_with_what_the_file_says_then_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str, connection: ConnectionOptions
) -> None:
    written = "cluster: lab\nssh: {user: root, port: 22022}\naddresses: {n1: 10.0.0.2}\ncontrollers: [ctl]\n"
    monkeypatch.setattr(f"{__name__}.THREE_HOSTS", f"{written}nodes: [{{hosts: 'n[1-2]'}}]\n")
    code, ((named, *_), _) = deployed(tmp_path, monkeypatch, DeployOptions(hosts=hosts), connection)
    assert (code, named) == (3, "ctl,n1")


def test_a_deployment_that_retries_is_about_the_hosts_that_failed_or_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands.retry, "hosts_to_retry", lambda *_: "n2")
    _, begun = deployed(tmp_path, monkeypatch, DeployOptions(retry_failed=True))
    assert begun[0][0] == "n2"
    monkeypatch.setattr(commands.retry, "hosts_to_retry", lambda *_: None)
    assert deployed(tmp_path, monkeypatch, DeployOptions(retry_failed=True)) == (0, [])


@pytest.mark.parametrize(
    ("options", "connection", "words"),
    [
        (DeployOptions(retry_failed=True, hosts="n1"), ConnectionOptions(), "--retry-failed chooses the hosts itself"),
        (DeployOptions(approvals=Approvals(allowed=frozenset({"nothing"}))), ConnectionOptions(), "unknown name"),
        (DeployOptions(), ConnectionOptions(user="ann"), "says how to reach the hosts .--user ann, where it has "),
        (DeployOptions(hosts="n1"), ConnectionOptions(name="other"), "--name other, where it has lab"),
        (DeployOptions(hosts="ann@n1:2222"), ConnectionOptions(), "port of n1 2222, where it has 22"),
        (DeployOptions(hosts="n1,n[8-9]"), ConnectionOptions(), "To go on with these: fab deploy"),
        (DeployOptions(), ConnectionOptions(controller_computes=True), "says which hosts compute"),
    ],
)
def test_options_of_a_deployment_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DeployOptions, connection: ConnectionOptions, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        deployed(tmp_path, monkeypatch, options, connection)


def test_a_plan_that_is_saved_names_the_command_that_carries_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, begun, file = tmp_path / "cluster.yaml", list[Any](), tmp_path / "one.plan"
    path.write_text(THREE_HOSTS)
    facts = with_key()
    run = run_over(FakeHosts(facts, wrong={"n1": {"service:slurmd"}}), cluster(), path=path, command="plan")
    monkeypatch.setattr(commands, "start", lambda *words, **_: begun.append(words[3]) or run)
    assert commands.plan(str(path), DeployOptions(hosts="n1"), str(file), ConnectionOptions(), Output()) == 4
    assert (begun[0].command, bool(begun[0].digest_key)) == ("plan", True)
    assert file.exists()
    assert f"Saved in {file}.\nNext: fab deploy --plan {file}" in capsys.readouterr().out
    commands.plan(str(path), DeployOptions(hosts="n1"), "", ConnectionOptions(), Output())
    assert begun[1].digest_key == ""
    assert "Saved in" not in capsys.readouterr().out
