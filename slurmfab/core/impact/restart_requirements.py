"""What a difference in Slurm's files requires before it takes effect, by version of Slurm: one table.

Sources: slurm.conf(5) of each version. Up to 23.02 it marks the keys for which a reconfigure is not enough; from 23.11
on a reconfigure restarts the daemons (scontrol(1)), which read everything again except listening ports and
authentication. Nodes: Slurm's FAQ on adding nodes. The rules about jobs are what real daemons of 22.05 and 24.11 did
to running jobs (tests/lab/test_needs.py); where these did no harm although slurm.conf(5)
says that they may, the manual counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from slurmfab.cluster.slurm.meaning import SETTINGS
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.slurm_diff import DEVICES, FILE, NODE_LINE, PARTITION_LINE, SETTING, TEXT, Difference


class Requirement(Enum):
    """What a change of Slurm's files requires before it takes effect, the least first."""

    NOTHING = "nothing"
    RECONFIGURE = "reconfigure"
    RESTART_SLURMCTLD = "restart of slurmctld"
    RESTART_SLURMD = "restart of slurmd"
    RESTART = "restart of slurmctld and slurmd"
    DRAINED = "drained nodes"
    NO_JOBS = "never while jobs run"


CORES = ("CPUs", "Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
"""The keys of a node line that count a node's cores."""

REEXEC = (23, 11)  # the first version in which a reconfigure restarts the daemons
NODES_BY_RECONFIGURE = (24, 11)  # the first version whose reconfigure accepts another set of nodes

EVER = (99, 0)


@dataclass(frozen=True)
class RequirementRule:
    """What some differences require in some versions."""

    need: Requirement
    kind: str
    names: tuple[str, ...] = ()  # names of settings, or keys of node and partition lines; empty for all of the kind
    file: str = "slurm.conf"  # the file's name; empty for any
    since: tuple[int, int] = (0, 0)  # the first version of the rule; `until`: the first version after it
    until: tuple[int, int] = EVER
    option: str = ""  # the option within the value that requires this; empty for the whole value
    when: Callable[[Difference], bool] = lambda _: True

    def is_about(self, difference: Difference, version: SlurmVersion) -> bool:
        """Whether the rule applies to this difference."""
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
    """Whether a setting only comes or goes whose value is Slurm's default."""
    default = SETTINGS.get(difference.name.lower(), "")
    if difference.name == "SelectType":
        default = "select/cons_tres" if (version.major, version.minor) >= REEXEC else "select/linear"
    values = {difference.actual or default, difference.wanted or default}
    return difference.kind == SETTING and difference.file == "slurm.conf" and len(values) == 1


def changes_option(difference: Difference, option: str) -> bool:
    """Whether an option in a list is added or removed; an empty name stands for the whole value."""
    actual, wanted = (
        {word.split("=")[0].strip().lower() for word in value.split(",")}
        for value in (difference.actual, difference.wanted)
    )
    return not option or (option in actual) != (option in wanted)


def loses_devices(difference: Difference) -> bool:
    """Whether a node loses generic resources."""
    return bool(difference.actual)


def was_there(difference: Difference) -> bool:
    """Whether a mandatory key had another value."""
    return bool(difference.actual)


def turns_to_ipv6(difference: Difference) -> bool:
    """Whether controllers that had IPv4 addresses or names get IPv6 addresses."""
    return bool(difference.actual) and ":" in difference.wanted and ":" not in difference.actual


def is_removed(difference: Difference) -> bool:
    """Whether a node or partition is removed."""
    return difference.is_removed


RULES = (
    # Comments and order: only the hash over slurm.conf's bytes changes.
    RequirementRule(Requirement.NOTHING, TEXT, file=""),
    # Only commands read these, at each call (slurm.conf(5)).
    RequirementRule(
        Requirement.NOTHING, SETTING, ("BcastExclude", "BcastParameters", "CliFilterPlugins", "SbcastParameters")
    ),
    RequirementRule(Requirement.NOTHING, SETTING, ("CliFilterParameters", "SrunEpilog", "SrunProlog")),
    # “All Slurm daemons and commands must be terminated”, “job steps … from completing”; “job information … lost”.
    RequirementRule(Requirement.NO_JOBS, SETTING, ("AuthType", "CredType", "SelectType", "SwitchType", "TLSType")),
    RequirementRule(Requirement.NO_JOBS, PARTITION_LINE, when=is_removed),
    # A slurmd does not find the job steps of another spool directory, and their processes stay behind;
    # running steps are tracked and counted by the plugin that started them.
    RequirementRule(Requirement.DRAINED, SETTING, ("SlurmdSpoolDir", "ProctrackType", "JobAcctGatherType")),
    # New steps of a running job look for its directories where the new files say, and fail or see the node's.
    RequirementRule(Requirement.DRAINED, SETTING, ("JobContainerType", "NamespaceType")),
    RequirementRule(Requirement.DRAINED, SETTING, ("BasePath",), file="job_container.conf"),
    RequirementRule(Requirement.DRAINED, NODE_LINE, when=is_removed),
    # Running steps get the new address from slurmd, but not EnableIPv6.
    RequirementRule(Requirement.DRAINED, SETTING, ("SlurmctldHost",), since=REEXEC, when=turns_to_ipv6),
    # “Aborting JobId due to change in socket/core configuration”, “… invalid GRES configuration” (read_config.c).
    RequirementRule(Requirement.DRAINED, NODE_LINE, CORES),
    RequirementRule(Requirement.DRAINED, NODE_LINE, ("Gres",), when=loses_devices),
    # scontrol(1): a reconfigure does not change “listening TCP port settings or authentication mechanism”.
    RequirementRule(Requirement.RESTART, SETTING, ("SlurmctldPort", "SlurmdPort", "CommunicationParameters")),
    RequirementRule(Requirement.RESTART, SETTING, ("AuthInfo", "AuthAltTypes", "AuthAltParameters")),
    RequirementRule(Requirement.RESTART, SETTING, ("ClusterName",), when=was_there),
    # From 23.11 on slurmctld's unit sets its user.
    RequirementRule(Requirement.RESTART, SETTING, ("SlurmUser", "SlurmdUser"), until=REEXEC),
    RequirementRule(Requirement.RESTART_SLURMCTLD, SETTING, ("StateSaveLocation",)),
    # From 24.11 on slurmctld ends with a slurmdbd that has another id for the cluster: “CLUSTER ID MISMATCH”
    # (controller.c).
    RequirementRule(Requirement.RESTART, SETTING, ("AccountingStorageType", "AccountingStorageHost")),
    # “A restart of slurmctld is required for changes to this parameter to take effect”, up to 23.02.
    RequirementRule(Requirement.RESTART_SLURMCTLD, SETTING, ("AccountingStorageEnforce", "MaxJobCount"), until=REEXEC),
    RequirementRule(
        Requirement.RESTART_SLURMCTLD, SETTING, ("MaxNodeCount", "PowerPlugin", "SchedulerType"), until=REEXEC
    ),
    # slurmctld asks slurmdbd only at its start what to count (_init_tres in controller.c of 22.05).
    RequirementRule(Requirement.RESTART_SLURMCTLD, SETTING, ("AccountingStorageTRES",), until=REEXEC),
    RequirementRule(Requirement.RESTART_SLURMCTLD, SETTING, ("SelectTypeParameters", "SlurmctldHost"), until=REEXEC),
    RequirementRule(
        Requirement.RESTART_SLURMCTLD, SETTING, ("SchedulerParameters",), until=REEXEC, option="no_backup_scheduling"
    ),
    RequirementRule(
        Requirement.RESTART_SLURMCTLD, SETTING, ("SlurmctldParameters",), until=REEXEC, option="enable_configless"
    ),
    RequirementRule(Requirement.RESTART_SLURMD, SETTING, ("CoreSpecPlugin",), until=REEXEC),
    RequirementRule(Requirement.RESTART, SETTING, ("GresTypes", "PluginDir"), until=REEXEC),
    RequirementRule(Requirement.RESTART, FILE, file="", until=NODES_BY_RECONFIGURE),
    RequirementRule(Requirement.RESTART, DEVICES, file="gres.conf", until=NODES_BY_RECONFIGURE),
    # “Changes in node configuration … require restarting both the slurmctld daemon and the slurmd daemons”.
    RequirementRule(Requirement.RESTART, NODE_LINE, until=NODES_BY_RECONFIGURE),
)
"""The first rule that applies to a difference decides; without one, a reconfigure is enough."""


@lru_cache(maxsize=4096)
def need(difference: Difference, version: SlurmVersion) -> Requirement:
    """What a difference requires on this version of Slurm.

    >>> one = Difference("slurm.conf", "setting", "SlurmdTimeout", actual="300", wanted="400")
    >>> need(one, SlurmVersion(24, 11)).value
    'reconfigure'
    """
    if is_spelled_out(difference, version):
        return Requirement.NOTHING
    return next((rule.need for rule in RULES if rule.is_about(difference, version)), Requirement.RECONFIGURE)
