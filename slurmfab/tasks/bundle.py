"""Tasks about packages for hosts without a way to a mirror: bundle."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.errors import InputError
from slurmfab.tasks.command import command
from slurmfab.tasks.deploy import COMMON


@command(
    help={
        **{name: COMMON[name] for name in ("cluster", "verbose", "ask_sudo_password")},
        "from": "host of the cluster that reaches its mirror (default: the primary controller)",
        "to": "the file, or a directory for it (default: beside the cluster file)",
        "list": "tell what the bundles of this cluster hold, and whether they are whole; make none",
    }
)
def bundle(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    from_: str = "",
    to: str = "",
    list: bool = False,
    cluster: str = "",
    verbose: bool = False,
    ask_sudo_password: bool = False,
) -> int:
    """Collect the packages for hosts that reach no mirror.

    One host of the cluster fetches them, and all that they need, from its own package sources, where apt verifies them;
    nothing on it is changed. They become one file here. With that file under the key bundle of the cluster file,
    deployments push packages over SSH to the hosts that lack them.

    Examples:
        fab bundle
        fab bundle --from login01
        fab bundle --list
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.bundle import making  # noqa: PLC0415 - `fab --list` shall not pay for it

    if list:
        if from_ or to:
            raise InputError("--list makes no bundle, so --from and --to say nothing with it.")
        return making.listing(cluster)
    output = operations.Output(verbose=verbose, ask_password=ask_sudo_password)
    return making.make(cluster, from_, to, output)
