"""Users and groups from a directory, by SSSD on all hosts: its settings, PAM and NSS, and who may log in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from slurmfab.base.paths import SSSD_CONF, UNIT_FILES
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.directory import MIN_ID, NUMBERS_END, Sssd
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.rules.people import (
    OF_PACKAGES,
    POWERFUL_GROUPS,
    PREFIXES,
    SERVICES,
    SYSTEM_GROUPS,
    SYSTEM_NAMES,
)
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import SSSD
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.identities.powerful_users import BY_RULE
from slurmfab.on_hosts.agent.people import ldap_probe
from slurmfab.on_hosts.agent.people.directory_service import (
    CA,
    HOMES_FILE,
    OF,
    UNIT,
    DirectoryService,
    homes_text,
)
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

ORDER = "directory-order"  # what hosts note the file as that has SSSD start before Slurm
DROP_IN = f"{UNIT_FILES}/{UNIT}.service.d/slurmfab-directory.conf"
BEFORE_SLURM = """\
# Made by slurmfab from the cluster file, for directory; edits here are overwritten.
[Unit]
# Debian 12's units of Slurm do not say so themselves, and slurmctld would not know users at its start.
Before=slurmctld.service slurmdbd.service slurmd.service
"""

DAEMONS = ("slurm", "munge")
SYSTEMS = ((60001, 60577, "systemd"), (61184, 65519, "systemd"), (65534, 65535, "nobody"))
"""UIDs and GIDs that systemd gives to services as they start (DynamicUser=, systemd-homed), and those of nobody."""

Kind = Literal["uid", "gid"]
KINDS: tuple[Kind, Kind] = ("uid", "gid")
FIRST_OF_PEOPLE, NOBODY = 1000, 65534
LISTED = re.compile(r"[^\x00-\x1f\x7f,@]+")
"""A name that SSSD's lists can hold; filters of searches can hold any."""

SUBORDINATE = "subordinate to "  # what hosts say of ranges, before whose they are


OPTIONS = {
    "default_shell": "/bin/bash",
    "entry_cache_timeout": "600",  # seconds after which SSSD asks again; its own 90 minutes are long for new members
    "ldap_network_timeout": "3",
    "ldap_opt_timeout": "5",
    "max_id": str(NUMBERS_END - 1),
    # Names of digits alone are none: chown(1) and others would take 0 for the user of that name, and not for root.
    "re_expression": r"^(?![0-9]+(@|$))((?P<name>.+)@(?P<domain>[^@]*)|(?P<name>[^@]+))$",
    # Rules in the directory say who may become root, and what root mounts.
    "sudo_provider": "none",
    "autofs_provider": "none",
}
"""What a site may have otherwise."""

OTHERS = ("ldap_netgroup_search_base", "ldap_service_search_base")
NOTHING = "{base}?base?(!(objectClass=*))"
"""Where SSSD's package has NSS ask for netgroups and services, too, which rules of sudo and others may name."""

SILENT = {"user": (*SYSTEM_NAMES, *SERVICES), "group": (*POWERFUL_GROUPS, *SERVICES)}
"""Names that directories have for users and groups of their own kind: no host sees them, and nothing tells of them."""


class Guarded(NamedTuple):
    """What users or groups of the directory may not have."""

    numbers: tuple[tuple[int, int, str], ...]  # the first and the last of a range, and whose they are
    names: tuple[str, ...]  # in any case of letters


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """SSSD's settings, and that PAM and NSS ask it; their removal where the cluster file has no directory.

    A change of an earlier run that was never proved, and that the host could not take back itself, is taken back first.
    """
    if plan_input.cluster.directory is not None:
        asked = guard(plan_input.cluster, plan_input.lock, host, plan_input.facts[host])
        return LoginGuard(proved=False), DirectoryService(OF, files(plan_input, host), asked)
    return (LoginGuard(proved=False), DirectoryService(OF, ())) if plan_input.owns(host, OF) else ()


