"""Tasks about packages for hosts that reach no package mirror: bundle."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    from_="a host of the cluster that reaches its mirror (default: the primary controller)",
    to="path of the bundle, or a directory for it (default: beside the cluster file)",
    list="list the packages in this cluster's bundles and check that they are complete; make no bundle",
    accept="trust the bundles in the cluster file as they are now, such as those made elsewhere; make no bundle",
)
def bundle(common: Common, *, from_: str = "", to: str = "", list: bool = False, accept: bool = False) -> int:
    """Collect the packages for hosts that reach no mirror.

    One host of the cluster downloads the packages and their dependencies from its own package sources, where apt
    verifies them; nothing is installed or changed on it. The packages become one file on this machine. If the key
    bundle of the cluster file names that file, deployments copy packages over SSH to the hosts that lack them.

    The lock remembers the SHA-256 of each bundle, and deployments refuse another file in its place until you accept it.
    Exit codes: 0 done, 1 failed, or --list finds a bundle that is missing, damaged or not accepted, 2 wrong input.

    Examples:
        fab bundle
        fab bundle --from login01
        fab bundle --list
        fab bundle --accept
    """
    from slurmfab.commands.bundle import making, pinned

    if list or accept:
        if from_ or to or (list and accept):
            raise InputError("--list and --accept make no bundle; give one of them, without --from and --to.")
        return making.list_bundles(common.cluster) if list else pinned.accept(common.cluster)
    return making.make(common.cluster, from_, to, common.output)
