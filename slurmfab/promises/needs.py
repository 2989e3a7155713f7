"""What a difference needs on an installed Slurm before it is in force: one table.

Sources: slurm.conf(5) of each version. Up to 23.02 it marks the keys for which a reconfigure is not enough; from 23.11
on a reconfigure starts the daemons anew (scontrol(1)), and all is read again but for listening ports and the
authentication. Nodes: Slurm's FAQ on adding nodes. The rows about jobs are what real daemons of 22.05 and 24.11 did
with running jobs (tests/lab/test_needs.py), or where they did no harm, but slurm.conf(5) says that they may, its word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from slurmfab.promises.conf import DEVICES, NODE_LINE, PARTITION_LINE, SETTING, TEXT, Difference
from slurmfab.slurm.versions import SlurmVersion


class Need(Enum):
    """What a change of Slurm's files needs before it is in force, the least first."""

    NOTHING = "nothing"
    RECONFIGURE = "reconfigure"
    RESTART_SLURMCTLD = "restart of slurmctld"
    RESTART_SLURMD = "restart of slurmd"
    RESTART = "restart of slurmctld and slurmd"
    DRAINED = "drained nodes"
    NO_JOBS = "never while jobs run"

    @property
    def is_restart(self) -> bool:
        """Whether daemons have to end and begin anew, which a reconfigure does not make them do."""
        return self in (Need.RESTART_SLURMCTLD, Need.RESTART_SLURMD, Need.RESTART)


