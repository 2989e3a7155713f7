"""Words that name hosts, what `fab run` shows and ends with, files that `fab put` refuses, and groups of Fabric's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fabric
import pytest
from fabric.exceptions import GroupException

import slurmfab
from slurmfab.base.errors import HostError, InputError
from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.remote import putting, running
from slurmfab.commands.remote.running import HostRan, RanOnHosts
from slurmfab.core.engine.session import Output
from slurmfab.core.status import selection, snapshot
from slurmfab.hosts.groups import Connection, Group, HostDown, HostsFailed, Refused
from slurmfab.hosts.route import Route
from slurmfab.hosts.transport import SshTransport

CLUSTER = """
cluster: tiny
controllers: [ctl, idle]
state_directory: /shared/slurm/state
login: [login]
nodes:
  - hosts: "n[1-4]"
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES}
  - {PartitionName: compute, Nodes: "n[1-2]"}
  - {PartitionName: gpu2, Nodes: "n[3-4]"}
"""
STATES = {"n1": "IDLE", "n2": "IDLE+DRAIN", "n3": "MIXED+DRAIN", "n4": "DOWN*"}


@pytest.fixture
def known(tmp_path: Path) -> Inventory:
    """A cluster of controllers, one of which is called `idle`, a login host and four nodes, two with GPUs."""
    locked = {f"n{number}": replace(HostLock(f"n{number}"), gpus=(Gpu("/dev/nvidia0"),)) for number in (3, 4)}
    return Inventory(loading.parse(CLUSTER, "tiny"), Lock(hosts=locked), tmp_path / "tiny.yaml")


def nodes() -> list[snapshot.Node]:
    """Slurm's nodes, by STATES."""
    fields = {"CPUTot": "1", "CPUAlloc": "0", "Partitions": "main"}
    return [snapshot.node_from({"NodeName": name, "State": state, **fields}) for name, state in STATES.items()]


@pytest.mark.parametrize(
    ("words", "without", "hosts"),
    [
        ("", "", "ctl idle login n1 n2 n3 n4"),
        ("all", "n[1-3],ctl", "idle login n4"),
        ("controller", "", "ctl idle"),
        ("login", "", "login"),
        ("main", "gpu", "n1 n2"),
        ("role:compute", "partition:compute", "n3 n4"),
        ("n2,ctl,n1", "", "ctl n1 n2"),
        ("idle", "", "idle"),  # the host, and no state
        ("state:idle", "", "n1"),
        ("drained", "", "n2"),
        ("DRAINING", "", "n3"),
        ("drain", "", "n2 n3"),
        ("down,mixed", "", "n4"),
        ("not_responding", "", "n4"),
    ],
)
def test_words_name_hosts_in_the_order_of_the_cluster(known: Inventory, words: str, without: str, hosts: str) -> None:
    assert selection.chosen(known, words, without, nodes=nodes) == tuple(hosts.split())


@pytest.mark.parametrize(
    ("words", "without", "said"),
    [
        ("nope", "", "--on nope: not in "),
        ("main", "gpu,n[1-2]", "--on main without gpu,n[1-2]: there is no such host now."),
        ("compute", "", "this means several things: role:compute (n[1-4]) and partition:compute (n[1-2])."),
        ("partition:nope", "", "--on partition:nope: there is no such partition."),
        ("allocated", "", "--on allocated: there is no such host now."),
        ("@/no/such/file", "", "@/no/such/file: No such file or directory."),
        ("n[2-1]", "", "does not count up"),
    ],
)
def test_words_that_name_no_host_are_refused(known: Inventory, words: str, without: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        selection.chosen(known, words, without, nodes=nodes)
    assert said in str(error.value)


def test_slurm_is_asked_for_states_alone(known: Inventory) -> None:
    assert selection.chosen(known, "n1,main,gpu", nodes=lambda: pytest.fail("asked")) == ("n1", "n2", "n3", "n4")


def ran(host: str, code: int | None = 0, output: str = "", error: str = "", **more: bool) -> HostRan:
    return HostRan(host, code, output, error, 0.1, **more)


def test_outputs_that_are_equal_are_shown_once_and_failures_with_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        "n1": ran("n1", 0, "active\n"),
        "n2": ran("n2", 3, "inactive\nfor long\n"),
        "n3": ran("n3", None, "", "no answer from n3.", has_begun=False, is_silent=True),
        "n4": ran("n4", 0, "active\n"),
        "n5": ran("n5", None, "\x1b[2J", "it was ended after 1 s"),
    }
    running.show(found, tuple(found), Output())
    shown = capsys.readouterr()
    assert shown.out == (
        "n[1,4]: active\nn2 (exit code 3):\n    inactive\n    for long\nn5 (it was ended after 1 s): \\x1b[2J\n"
    )
    assert shown.err == "n3: no answer from n3.\n5 hosts: failed on 2 (n[2,5]), not reached: 1 (n3).\n"


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        ((ran("n1"), ran("n2")), 0),
        ((ran("n1"), ran("n2", 9)), 1),
        ((ran("n1"), ran("n2", None, is_silent=True, has_begun=False)), 3),
        ((ran("n1", 1), ran("n2", None, is_silent=True, has_begun=False)), 1),
        ((ran("n1", None, "", "sudo asks", has_begun=False),), 1),
    ],
)
def test_the_exit_code_of_a_run_is_that_of_the_worst_host(hosts: tuple[HostRan, ...], code: int) -> None:
    assert RanOnHosts("tiny", "true", hosts).exit_code == code


