"""Who is or may become root on a host, by its own users and rules: for logins that others vouch for, and for notebooks.

What a group of the system's, such as docker, lets its members do, is not said here: the deployer names these groups.
"""

from __future__ import annotations

import os
import pwd
import re
from typing import Iterator, List, NamedTuple, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.core.reading import entries, names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities.users_and_groups import group_name, user_name

FIRST_OF_PEOPLE = 1000  # the first UID that is a person's (login.defs(5))
SUDOERS, DOAS = ("/etc/sudoers", "/etc/sudoers-rs"), "/etc/doas.conf"
EVERYBODY = "*"
MOST_FILES, DEEPEST = 1000, 20
"""The most files with rules of sudo's that are read, and how many may include each other in a row."""

INCLUDE = re.compile(r"[#@]include(dir)?\s+(.+)")
OTHER = re.compile(r"(?:Defaults|Host_Alias|Cmnd_Alias|Cmd_Alias|Runas_Alias)\b")  # begins a line that names no users

USERS = "User_Alias"
COMMENT = re.compile(r"#(?!\d).*")  # behind a number sign with a digit there is a UID or a GID

OF_DOAS = re.compile(r"permit\s+(?:(?:nopass|nolog|persist|keepenv|setenv\s*\{[^}]*\})\s+)*(:?)([^\s#]+)")
"""A rule of doas.conf(5), up to its user or group."""

IN_NETGROUP = re.compile(r"\(([^,()]*),([^,()]*),([^,()]*)\)")
"""A member of a netgroup: host, user and domain; without a user, it is everybody (netgroup(5))."""

NETGROUP_SECONDS = 20.0


class Powerful(NamedTuple):
    """Names of users and groups; a question mark in one stands for any character, and `*` alone for everybody."""

    users: Set[str]
    groups: Set[str]


def powerful(context: Context) -> Powerful:
    """The users with a UID below 1000, and the users and groups whom rules of sudo or doas name."""
    users = {one[0] for one in entries(context.path("/etc/passwd")) if is_system_id(one[2:3])}
    groups: Set[str] = set()
    for name in named_by_sudo(context) | named_by_doas(context):
        if name.startswith("%#"):
            groups |= {*with_id(context, "/etc/group", name[2:]), group_name(context, int(name[2:]))}
        elif name.startswith("#"):
            users |= {*with_id(context, "/etc/passwd", name[1:]), user_name(context, int(name[1:]))}
        elif name.startswith("%"):
            groups.add(name[1:].lstrip(":"))  # behind a colon, one of a directory's own
        else:
            users |= in_netgroup(context, name[1:]) if name.startswith("+") else {name}
    return Powerful(users, groups)


def why_powerful(context: Context, user: pwd.struct_passwd, groups: Sequence[str], more: Powerful) -> str:
    """Why a user is or may become root on the host; empty if nothing says so.

    `groups`: the user's. `more`: users and groups that may become root here or elsewhere, as the deployer knows.
    """
    if user.pw_uid < FIRST_OF_PEOPLE:
        return "it is a system user"
    alike = {user.pw_name, *with_id(context, "/etc/passwd", str(user.pw_uid))}  # two names may have one UID
    here = powerful(context)
    if alike & more.users:
        return "the cluster file lets it become root"
    if any(among(name, here.users) for name in alike):
        return "rules of sudo or doas on this host name it"
    found = [one for one in groups if one in more.groups or among(one, here.groups)]
    return "it is in the group %s" % found[0] if found else ""


def among(name: str, patterns: Set[str]) -> bool:
    """Whether a name is one of these, as sudo and sshd compare names; upper and lower case are alike for some."""
    if EVERYBODY in patterns:
        return True
    texts = (re.escape(one).replace(r"\?", ".") for one in patterns)
    return any(re.fullmatch(text, name, re.IGNORECASE) for text in texts)


def is_system_id(field: List[str]) -> bool:
    """Whether a field is a number below 1000."""
    return bool(field) and field[0].isdigit() and int(field[0]) < FIRST_OF_PEOPLE


def with_id(context: Context, database: str, number: str) -> Set[str]:
    """The names of the users, or of the groups, with a number."""
    return {one[0] for one in entries(context.path(database)) if one[2:3] == [number]}


def in_netgroup(context: Context, name: str) -> Set[str]:
    """The users of a netgroup and of those in it; none where the host knows none of that name."""
    try:
        shown = context.run(("getent", "netgroup", name), seconds=NETGROUP_SECONDS).stdout.decode(errors="replace")
    except ResourceFailed:  # what sudo does not get to know in time, either
        return set()
    return members_of(shown)


def members_of(shown: str) -> Set[str]:
    """The users of a netgroup, from what getent(1) prints of it; `*` for all."""
    return {user.strip() or EVERYBODY for _, user, _ in IN_NETGROUP.findall(shown) if user.strip() != "-"}


def named_by_doas(context: Context) -> Set[str]:
    """The users, `%groups` and `#numbers` that rules of doas permit anything, whatever it is."""
    found: Set[str] = set()
    for line in read_text(context.path(DOAS)).replace("\\\n", " ").split("\n"):
        rule = OF_DOAS.match(line.strip())
        if rule:
            name = rule.group(2).strip('"')
            found.add(("%" if rule.group(1) else "") + ("#" if name.isdecimal() else "") + name)
    return found


def named_by_sudo(context: Context) -> Set[str]:
    """The users, `%groups`, `+netgroups` and `#numbers` that rules of sudo name; `*` for all."""
    found: Set[str] = set()
    left = [MOST_FILES]
    for line in (line for path in SUDOERS for line in rules(context, path, left)):
        if OTHER.match(line):
            continue
        is_alias = line.startswith(USERS)
        parts = [one.partition("=")[2] for one in line.split(":")] if is_alias else [line.partition("=")[0]]
        for part in parts:
            words = re.sub(r"\s*,\s*", ",", plain(part)).split()
            found |= {word for word in ",".join(words).split(",") if word and word[0] != "!" and word != "ALL"}
            if "ALL" in (words[0].split(",") if words else ()):
                found.add(EVERYBODY)
    return {name for name in found if not name.startswith(("#", "%#")) or name.lstrip("%#").isdecimal()}


def plain(text: str) -> str:
    """Names of sudo's without quotes and backslashes; a space in one is a question mark, as in a pattern of sshd's."""
    quoted = re.sub('"([^"]*)"', lambda found: re.sub(r"\s", "?", found[1]), text)
    return re.sub(r"\\(.)", lambda found: "\\" if found[1] == "\\" else "?", quoted)


def rules(context: Context, path: str, left: List[int], depth: int = 0) -> Iterator[str]:
    """The lines of a file of sudo's with its includes, joined at backslashes; `left` and `depth` bound them."""
    if left[0] <= 0 or depth > DEEPEST:
        return
    left[0] -= 1
    for line in read_text(context.path(path)).replace("\\\n", " ").split("\n"):
        included = INCLUDE.match(line.strip())
        if included:
            for file in files_of(context, path, included.group(2).strip('" '), is_directory=bool(included.group(1))):
                yield from rules(context, file, left, depth + 1)
        else:
            yield COMMENT.sub("", line).strip()


def files_of(context: Context, path: str, place: str, *, is_directory: bool) -> Tuple[str, ...]:
    """The files that a line of another one includes; of a directory those without a dot or `~` (sudoers(5))."""
    place = os.path.join(os.path.dirname(path), place)
    if not is_directory:
        return (place,)
    there = names(context.path(place))
    return tuple(os.path.join(place, name) for name in there if "." not in name and not name.endswith("~"))