CORES = ("CPUs", "Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
"""The keys of a node line by which Slurm counts a node's cores."""

REEXEC = (23, 11)
"""The first version in which a reconfigure starts the daemons anew."""

NODES_BY_RECONFIGURE = (24, 11)
"""The first version whose reconfigure takes other nodes."""

EVER = (99, 0)

DEFAULTS = {
    "AccountingStorageType": "accounting_storage/none",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "JobAcctGatherType": "jobacct_gather/none",
    "JobContainerType": "job_container/none",
    "ProctrackType": "proctrack/cgroup",
    "SlurmctldPort": "6817",
    "SlurmdPort": "6818",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "SlurmdUser": "root",
    "SlurmUser": "root",
    "SwitchType": "switch/none",
    "TLSType": "tls/none",
}
"""What Slurm takes for keys that are not there (slurm.conf(5)), of those that need more than a reconfigure."""


@dataclass(frozen=True)
class Row:
    """What some differences need in some versions.

    Args:
        need: what they need.
        kind: of the difference.
        names: of settings, or keys of node and partition lines; empty for all of the kind.
        file: the file's name, empty for any.
        since: the first version that the row is about; `until`: the first that it is not about.
        option: an option within the setting's value, which alone needs this; empty for the whole value.
        when: what else has to be so.
    """

    need: Need
    kind: str
    names: tuple[str, ...] = ()
    file: str = "slurm.conf"
    since: tuple[int, int] = (0, 0)
    until: tuple[int, int] = EVER
    option: str = ""
    when: Callable[[Difference], bool] = lambda _: True

    def is_about(self, difference: Difference, version: SlurmVersion) -> bool:
        """Whether the row says what this difference needs."""
        key = difference.name if self.kind == SETTING else difference.key
        return (
            difference.kind == self.kind
            and self.file in ("", difference.file)
            and (not self.names or key.lower() in {name.lower() for name in self.names})
            and self.since <= (version.major, version.minor) < self.until
            and changes_option(difference, self.option)
            and self.when(difference)
        )


def is_spelled_out(difference: Difference, version: SlurmVersion) -> bool:
    """Whether a setting only comes, or goes, that says what Slurm takes for granted."""
    default = DEFAULTS.get(difference.name, "")
    if difference.name == "SelectType":
        default = "select/cons_tres" if (version.major, version.minor) >= REEXEC else "select/linear"
    values = {difference.actual or default, difference.wanted or default}
    return difference.kind == SETTING and difference.file == "slurm.conf" and len(values) == 1


def changes_option(difference: Difference, option: str) -> bool:
    """Whether an option in a list comes or goes; an empty name stands for the whole value."""
    actual, wanted = (
        {word.split("=")[0].strip().lower() for word in value.split(",")}
        for value in (difference.actual, difference.wanted)
    )
    return not option or (option in actual) != (option in wanted)


def loses_devices(difference: Difference) -> bool:
    """Whether a node had generic resources that it is to have no more, or fewer of."""
    return bool(difference.actual)


def was_there(difference: Difference) -> bool:
    """Whether a key that always has to be there had another value."""
    return bool(difference.actual)


def is_removed(difference: Difference) -> bool:
    """Whether a node or partition is to be no more."""
    return difference.is_removed


ROWS = (
    # Comments and order: the hash over slurm.conf's bytes changes, and nothing else.
    Row(Need.NOTHING, TEXT, file=""),
    # Read by commands alone, at each call (slurm.conf(5)).
    Row(Need.NOTHING, SETTING, ("BcastExclude", "BcastParameters", "CliFilterPlugins", "SbcastParameters")),
    Row(Need.NOTHING, SETTING, ("CliFilterParameters", "SrunEpilog", "SrunProlog")),
    # “All Slurm daemons and commands must be terminated”, “job steps … from completing”; “job information … lost”.
    Row(Need.NO_JOBS, SETTING, ("AuthType", "CredType", "SelectType", "SwitchType", "TLSType")),
    Row(Need.NO_JOBS, PARTITION_LINE, when=is_removed),
    # A slurmd does not find the job steps of another spool directory, and their processes are nobody's any more;
    # steps that run are tracked and counted in the way that they began in.
    Row(Need.DRAINED, SETTING, ("SlurmdSpoolDir", "ProctrackType", "JobAcctGatherType")),
    # Steps that begin in a running job look for its directories where the new files say, and fail or see the node's.
    Row(Need.DRAINED, SETTING, ("JobContainerType", "NamespaceType")),
    Row(Need.DRAINED, SETTING, ("BasePath",), file="job_container.conf"),
    Row(Need.DRAINED, NODE_LINE, when=is_removed),
    # “Aborting JobId due to change in socket/core configuration”, “… invalid GRES configuration” (read_config.c).
    Row(Need.DRAINED, NODE_LINE, CORES),
    Row(Need.DRAINED, NODE_LINE, ("Gres",), when=loses_devices),
    # scontrol(1): a reconfigure does not change “listening TCP port settings or authentication mechanism”.
    Row(Need.RESTART, SETTING, ("SlurmctldPort", "SlurmdPort", "CommunicationParameters")),
    Row(Need.RESTART, SETTING, ("AuthInfo", "AuthAltTypes", "AuthAltParameters")),
    Row(Need.RESTART, SETTING, ("ClusterName",), when=was_there),
    # From 23.11 on it is slurmctld's unit that says as whom it runs.
    Row(Need.RESTART, SETTING, ("SlurmUser", "SlurmdUser"), until=REEXEC),
    Row(Need.RESTART_SLURMCTLD, SETTING, ("StateSaveLocation",)),
    # From 24.11 on a slurmdbd that did not number the cluster ends slurmctld: “CLUSTER ID MISMATCH” (controller.c).
    Row(Need.RESTART, SETTING, ("AccountingStorageType", "AccountingStorageHost")),
    # “A restart of slurmctld is required for changes to this parameter to take effect”, up to 23.02.
    Row(Need.RESTART_SLURMCTLD, SETTING, ("AccountingStorageEnforce", "MaxJobCount"), until=REEXEC),
    Row(Need.RESTART_SLURMCTLD, SETTING, ("MaxNodeCount", "PowerPlugin", "SchedulerType"), until=REEXEC),
    # What is counted for accounts is asked of slurmdbd when slurmctld starts (_init_tres in controller.c of 22.05).
    Row(Need.RESTART_SLURMCTLD, SETTING, ("AccountingStorageTRES",), until=REEXEC),
    Row(Need.RESTART_SLURMCTLD, SETTING, ("SelectTypeParameters", "SlurmctldHost"), until=REEXEC),
    Row(Need.RESTART_SLURMCTLD, SETTING, ("SchedulerParameters",), until=REEXEC, option="no_backup_scheduling"),
    Row(Need.RESTART_SLURMCTLD, SETTING, ("SlurmctldParameters",), until=REEXEC, option="enable_configless"),
    Row(Need.RESTART_SLURMD, SETTING, ("CoreSpecPlugin",), until=REEXEC),
    Row(Need.RESTART, SETTING, ("GresTypes", "PluginDir"), until=REEXEC),
    Row(Need.RESTART, DEVICES, file="gres.conf", until=NODES_BY_RECONFIGURE),
    # “Changes in node configuration … require restarting both the slurmctld daemon and the slurmd daemons”.
    Row(Need.RESTART, NODE_LINE, until=NODES_BY_RECONFIGURE),
)
"""The first row that is about a difference says what it needs; where none is, a reconfigure is enough."""


@lru_cache(maxsize=4096)
def need(difference: Difference, version: SlurmVersion) -> Need:
    """What a difference needs on this version of Slurm.

    >>> one = Difference("slurm.conf", "setting", "SlurmdTimeout", actual="300", wanted="400")
    >>> need(one, SlurmVersion(24, 11)).value
    'reconfigure'
    """
    if is_spelled_out(difference, version):
        return Need.NOTHING
    return next((row.need for row in ROWS if row.is_about(difference, version)), Need.RECONFIGURE)
