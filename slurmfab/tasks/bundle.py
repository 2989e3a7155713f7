"""Tasks about packages for hosts that reach no package mirror: bundle."""

from __future__ import annotations

from slurmfab.errors import InputError
from slurmfab.tasks.command import command
from slurmfab.tasks.options import Common


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    help={
        "from": "a host of the cluster that reaches its mirror (default: the primary controller)",
        "to": "path of the bundle, or a directory for it (default: beside the cluster file)",
        "list": "list the packages in this cluster's bundles and check that they are complete; make no bundle",
    },
)
def bundle(common: Common, *, from_: str = "", to: str = "", list: bool = False) -> int:
    """Collect the packages for hosts that reach no mirror.

    One host of the cluster downloads the packages and their dependencies from its own package sources, where apt
    verifies them; nothing is installed or changed on it. The packages become one file on this machine. If the key
    bundle of the cluster file names that file, deployments copy packages over SSH to the hosts that lack them.

    Examples:
        fab bundle
        fab bundle --from login01
        fab bundle --list
    """
    from slurmfab.bundle import making

    if list:
        if from_ or to:
            raise InputError("--list makes no bundle; leave out --from and --to.")
        return making.list_bundles(common.cluster)
    return making.make(common.cluster, from_, to, common.output)
