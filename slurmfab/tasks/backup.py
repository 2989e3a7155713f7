"""Tasks that save what a deployment could not make anew, and bring a cluster back from that: backup, restore."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command
from slurmfab.tasks.deploy import COMMON


@command(
    help={
        **{name: COMMON[name] for name in ("cluster", "verbose", "ask_sudo_password")},
        "to": "directory for the archive, or the archive itself (default: beside the cluster file)",
        "list": "tell what the archives beside the cluster file hold, and whether they are whole; make none",
    }
)
def backup(
    _c: Context,
    to: str = "",
    list: bool = False,
    cluster: str = "",
    verbose: bool = False,
    ask_sudo_password: bool = False,
) -> int:
    """Save database, Slurm's state and keys in an archive.

    In it are the accounting database, slurmctld's state, /etc/slurm, munge key, cluster file and lock.
    Nothing is stopped for it: jobs, slurmctld and slurmdbd go on. The archive lies here, for its owner alone (0600),
    and is whole or not there at all. It is not encrypted.

    Examples:
        fab backup
        fab backup --to /srv/backups/
        fab backup --list
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.backup import saving  # noqa: PLC0415 - `fab --list` shall not pay for it

    if list:
        return saving.listing(cluster)
    return saving.backup(cluster, to, operations.Output(verbose=verbose, ask_password=ask_sudo_password))


@command(
    positional=["file"],
    help={
        **COMMON,
        "file": "the archive that fab backup made",
        "accept_new_host_keys": "believe new SSH host keys, also of reinstalled controllers",
        "database": "another archive, whose accounting database is taken",
        "overwrite": "forget the jobs that came after the backup",
        "abandon_jobs": "accept that Slurm ends running jobs that the backup does not know",
    },
)
def restore(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    file: str,
    database: str = "",
    accept_new_host_keys: bool = False,
    overwrite: bool = False,
    abandon_jobs: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Bring a cluster back from an archive of fab backup.

    The hosts may be the same or reinstalled ones. The archive is verified first. Then they are deployed to, with munge
    key, accounting database and slurmctld's state in their places before the daemons start, so that job history and
    numbers go on. A live cluster with later jobs is left alone. Without a cluster file here, the archive's is used.
    Exit codes: 0 done, 1 failed or refused, 2 wrong input, 3 done but for hosts that had to be left out.

    Examples:
        fab restore configs/cluster.backups/titanic-20261121T143200Z.tar
        fab restore titanic-20261121T143200Z.tar --accept-new-host-keys
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.backup import restoring  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    wish = restoring.Wish(accept_new_host_keys, overwrite, abandon_jobs, database)
    return restoring.restore(cluster, file, wish, output)
