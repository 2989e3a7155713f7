"""Differences between Slurm 22.05 and 26.05, whose rules newer ones get: keys, values, effects of a reconfigure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.slurm.keys import CGROUP_CONF, NODE, PARTITION, SLURM_CONF, SLURMDBD_CONF, Key


@dataclass(frozen=True, order=True)
class SlurmVersion:
    """A release series of Slurm, such as 24.11; all its versions have the same keys."""

    major: int  # the year, such as 24
    minor: int  # the month, such as 11

    @classmethod
    def parse(cls, text: str) -> SlurmVersion:
        """Parse a version of Slurm, of a package, or in the output of a program.

        >>> str(SlurmVersion.parse("22.05.8-4+deb12u3"))
        '22.05'

        Raises:
            SlurmfabError: the text contains no version, or one that is too old for slurmfab.
        """
        found = re.search(r"(?<![\d.])(\d\d)\.(\d\d)(?!\d)", text)
        if not found:
            raise SlurmfabError(f"“{text}” is not a Slurm version such as 24.11.5.")
        version = cls(int(found[1]), int(found[2]))
        if version < OLDEST:
            raise SlurmfabError(
                f"Slurm {version} is too old: slurmfab supports {OLDEST} to {NEWEST}, as in Debian 12, Ubuntu 24.04 "
                "and newer releases, or of SchedMD's packages (docs/supported.md)."
            )
        return version

    def __str__(self) -> str:
        return f"{self.major}.{self.minor:02}"

    @property
    def is_known(self) -> bool:
        """Whether slurmfab has tables for this series; newer series get those of the newest known one."""
        return self <= NEWEST


OLDEST = SlurmVersion(22, 5)
NEWEST = SlurmVersion(26, 5)

DISTRIBUTION: Mapping[str, str] = {
    "focal": "19.05",
    "bullseye": "20.11",
    "jammy": "21.08",
    "bookworm": "22.05",
    "noble": "23.11",
    "plucky": "24.11",
    "trixie": "24.11",
    "questing": "24.11",
    "resolute": "25.11",
    "forky": "26.05",
    "sid": "26.05",
}
"""The Slurm of each release of Debian and Ubuntu, by `VERSION_CODENAME` of os-release(5), as of November 2026."""


def distribution_version(codename: str) -> SlurmVersion:
    """Debian's or Ubuntu's Slurm version by VERSION_CODENAME; SlurmfabError if unknown or too old."""
    if codename not in DISTRIBUTION:
        raise SlurmfabError(
            f"slurmfab does not know which Slurm the release “{codename}” has (known: {', '.join(DISTRIBUTION)}; "
            "docs/supported.md says which the tests deploy to)."
        )
    return SlurmVersion.parse(DISTRIBUTION[codename])


def tells_figures(version: SlurmVersion) -> bool:
    """Whether slurmctld of this version can tell Prometheus its figures itself (MetricsType)."""
    return (version.major, version.minor) >= SLURM_CONF["metricstype"].since


def adds_nodes_by_reconfigure(version: SlurmVersion) -> bool:
    """Whether `scontrol reconfigure` can add and remove nodes.

    Before 24.11 every slurmd and slurmctld must be restarted; up to 23.02 a reconfigure with other nodes even ends
    slurmctld (“MaxNodeCount has changed”).
    """
    return version >= SlurmVersion(24, 11)


def reconfigure_renews_daemons(version: SlurmVersion) -> bool:
    """Whether a reconfigure starts new processes of slurmctld and slurmd, instead of reading the files again."""
    return version >= SlurmVersion(23, 11)


@dataclass(frozen=True)
class _Refused:
    """A fatal value: one that matches `value` (a regular expression) in versions `since` <= v < `until`."""

    key: str
    value: str
    reason: str
    since: tuple[int, int] = (0, 0)
    until: tuple[int, int] = (99, 0)


_REFUSED_SLURM_CONF = (
    _Refused("SelectType", "select/cons_res", "it was removed in 23.11; write select/cons_tres", since=(23, 11)),
    _Refused("SelectType", "select/cray_aries", "the plugin was removed in 24.05", since=(24, 5)),
    _Refused("FastSchedule", ".*", "it was removed; instead of FastSchedule=2 write SlurmdParameters=config_overrides"),
    _Refused("AccountingStoreJobComment", ".*", "it was removed; write AccountingStoreFlags=job_comment"),
    _Refused("AccountingStorageLoc", ".*", "it was removed; leave the key out", until=(25, 11)),
    _Refused("SallocDefaultCommand", ".*", "it was removed; write LaunchParameters=use_interactive_step"),
    _Refused("AccountingStorageType", "accounting_storage/mysql", "only slurmdbd writes to the database"),
    _Refused("TopologyPlugin", "topology/default", "the plugin was added in 23.11; leave the key out", until=(23, 11)),
    _Refused("TopologyPlugin", "topology/block", "the plugin was added in 23.11", until=(23, 11)),
    _Refused("TopologyPlugin", "topology/flat", "the plugin was added in 25.05; leave the key out", until=(25, 5)),
    _Refused("TopologyPlugin", "topology/hypercube", "the plugin was removed in 23.11", since=(23, 11)),
    _Refused("TopologyPlugin", "topology/3d_torus", "the plugin was removed in 25.05", since=(25, 5)),
    _Refused("ProctrackType", "proctrack/cray_aries", "the plugin was removed in 24.05", since=(24, 5)),
)
_REFUSED_CGROUP_CONF = (
    _Refused("CgroupPlugin", "disabled", "the value was added in 24.05; leave the key out", until=(24, 5)),
)


def complaints(
    version: SlurmVersion,
    slurm_conf: Mapping[str, str | None],
    cgroup_conf: Mapping[str, str | None],
    node_keys: Iterable[str],
    partition_keys: Iterable[str],
    *,
    slurmdbd_conf: Mapping[str, str | None] | None = None,
) -> tuple[str, ...]:
    """The user's settings that a Slurm refuses or ignores; `None` in them leaves a line out.

    A sentence each, such as `slurm_conf.HashPlugin: Slurm 22.05 does not know this key (added in 24.05)`.
    """
    asked = (
        ("slurm_conf", SLURM_CONF, slurm_conf),
        ("cgroup_conf", CGROUP_CONF, cgroup_conf),
        ("nodes", NODE, dict.fromkeys(node_keys, "")),
        ("partitions", PARTITION, dict.fromkeys(partition_keys, "")),
        ("slurmdbd_conf", SLURMDBD_CONF, slurmdbd_conf or {}),
    )
    found = [
        f"{section}.{name}: {reason}"
        for section, table, settings in asked
        for name, value in settings.items()
        if (reason := _key_complaint(version, table, name, value))
    ]
    found += _value_complaints(version, "slurm_conf", _REFUSED_SLURM_CONF, slurm_conf)
    found += _value_complaints(version, "cgroup_conf", _REFUSED_CGROUP_CONF, cgroup_conf)
    return tuple(found)


IGNORED_LINES = frozenset({"fastschedule=1"})
"""Lines that all versions take and ignore, while another value of the key ends a daemon (`_validate_and_set_defaults`
in src/common/read_config.c)."""


def ignored_keys(version: SlurmVersion) -> frozenset[str]:
    """The keys of slurm.conf and cgroup.conf that a Slurm takes and ignores, and `key=value`; all in lower case."""
    known = {**SLURM_CONF, **CGROUP_CONF}
    return IGNORED_LINES | {low for low, key in known.items() if series_of(version) >= key.ignored_from}


def is_ignored(key: str, value: str, ignored: frozenset[str]) -> bool:
    """Whether a line is one of those that a Slurm ignores. `ignored`: of `ignored_keys`.

    >>> is_ignored("FastSchedule", "1", IGNORED_LINES)
    True
    """
    return not ignored.isdisjoint({key.lower(), f"{key}={value}".lower()})


def series_of(version: SlurmVersion) -> tuple[int, int]:
    """A release series as the tables have it."""
    return version.major, version.minor


def _key_complaint(version: SlurmVersion, table: Mapping[str, Key], name: str, value: str | None) -> str:
    """Why a key is not allowed in its file; empty if it is."""
    key = table.get(name.lower())
    if key is None:
        return _unknown_key(version, table, name)
    if value is None:
        return ""
    series = series_of(version)
    if series < key.since:
        return f"Slurm {version} does not know this key (added in {SlurmVersion(*key.since)})"
    if series >= key.until:
        return f"Slurm {version} no longer knows this key (removed in {SlurmVersion(*key.until)})"
    if series >= key.ignored_from:
        return f"Slurm {version} ignores this key (since {SlurmVersion(*key.ignored_from)}); remove it"
    return ""


def _unknown_key(version: SlurmVersion, table: Mapping[str, Key], name: str) -> str:
    """The complaint about a key that no supported Slurm has; empty if the version is newer than the tables."""
    if not version.is_known:
        return ""
    close = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.75)
    guess = f"; did you mean {table[close[0]].name}?" if close else ""
    return f"no such key in Slurm {version}{guess}"


def _value_complaints(
    version: SlurmVersion, section: str, rules: Iterable[_Refused], settings: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield complaints about values with which the daemons of this version do not start."""
    series = series_of(version)
    for name, value in settings.items():
        for rule in rules:
            is_meant = rule.key.lower() == name.lower() and value is not None and rule.since <= series < rule.until
            if is_meant and re.fullmatch(rule.value, str(value), re.IGNORECASE):
                yield f"{section}.{name}: Slurm {version} refuses {value}: {rule.reason}"
