"""What Slurm makes of values: defaults that are the same from 22.05 to 26.05, and several spellings of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family, is_loopback
from slurmfab.cluster.slurm import keys
from slurmfab.cluster.slurm.keys import CGROUP_CONF, SLURM_CONF
from slurmfab.cluster.slurm.tables import read_table
from slurmfab.on_hosts.agent.client.amounts import seconds_of

SameHost = Callable[[str, str], bool]  # whether two names or addresses are those of one host

DEFAULTS = read_table("defaults.ini")
"""By file or kind of line, the values of keys that are not set, by key in lower case."""

SETTINGS, NODE, PARTITION = DEFAULTS["slurm.conf"], DEFAULTS["node lines"], DEFAULTS["partition lines"]

ONE, TWO = ("yes", "true", "up", "1"), ("no", "false", "down", "0")
_KEYS = [*SLURM_CONF.items(), *CGROUP_CONF.items(), *keys.NODE.items(), *keys.PARTITION.items()]

TRUTHS = frozenset((*(name for name, key in _KEYS if key.kind == "truth"), "autobasepath", "shared"))
"""Keys that are true or false, in the spellings of `ONE` and `TWO` (parse_config.c); two of job_container.conf."""

TIMES = frozenset(name for name, key in _KEYS if key.kind == "time")
"""Keys with a time in one of the formats of slurm.conf(5), MaxTime."""

WORDS = frozenset(
    (
        *("clustername", "enforcepartlimits", "healthchecknodestate", "logtimeformat", "oversubscribe", "preemptmode"),
        *("priorityusageresetperiod", "propagateresourcelimits", "state"),
        *("accountingstorageenforce", "debugflags", "priorityflags", "prologflags", "selecttypeparameters"),
    )
)
"""Keys whose values Slurm compares without case."""

OPTIONS = frozenset(
    (
        *("accountingstorageenforce", "accountingstorageflags", "accountingstoreflags", "accountingstoragetres"),
        *("communicationparameters", "debugflags", "grestypes", "healthchecknodestate", "launchparameters"),
        *("preemptmode", "priorityflags", "prologflags", "propagateresourcelimits", "propagateresourcelimitsexcept"),
        *("schedulerparameters", "selecttypeparameters", "slurmctldparameters", "slurmdparameters"),
        *("allowaccounts", "allowallocnodes", "allowgroups", "allowqos", "denyaccounts", "denyqos", "feature"),
    )
)
"""Keys with a list whose order says nothing."""

LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
LOG_LEVELS = frozenset(("slurmctlddebug", "slurmddebug"))
"""Keys with a level of the log, as a word or by its number in `LEVELS` (log.c)."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
"""The suffixes of counts of generic resources."""

MOST_CPUS = 65533  # 16 bits, less the two numbers that mean something else (slurm.h: NO_VAL16, INFINITE16)
NUMBER_OF_CPUS = re.compile(r"[1-9][0-9]{0,4}")

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
    if key in LOG_LEVELS:
        return LEVELS[int(low)] if low.isdecimal() and int(low) < len(LEVELS) else low
    if key == "gres":
        return ",".join(sorted(map(gres_entry, filter(None, low.split(",")))))
    text = low if key in WORDS or low == defaults.get(key) else text
    return ",".join(sorted(one.strip() for one in text.split(","))) if key in OPTIONS else text


def gres_entry(entry: str) -> str:
    """An entry of a node's Gres with its count as a number: `name[:type][:no_consume]:count` (slurm.conf(5))."""
    name, _, last = entry.strip().rpartition(":")
    count = re.fullmatch(r"(\d+)([KMGTP]?)", last.upper())
    return f"{name}:{int(count[1]) * UNITS[count[2]]}" if name and count else f"{entry.strip()}:1"


def seconds(text: str) -> str:
    """A time in seconds, from any form that Slurm takes; other texts as they are."""
    found = seconds_of(text)
    return text if found is None else str(found)


