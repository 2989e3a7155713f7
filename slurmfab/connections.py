"""What a site's own tasks use: `hosts` and `cluster` of `slurmfab`, and how Fabric's `fab` gets to use them.

The names without an underscore in `hosts`, `cluster`, `Connection` and `Group` keep their meaning until the next major
version (https://semver.org).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import fabric
import fabric.executor
import fabric.tasks
import paramiko
from invoke.exceptions import Exit

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.exit_codes import FAILURE
from slurmfab.base.terminal import guard_output
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import session
from slurmfab.core.status import selection
from slurmfab.hosts import route
from slurmfab.hosts.fan_out import FAN_OUT
from slurmfab.hosts.groups import Connection, Group, HostDown, Refused
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.transport import SshTransport

__all__ = ["Connection", "Group", "cluster", "hosts"]


def cluster(file: str = "") -> Cluster:
    """The cluster as its file says it, typed (`file`: default `$SLURMFAB_CLUSTER`, else configs/cluster.yaml).

    >>> from slurmfab import cluster
    >>> cluster().controllers  # doctest: +SKIP
    ('mn01',)

    Raises an error that Invoke prints, with exit code 2, if there is none or it has mistakes.
    """
    return _inventory(file).cluster


def hosts(words: str = selection.ALL, exclude: str = "", *, file: str = "", width: int = FAN_OUT) -> Group:
    """A group of connections to the hosts that words name, by commas, without those that `exclude` names.

    A word is a hostlist, `all`, `controller`, `compute`, `login`, `database`, `gpu`, a partition, a state of nodes as
    Slurm says it now (`idle`, `drained`, ...), or `@FILE`. Who the hosts are is looked up when the group is first used,
    so that a fabfile may name them where it is loaded.

    >>> from slurmfab import hosts
    >>> hosts("gpu", exclude="n3").run("nvidia-smi -L")  # doctest: +SKIP

    `file`: the cluster file. `width`: how many hosts work at the same time. The group raises an error that Invoke
    prints, with exit code 2, if a word names nothing, or no host is left.
    """

    def find() -> Iterable[Connection]:
        known, ssh = _inventory(file), _transport(file)
        try:
            names = selection.chosen(
                known, words, exclude, nodes=lambda: selection.ask_nodes(known, ssh), option="hosts:"
            )
        except InputError as error:
            raise Refused(str(error)) from error
        except SlurmfabError as error:
            raise Exit(str(error), FAILURE) from error
        return [Connection(name, ssh) for name in names]

    return Group(find, width)


@cache
def _inventory(file: str) -> Inventory:
    try:
        return loading.load_named(file)
    except InputError as error:
        raise Refused(str(error)) from error


@cache
def _transport(file: str) -> SshTransport:
    """The connections to the hosts of a cluster file, which all groups share."""
    known, asker = _inventory(file), session.Output().asker()
    policies = {host: PinnedKey(host, session.trusted_keys(known, host)) for host in known.cluster.hosts}
    password = _program().config.sudo.password if _program() else None  # of `fab --prompt-for-sudo-password`
    return SshTransport(route.to_hosts(known.cluster), policies, asker, password or "")


class _HostCall(fabric.tasks.ConnectionCall):  # type: ignore[misc] # Fabric ships no type information
    """A call of a task for one host, whose connection is there already, or is Fabric's without its trust in any key."""

    def make_context(self, config: fabric.Config) -> fabric.Connection:
        made = self.init_kwargs["host"]
        if isinstance(made, Connection):
            return Connection(made.original_host, made.ssh, config)
        other = fabric.Connection(**{**self.init_kwargs, "config": config})
        other.client.load_system_host_keys()
        other.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        return other


class Executor(fabric.executor.Executor):  # type: ignore[misc] # Fabric ships no type information
    """Fabric's executor, which takes groups and members of the cluster for hosts, in `@task(hosts=...)` and `-H`.

    Fabric itself makes a connection of its own for each, which accepts any host key. A host that is down does not keep
    the task from the others; the exit code is then 1.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.down: list[HostError] = []

    def normalize_hosts(self, hosts: Iterable[Any]) -> list[dict[str, Any]]:
        """Each host as arguments of a connection; `host` is the connection where it is a member of the cluster."""
        found: list[dict[str, Any]] = []
        for one in hosts or ():
            if isinstance(one, Connection):
                found.append({"host": one})
            elif isinstance(one, str) and "@" not in one and Path(loading.named_path("")).exists():
                try:
                    found += [{"host": member} for member in _hosts(one)]
                except InputError:
                    found.append({"host": one})
            else:
                found += super().normalize_hosts([one])
        return found

    def parameterize(self, call: Any, connection_init_kwargs: dict[str, Any]) -> Any:
        """A call for one host, which goes on to the next one if the host is down."""
        clone = call.clone(into=_HostCall, with_={"init_kwargs": connection_init_kwargs})
        clone.task = copy.copy(clone.task)
        clone.task.body = self.going_on(clone.task.body)
        return clone

    def going_on(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """The body of a task, which notes a host that is down."""

        def act(*args: Any, **kwargs: Any) -> Any:
            try:
                return body(*args, **kwargs)
            except HostDown as error:
                self.down.append(error)
                print(error, file=sys.stderr)  # noqa: T201 - while the others go on
                return None

        return act

    def execute(self, *tasks: Any) -> Any:
        """Carry out tasks. Raises Exit if a host was down."""
        done = super().execute(*tasks)
        if self.down:
            raise Exit(code=FAILURE)
        return done


_hosts = hosts  # `Executor` has a parameter of that name


def _program() -> Any:
    """Fabric's own program, if it is what runs."""
    program = getattr(sys.modules.get("fabric.main"), "program", None)
    return program if hasattr(program, "core") else None


if _program():
    guard_output()
