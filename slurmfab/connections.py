"""What a site's own tasks use: `hosts` and `cluster` of `slurmfab`, and how Fabric's `fab` gets to use them.

The names without an underscore in `hosts`, `cluster`, `Connection` and `Group` keep their meaning until the next major
version (https://semver.org).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import FAILURE
from slurmfab.base.terminal import guard_output
from slurmfab.hosts.executor import Executor
from slurmfab.hosts.fan_out import FAN_OUT
from slurmfab.hosts.groups import Connection, Group, Refused

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.cluster.inventory.loading import Inventory
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


def hosts(words: str = "all", exclude: str = "", *, file: str = "", width: int = FAN_OUT) -> Group:
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
        from slurmfab.core.status import selection  # with models, which no other task of a fabfile needs

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
    from slurmfab.cluster.inventory import loading

    try:
        return loading.load_named(file)
    except InputError as error:
        raise Refused(str(error)) from error


@cache
def _transport(file: str) -> SshTransport:
    """The connections to the hosts of a cluster file, which all groups share."""
    from slurmfab.core.engine import session

    password = ""  # of `fab --prompt-for-sudo-password`
    if Executor.settings:  # `fab` or `slurmfab` is what runs, and shows answers of hosts
        guard_output()
        password = Executor.settings.sudo.password or ""
    return session.ssh_to(_inventory(file), session.Output().asker(), password)


_fab: Any = getattr(sys.modules.get("fabric.main"), "program", None)
if hasattr(_fab, "core"):  # Fabric's own program is what runs
    _fab.config.tasks.executor_class = f"{Executor.__module__}.Executor"  # Invoke's own setting for that