def node_meanings(line: Mapping[str, str]) -> Mapping[str, str]:
    """A node line's values (keys as `socketsperboard`, `cpus`), defaults, and Slurm's layout (read_config.c)."""
    found = {key: meaning(key, value, NODE) for key, value in {**NODE, **line}.items()}
    with suppress(ValueError, ZeroDivisionError):
        boards, cores, threads = (int(line.get(key) or 1) for key in ("boards", "corespersocket", "threadspercore"))
        each = boards * cores * threads
        sockets = int(line.get("socketsperboard") or 0) or max(int(line.get("cpus") or 0) // each, 1)
        layout = {"boards": boards, "corespersocket": cores, "threadspercore": threads, "socketsperboard": sockets}
        layout["cpus"] = int(line.get("cpus") or 0) or each * sockets
        found.update({key: str(value) for key, value in layout.items()})
    return found


def too_many_cpus(line: Mapping[str, str]) -> str:
    """Why slurmctld cannot count the processors that a node line (keys in any case) says; empty if it can.

    It multiplies sockets, cores and threads, and keeps what comes of it in 16 bits (read_config.c, node_conf.c). With
    65536 cores it runs, writes CPUs=0 into its state, and never starts again.

    >>> too_many_cpus({"Sockets": "256", "CoresPerSocket": "256"})
    '256 sockets of 256 cores of 1 threads are 65536 CPUs; slurmctld counts at most 65533 of a node'
    """
    told = {key.lower(): value for key, value in line.items()}
    counts = dict.fromkeys(("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"), 1)
    for key in (*counts, "cpus", "procs"):
        value = told.get(key, "1")
        if not (NUMBER_OF_CPUS.fullmatch(value) and int(value) <= MOST_CPUS):
            return f"{key}={value[:40]!a} is not a number from 1 to {MOST_CPUS}"
        counts[key] = int(value)
    sockets = counts["sockets"] if "socketsperboard" not in told and "sockets" in told else 0
    sockets = sockets or counts["boards"] * counts["socketsperboard"]
    cores, threads = counts["corespersocket"], counts["threadspercore"]
    if (product := sockets * cores * threads) <= MOST_CPUS:
        return ""
    return (
        f"{sockets} sockets of {cores} cores of {threads} threads are {product} CPUs; slurmctld counts at most "
        f"{MOST_CPUS} of a node"
    )


def partition_meanings(line: Mapping[str, str]) -> Mapping[str, str]:
    """The values of a partition line, with the defaults."""
    return {key: meaning(key, value, PARTITION) for key, value in {**PARTITION, **line}.items()}


def is_same_setting(
    key: str, actual: str, wanted: str, is_same_host: SameHost, defaults: Mapping[str, str] = SETTINGS
) -> bool:
    """Whether two values of a setting (key in lower case) mean the same; `actual` is empty if the file has none.

    `is_same_host`: knows which names and addresses are one host's, and which name and number one user's.
    """
    one, other = (meaning(key, value, defaults) for value in (actual, wanted))
    if key in ("slurmuser", "slurmduser"):
        return is_same_host(one.partition("(")[0], other.partition("(")[0])
    if key == "accountingstoragehost":
        return is_same_host(one, other)
    if key == "slurmctldhost" and one.count(",") == other.count(","):
        return all(
            is_same_controller(*pair, is_same_host) for pair in zip(one.split(","), other.split(","), strict=True)
        )
    return one == other


def is_same_controller(one: str, other: str, is_same_host: SameHost) -> bool:
    """Whether two controllers as in SlurmctldHost, such as `c1` and `c1(10.0.0.1)`, are one.

    slurmctld knows its host by the short name as well as by the long one. An IPv6 address is another thing than an IPv4
    address of the same host: steps that run may know IPv4 alone.
    """
    pairs = (text.rstrip(")").partition("(")[::2] for text in (one, other))
    (name, address), (other_name, other_address) = ((name, "" if is_loopback(at) else at) for name, at in pairs)
    is_same_family = (":" in address) == (":" in other_address)
    is_same_name = (
        name.partition(".")[0] == other_name.partition(".")[0] or is_loopback(name) or is_loopback(other_name)
    )
    return is_same_name and is_same_family and is_same_place(address or name, other_address or other_name, is_same_host)


def is_same_place(one: str, other: str, is_same_host: SameHost) -> bool:
    """Whether names or addresses mean one place to daemons; a host's second address is another network."""
    is_any = NO_ADDRESS in (family(one), family(other)) or is_loopback(one) or is_loopback(other)
    return (is_any or canonical(one) == canonical(other)) and is_same_host(one, other)