@pytest.mark.parametrize(
    ("file", "destination", "access", "said"),
    [
        ("nope", "/etc/x", {}, "nope: No such file or directory."),
        ("here", "etc/x", {}, "give an absolute path"),
        ("here", "/etc/../x", {}, "give an absolute path"),
        ("here", "/etc/x\x1b", {}, "give an absolute path"),
        ("here", "/etc/x", {"mode": "rw"}, "--mode rw: this is no mode."),
        ("here", "/etc/x", {"owner": "a b"}, "--owner a b: this is no name"),
        ("/dev/null", "/etc/x", {}, "it is not a regular file"),
    ],
)
def test_files_that_cannot_be_put_are_refused(
    tmp_path: Path, file: str, destination: str, access: Mapping[str, str], said: str
) -> None:
    (tmp_path / "here").write_text("x")
    with pytest.raises(InputError) as error:
        putting.resource_for(str(tmp_path / file), destination, putting.Access(**access))
    assert said in str(error.value)


def test_a_file_that_is_put_keeps_its_mode_and_its_name_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"\xff")
    (tmp_path / "here").chmod(0o750)
    made = putting.resource_for(str(tmp_path / "here"), "/opt/", putting.Access(group="7"))
    assert (made.path, made.data(), made.owner, made.group, made.mode) == ("/opt/here", b"\xff", "root", "7", 0o750)


def test_the_package_has_the_functions_for_tasks_and_loads_them_when_they_are_called() -> None:
    code = (
        "import sys, slurmfab.hosts.route; from slurmfab import hosts, cluster; import slurmfab.cluster.facts\n"
        "assert callable(hosts) and callable(cluster) and hosts.route\n"
        "assert not {'fabric', 'invoke', 'slurmfab.connections'} & {*sys.modules}\n"
        "group = hosts('n1', file='nowhere.yaml')\n"
        "assert 'fabric' in sys.modules and repr(group) == '<Group of hosts>'\n"
        "try: len(group)\n"
        "except Exception as error: print(type(error).__name__, error.code, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Refused 2 There is no cluster file nowhere.yaml")
    assert {*slurmfab.__all__} == {"hosts", "cluster", "namespace"}


class NoSsh(SshTransport):
    """Ways to n1 to n3, of which n2 cannot be reached."""

    def __init__(self) -> None:
        super().__init__({name: Route(name, f"10.0.0.{name[1]}", "ann", 2222) for name in ("n1", "n2", "n3")}, {})

    def connection(self, host: str) -> Any:
        if host == "n2":
            raise HostError(host, "no answer")
        return FakeClient()


class FakeClient:
    """A client that is connected to nothing."""

    active = True

    def get_transport(self) -> FakeClient:
        return self

    def close(self) -> None:
        """Nothing."""


def test_a_group_has_fabrics_results_and_names_the_hosts_that_failed() -> None:
    ssh = NoSsh()
    group = Group(lambda: [Connection(name, ssh) for name in ssh.routes], width=2)
    assert isinstance(group, fabric.Group)
    with pytest.raises(HostsFailed) as failed:
        group._do("open")
    assert isinstance(failed.value, GroupException)
    assert (str(failed.value), failed.value.code) == ("n2: no answer", 1)
    result = failed.value.result
    assert ([one.host for one in result.succeeded], [one.host for one in result.failed]) == (["n1", "n3"], ["n2"])
    assert [type(error) for error in result.failed.values()] == [HostDown]
    (first, *_) = group
    assert (first.host, first.user, first.port, first.is_connected) == ("n1", "ann", 2222, True)
    assert "AutoAdd" not in type(first.client).__name__


def test_a_group_whose_words_are_wrong_says_so_whenever_it_is_used() -> None:
    def find() -> Any:
        raise Refused("hosts: nope: not in tiny.yaml.")

    group = Group(find)
    for _ in range(2):
        with pytest.raises(Refused, match="nope"):
            list(group)


def test_a_command_that_is_empty_or_too_long_is_refused() -> None:
    for command in ("", " ", "x" * 70_000, "a\0b"):
        with pytest.raises(InputError):
            running.run("", command, running.Where(), Output(), sudo=False, seconds=None)