def service(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """SSSD, started at boot, before Slurm; its end where it was slurmfab's and the cluster file has no directory."""
    if plan_input.cluster.directory is not None:
        order = owned(plan_input, host, ORDER, (OwnedFile(DROP_IN, BEFORE_SLURM),))
        return (*order, UnitsLoaded(ORDER, (UNIT,), (DROP_IN,)), Service(UNIT, watches=(SSSD_CONF, CA)))
    order = owned(plan_input, host, ORDER, ())
    if not order:
        return ()
    is_ours = SSSD[0] in plan_input.facts[host].added_packages
    return (*((Service(UNIT, running=False),) if is_ours else ()), *order, UnitsLoaded(ORDER, (UNIT,)))


def files(plan_input: PlanInput, host: str) -> tuple[OwnedFile, ...]:
    """The files of SSSD on a host."""
    directory = plan_input.cluster.directory
    assert directory is not None, "there are files for a directory alone"
    folders = homes(plan_input, directory.sssd)
    return (
        OwnedFile(CA, plan_input.directory_ca),
        OwnedFile(SSSD_CONF, settings(plan_input, host, directory.sssd), mode=0o600, secret=True),
        *((OwnedFile(HOMES_FILE, homes_text(folders)),) if folders else ()),
    )


def homes(plan_input: PlanInput, sssd: Sssd) -> tuple[str, ...]:
    """The folders in which the first login makes homes."""
    if sssd.homes == "server":
        return ()
    if isinstance(sssd.homes, tuple):
        return sssd.homes
    own = (sssd.options.get("override_homedir", ""), sssd.options.get("fallback_homedir", ""))
    named = (one[: -len("/%u")] for one in own if one.endswith("/%u") and "%" not in one[: -len("/%u")])
    return tuple(dict.fromkeys(("/home", *((plan_input.cluster.homes,) if plan_input.cluster.homes else ()), *named)))


def settings(plan_input: PlanInput, host: str, sssd: Sssd) -> str:
    """The text of sssd.conf(5), with the password of the entry as which SSSD searches."""
    facts = plan_input.facts[host]
    users, groups = of_both(plan_input.cluster, plan_input.lock, host, facts)
    bases = {"ldap_schema": "ad"} if sssd.type == "ad" else search_bases(sssd, users, groups)
    values = {
        "sssd": sssd,
        "ca": CA,
        "password": plan_input.directory_password,
        "min_id": sssd.min_id or MIN_ID,
        "options": {**OPTIONS, **dict.fromkeys(OTHERS, NOTHING.format(base=sssd.base)), **sssd.options, **bases},
        "homes": plan_input.cluster.homes or "/home",
        "system_users": listed((*users.names, *own_names(facts.uids), *sssd.ignored)),
        "system_groups": listed((*groups.names, *sssd.ignored)),
    }
    return fill("sssd.conf", values)


def own_names(names: Mapping[int, str]) -> tuple[str, ...]:
    """The names of a host's own system users or groups."""
    return tuple(names[one] for one in sorted(names) if one < FIRST_OF_PEOPLE and names[one])


def listed(names: Iterable[str]) -> list[str]:
    """Those of the names that a list of SSSD's can hold, each once."""
    return [name for name in dict.fromkeys(names) if LISTED.fullmatch(name)]


def of_both(cluster: Cluster, lock: Lock, host: str, facts: HostFacts | None) -> tuple[Guarded, Guarded]:
    """What users may not have, and what groups may not have."""
    users, groups = (guarded(cluster, lock, kind, host, facts) for kind in KINDS)
    if cluster.directory and cluster.directory.sssd.options.get("auto_private_groups", "false").lower() != "false":
        # Then the number of a user is that of a group, too (sssd.conf(5)).
        users = users._replace(numbers=tuple(sorted({*users.numbers, *groups.numbers})))
    return users, groups


def guarded(cluster: Cluster, lock: Lock, kind: Kind, host: str = "", facts: HostFacts | None = None) -> Guarded:
    """The numbers and names that are taken on any host: jobs go from one to others, and are its own users there."""
    assert cluster.directory is not None, "they are asked for with a directory"
    sssd = cluster.directory.sssd
    later = (*OF_PACKAGES, *(SYSTEM_GROUPS if kind == "gid" else ()))
    names = (
        *(SYSTEM_NAMES if kind == "uid" else POWERFUL_GROUPS),
        *SERVICES,
        *(name for name in later if name not in sssd.admins),
    )
    ids = ((number, number, name.rpartition(".")[0]) for name, number in lock.ids.items() if name.endswith(f".{kind}"))
    found, own = [*SYSTEMS, *ids], list[str]()
    of_host = {name: one.own_numbers for name, one in lock.hosts.items()}
    of_host |= {host: facts.own_numbers} if facts else {}
    for name, rows in of_host.items():
        taken = [row for row in rows if row[0] == kind and row[1:3] != (NOBODY, NOBODY)]
        taken = [row for row in taken if row[3] != BY_RULE or f"#{row[1]}" not in sssd.admins]
        found += [(first, last, f"{whose} of {name}") for _, first, last, whose in taken]
        named = [row for row in taken if row[3] != BY_RULE and not row[3].startswith(SUBORDINATE)]
        own += [whose for _, first, _, whose in named if first or whose not in sssd.admins]
    if kind == "gid" and facts:
        own += own_names(facts.gids)
    numbers = {row[:2]: row for row in reversed(found) if row[1] >= FIRST_OF_PEOPLE}
    return Guarded(tuple(sorted(numbers.values())), tuple(dict.fromkeys((*names, *own))))


def guard(cluster: Cluster, lock: Lock, host: str = "", facts: HostFacts | None = None) -> str:
    """What a host, which adds its own numbers, asks the directory for, in JSON (`ldap_probe.collisions`)."""
    assert cluster.directory is not None, "they are asked for with a directory"
    sssd = cluster.directory.sssd
    users, groups = of_both(cluster, lock, host, facts)
    above = (NUMBERS_END, 1 << 62, "none: programs take it for a negative number")
    below = (-1, -1, "") if sssd.min_id else (-1 << 62, MIN_ID - 1, "")
    is_ldap, of = sssd.type == "ldap", (("user", users), ("group", groups))
    return json.dumps({
        **{kind: [*one.numbers, above, below] for kind, one in (("uid", users), ("gid", groups))},
        "names": {kind: [name.lower() for name in one.names if name not in SILENT[kind]] for kind, one in of},
        "silent": {kind: [name.lower() for name in names] for kind, names in SILENT.items()},
        "prefixes": PREFIXES,
        "ignored": sssd.ignored,
        "meant": sssd.admins,
        "searches": {kind: searches(sssd, kind) for kind in ("user", "group")} if is_ldap else {},
        "attributes": {kind: attributes(sssd, kind) for kind in ("user", "group")},
    })  # fmt: skip


def attributes(sssd: Sssd, kind: str) -> dict[str, str]:
    """The directory's own names of what SSSD asks for of a user or a group."""
    wanted = {"name": "uid" if kind == "user" else "cn", "gid": "gidNumber"}
    named = {**wanted, "uid": "uidNumber"} if kind == "user" else wanted
    keys = {"name": "name", "uid": "uid_number", "gid": "gid_number"}
    return {one: sssd.options.get(f"ldap_{kind}_{keys[one]}", otherwise) for one, otherwise in named.items()}


def searches(sssd: Sssd, kind: str) -> list[tuple[str, str, str]]:
    """Base, scope and filter of the places where users or groups are searched (sssd-ldap(5), ldap_search_base)."""
    parts = [part.strip() for part in sssd.options.get(f"ldap_{kind}_search_base", sssd.base).split("?")]
    parts += [""] * (-len(parts) % 3)
    return [
        (base, scope or "subtree", more if not more or more.startswith("(") else f"({more})")
        for base, scope, more in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def search_bases(sssd: Sssd, users: Guarded, groups: Guarded) -> dict[str, str]:
    """Where users and groups are searched, without those that have a number or a name which is taken.

    SSSD's min_id keeps no user out of a group with a lower number, and its filter_groups no user out of SUDO, which is
    sudo for sudoers(5) (seen with 2.8 and 2.10). Filters apply where SSSD searches, so nothing is dereferenced.
    """
    user, group = attributes(sssd, "user"), attributes(sssd, "group")
    of_user = taken_numbers(sssd, user["uid"], users) + taken_numbers(sssd, user["gid"], groups)
    without = {
        "user": of_user + taken_names(sssd, user["name"], users),
        "group": taken_numbers(sssd, group["gid"], groups) + taken_names(sssd, group["name"], groups),
    }
    bases = {
        f"ldap_{kind}_search_base": "?".join(
            f"{base}?{scope}?(&{more}(!(|{some})))" for base, scope, more in searches(sssd, kind)
        )
        for kind, some in without.items()
    }
    return {**bases, "ldap_deref_threshold": "0"}


def taken_numbers(sssd: Sssd, attribute: str, without: Guarded) -> str:
    """Filters for entries with numbers that are taken (RFC 4515), one after the other."""
    floor = sssd.min_id or MIN_ID
    ranges = [f"({attribute}<={floor - 1})", f"({attribute}>={NUMBERS_END})"]
    for first, last, _ in without.numbers:
        if first == last and first >= floor:
            ranges.append(f"({attribute}={first})")
        elif last >= floor:
            ranges.append(f"(&({attribute}>={first})({attribute}<={last}))")
    return "".join(dict.fromkeys(ranges))


def taken_names(sssd: Sssd, attribute: str, without: Guarded) -> str:
    """Filters for entries with names that are taken or not plain; attributes of names know no case of letters."""
    names = map(ldap_probe.escaped, (*without.names, *sssd.ignored))
    odd = ldap_probe.odd_parts("".join(sssd.admins))
    meant = "".join(f"(!({attribute}={ldap_probe.escaped(one)}))" for one in sssd.admins if one.startswith(PREFIXES))
    prefixes = (f"(&({attribute}={prefix}*){meant})" if meant else f"({attribute}={prefix}*)" for prefix in PREFIXES)
    return "".join((*(f"({attribute}={name})" for name in (*names, *odd)), *prefixes))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:  # noqa: ARG001 - as of all capabilities
    """SSSD, and what asks it for users, groups and logins."""
    return SSSD if plan_input.cluster.directory is not None else ()
