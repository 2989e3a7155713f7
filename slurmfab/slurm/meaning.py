"""What Slurm makes of values in its files: defaults that nobody wrote, and one value in several spellings.

Only defaults that are the same in Slurm 22.05 to 26.05 are here (slurm.conf(5); read_config.h).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

SameHost = Callable[[str, str], bool]
"""Whether two names or addresses are those of one host."""

SETTINGS: Mapping[str, str] = {
    "accountingstoragehost": "localhost",
    "accountingstorageport": "6819",
    "accountingstoragetype": "accounting_storage/none",
    "authtype": "auth/munge",
    "batchstarttimeout": "10",
    "completewait": "0",
    "credtype": "cred/munge",
    "disablerootjobs": "no",
    "enforcepartlimits": "no",
    "firstjobid": "1",
    "groupupdateforce": "1",
    "groupupdatetime": "600",
    "healthcheckinterval": "0",
    "inactivelimit": "0",
    "jobacctgatherfrequency": "30",
    "jobacctgathertype": "jobacct_gather/none",
    "jobcomptype": "jobcomp/none",
    "jobcontainertype": "job_container/none",
    "jobfileappend": "0",
    "jobrequeue": "1",
    "killonbadexit": "0",
    "killwait": "30",
    "maxarraysize": "1001",
    "maxjobcount": "10000",
    "maxstepcount": "40000",
    "maxtaskspernode": "512",
    "messagetimeout": "10",
    "minjobage": "300",
    "overtimelimit": "0",
    "preemptmode": "off",
    "preempttype": "preempt/none",
    "proctracktype": "proctrack/cgroup",
    "propagateresourcelimits": "all",
    "resumetimeout": "60",
    "returntoservice": "0",
    "schedulertype": "sched/backfill",
    "slurmctldport": "6817",
    "slurmctldtimeout": "120",
    "slurmdport": "6818",
    "slurmdspooldir": "/var/spool/slurmd",
    "slurmdtimeout": "300",
    "slurmduser": "root",
    "slurmuser": "root",
    "suspendtimeout": "30",
    "switchtype": "switch/none",
    "tlstype": "tls/none",
    "waittime": "0",
}
"""Defaults of settings, by key in lower case."""

NODE: Mapping[str, str] = {
    "realmemory": "1",
    "state": "unknown",
    "tmpdisk": "0",
    "weight": "1",
}
"""Defaults of node lines, besides those of the layout."""

PARTITION: Mapping[str, str] = {
    "allowaccounts": "all",
    "allowgroups": "all",
    "allowqos": "all",
    "default": "no",
    "disablerootjobs": "no",
    "exclusiveuser": "no",
    "gracetime": "0",
    "hidden": "no",
    "lln": "no",
    "maxnodes": "unlimited",
    "maxtime": "unlimited",
    "minnodes": "0",
    "oversubscribe": "no",
    "priorityjobfactor": "1",
    "prioritytier": "1",
    "reqresv": "no",
    "rootonly": "no",
    "state": "up",
}
"""Defaults of partition lines."""

ONE, TWO = ("yes", "true", "up", "1"), ("no", "false", "down", "0")
TRUTHS = frozenset(("default", "disablerootjobs", "exclusiveuser", "hidden", "lln", "reqresv", "rootonly"))
"""Keys that are true or false, in the spellings of `ONE` and `TWO` (parse_config.c)."""

TIMES = frozenset(("maxtime", "defaulttime"))
"""Keys with a time in one of the formats of slurm.conf(5), MaxTime."""

WORDS = frozenset(("enforcepartlimits", "oversubscribe", "preemptmode", "propagateresourcelimits", "state"))
"""Keys whose values Slurm compares without case."""

ENDLESS = ("unlimited", "infinite", "-1")


def meaning(key: str, value: str, defaults: Mapping[str, str]) -> str:
    """A value in one spelling for all that mean the same; the default for none.

    >>> meaning("maxtime", "24:00:00", PARTITION) == meaning("maxtime", "1-00:00:00", PARTITION)
    True

    Args:
        key: in lower case.
        value: as in the file; empty if the file does not set it.
        defaults: of this kind of line.
    """
    text = value or defaults.get(key, "")
    low = text.lower()
    if key in TRUTHS and low in (*ONE, *TWO):
        return "yes" if low in ONE else "no"
    if low in ENDLESS:
        return ENDLESS[0]
    if key in TIMES:
        return seconds(low)
    if key in WORDS or low == defaults.get(key):
        return low
    return text


def seconds(text: str) -> str:
    """A time in seconds, from minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S; other texts as they are."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    with suppress(ValueError):
        numbers = [int(part) for part in parts]
        if dash:
            hours, minutes, left = (*numbers, 0, 0)[:3]
        elif len(numbers) < 3:  # noqa: PLR2004 - minutes, or minutes and seconds
            hours, minutes, left = (0, *numbers, 0)[:3]
        else:
            hours, minutes, left = numbers[:3]
        return str(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + left)
    return text


def node_meanings(line: Mapping[str, str]) -> Mapping[str, str]:
    """The values of a node line, with the defaults and with the layout that Slurm completes (read_config.c).

    Args:
        line: values by key in lower case, with `socketsperboard` for `Sockets` and `cpus` for `Procs`.
    """
    found = {key: meaning(key, value, NODE) for key, value in {**NODE, **line}.items()}
    with suppress(ValueError, ZeroDivisionError):
        boards, cores, threads = (int(line.get(key) or 1) for key in ("boards", "corespersocket", "threadspercore"))
        each = boards * cores * threads
        sockets = int(line.get("socketsperboard") or 0) or max(int(line.get("cpus") or 0) // each, 1)
        layout = {"boards": boards, "corespersocket": cores, "threadspercore": threads, "socketsperboard": sockets}
        layout["cpus"] = int(line.get("cpus") or 0) or each * sockets
        found.update({key: str(value) for key, value in layout.items()})
    return found


def partition_meanings(line: Mapping[str, str]) -> Mapping[str, str]:
    """The values of a partition line, with the defaults."""
    return {key: meaning(key, value, PARTITION) for key, value in {**PARTITION, **line}.items()}


def is_same_setting(key: str, actual: str, wanted: str, is_same_host: SameHost) -> bool:
    """Whether two values of a setting mean the same.

    Args:
        key: in lower case.
        actual: one value; empty if the file does not set it.
        wanted: the other one.
        is_same_host: knows which names and addresses are one host's.
    """
    one, other = (meaning(key, value, SETTINGS) for value in (actual, wanted))
    if key == "accountingstoragehost":
        return is_same_host(one, other)
    if key == "slurmctldhost" and one.count(",") == other.count(","):
        return all(
            is_same_controller(*pair, is_same_host) for pair in zip(one.split(","), other.split(","), strict=True)
        )
    return one == other


def is_same_controller(one: str, other: str, is_same_host: SameHost) -> bool:
    """Whether two controllers as in SlurmctldHost, such as `c1` and `c1(10.0.0.1)`, are one.

    An IPv6 address is another thing than an IPv4 address of the same host: steps that run may know IPv4 alone.
    """
    (name, _, address), (other_name, _, other_address) = (text.rstrip(")").partition("(") for text in (one, other))
    is_same_family = (":" in address) == (":" in other_address)
    return name == other_name and is_same_family and is_same_host(address or name, other_address or other_name)
