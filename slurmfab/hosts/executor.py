"""How `fab` and `slurmfab` call tasks on hosts: on members of the cluster as `deploy` does, on known hosts alone."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import fabric
import fabric.executor
import fabric.tasks
import paramiko
from invoke.exceptions import Exit

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.exit_codes import FAILURE
from slurmfab.base.terminal import fit
from slurmfab.cluster.inventory.file_named import file_named


class HostCall(fabric.tasks.ConnectionCall):  # type: ignore[misc] # Fabric ships no type information
    """A call of a task for one host, whose connection is there already, or is Fabric's without its trust in any key."""

    def make_context(self, config: fabric.Config) -> fabric.Connection:
        """The connection, which the task gets."""
        made = self.init_kwargs["host"]
        if isinstance(made, fabric.Connection):  # a member of the cluster
            return type(made)(made.original_host, made.ssh, config)
        other = fabric.Connection(**{**self.init_kwargs, "config": config})
        other.client.load_system_host_keys()
        other.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        return other


class Executor(fabric.executor.Executor):  # type: ignore[misc] # Fabric ships no type information
    """Fabric's executor, which takes groups and members of the cluster for hosts, in `@task(hosts=...)` and `-H`.

    Fabric itself makes a connection of its own for each, which accepts any host key. A host that cannot be reached does
    not keep the task from the others; the exit code is then 1.
    """

    settings: ClassVar[Any] = None  # those of the program that runs, once it carries tasks out

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        Executor.settings = self.config
        self.unreached: list[str] = []

    def normalize_hosts(self, hosts: Iterable[Any]) -> list[dict[str, Any]]:
        """Each host as arguments of a connection; `host` is the connection where it is a member of the cluster."""
        found: list[dict[str, Any]] = []
        named: list[Any] = []
        for one in hosts or ():
            # Fabric parts the value of -H at each comma, those in the brackets of a hostlist as well.
            if named and isinstance(named[-1], str) and named[-1].count("[") > named[-1].count("]"):
                named[-1] += f",{one}"
            else:
                named.append(one)
        for one in named:
            if isinstance(one, fabric.Connection) and getattr(one, "ssh", None):
                found.append({"host": one})
            elif isinstance(one, str) and "@" not in one and file_named("").exists():
                from slurmfab import hosts as members  # with models, which only such tasks need

                try:
                    found += [{"host": member} for member in members(one)]
                except InputError:
                    found.append({"host": one})
            else:
                found += super().normalize_hosts([one])
        return found

    def parameterize(self, call: Any, connection_init_kwargs: dict[str, Any]) -> Any:
        """A call for one host, which goes on to the next one if that cannot be reached."""
        clone = call.clone(into=HostCall, with_={"init_kwargs": connection_init_kwargs})
        clone.task = copy.copy(clone.task)
        clone.task.body = self.going_on(clone.task.body)
        return clone

    def going_on(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """The body of a task, which tells of a host that cannot be reached while the others go on."""

        def act(connection: fabric.Connection, *args: Any, **kwargs: Any) -> Any:
            try:
                return body(connection, *args, **kwargs)
            except HostError as error:
                why = str(error)
            except (OSError, EOFError, paramiko.SSHException) as error:
                opening = fabric.Connection.open.__code__
                way = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
                if isinstance(error, OSError) and opening not in way:  # about something else, such as a file here
                    raise
                why = f"{connection.host}: {error}"
            self.unreached.append(connection.host)
            print(fit(why, sys.stderr), file=sys.stderr)  # noqa: T201
            return None

        return act

    def execute(self, *tasks: Any) -> Any:
        """Carry out tasks. Raises Exit if a host could not be reached."""
        done = super().execute(*tasks)
        if self.unreached:
            raise Exit(code=FAILURE)
        return done
