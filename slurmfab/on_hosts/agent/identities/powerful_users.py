"""Who is or may become root on a host, by its own users and rules: for logins that others vouch for, and for notebooks.

What a group of the system's, such as docker, lets its members do, is not said here: the deployer names these groups.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.reading import entries, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user, group_name, user_name

FIRST_OF_PEOPLE = 1000  # the first UID that is a person's (login.defs(5))
SUDOERS, DOAS = ("/etc/sudoers", "/etc/sudoers-rs"), "/etc/doas.conf"
EVERYBODY = "*"
NUMBER, LAST = re.compile("#[0-9]+"), 1 << 32
BY_RULE = "a rule of sudo or doas"  # whose a number is that it names

SUDOS = ("sudo", "sudo-rs", "sudo.ws")
"""The programs that may let users become root by rules of sudo; a host can have several, each with its own reading."""

READERS = ("cvtsudoers", "cvtsudoers.ws")
"""Names of the program of sudo's that tells its rules. Where sudo is sudo-rs, as on Ubuntu 26.04, it has the second."""

SUDO_SECONDS = 20.0
MAY_NOT = r"User %s is not allowed to run sudo on \S+\."  # what each of them says of who may run nothing

ELSEWHERE = re.compile(
    r"^\s*(?:sudoers:[^#\n]*\b(?!files\b)[a-z]+|Plugin\s(?:.|\\\n)*sudoers_file)", re.MULTILINE | re.IGNORECASE
)
"""A line of nsswitch.conf(5) or sudo.conf(5) by which sudo has rules from elsewhere than /etc/sudoers."""

OPTIONS = ("-c", "/dev/null", "-f", "json")  # without /etc/cvtsudoers.conf, which may leave out rules
GROUP_PLUGIN = '"group_plugin":'
"""A key of what cvtsudoers(1) prints where sudo asks a plugin for members of groups: sudo alone knows them then."""

OF_DOAS = re.compile(
    r"permit\s+(?:(?:(?:nopass|nolog|persist|keepenv)\s+)|setenv\s*\{[^}]*\}\s*)*"
    r"((?:\"(?:\\.|[^\"\\\n])*\"|\\.|[^\s\"\\#])+)"
)
"""A rule of doas.conf(5), up to its user or group."""

UNCLEAR = re.compile(r'\\[#}]|"[^"\n]*[#}][^"\n]*"')

IN_NETGROUP = re.compile(r"\(([^,()]*),([^,()]*),([^,()]*)\)")
"""A member of a netgroup: host, user and domain; without a user, it is everybody (netgroup(5))."""

NETGROUP_SECONDS = 20.0


class Powerful(NamedTuple):
    """Names of users and groups; a question mark in one stands for any character, and `*` alone for everybody."""

    users: Set[str]
    groups: Set[str]


def powerful(context: Context, *, is_numbered: bool = False) -> Powerful:
    """The users with a UID below 1000, and the users and groups whom rules of sudo or doas name.

    `is_numbered`: whether those whom a rule names by number, and whom the host's own files do not know, are told as
    `#20000`, and not by the name that a directory has for it.
    """
    found = named_by_rules(context, is_numbered=is_numbered)
    own = {one[0] for one in entries(context.path("/etc/passwd")) if is_system_id(one[2:3])}
    return Powerful(own | found.users, found.groups)


def named_by_rules(context: Context, *, is_numbered: bool = False) -> Powerful:
    """The users and groups whom rules of sudo or doas name, as the rules spell them."""
    users: Set[str] = set()
    groups: Set[str] = set()
    for name in named_by_sudo(context) | named_by_doas(context):
        if name.startswith("%#"):
            number = str(int(name[2:]))
            groups |= with_id(context, "/etc/group", number)
            groups.add("#" + number if is_numbered else group_name(context, int(number)))
        elif name.startswith("#"):
            number = str(int(name[1:]))
            users |= with_id(context, "/etc/passwd", number)
            users.add("#" + number if is_numbered else user_name(context, int(number)))
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
    here = powerful(context)
    alike = {user.pw_name, user_name(context, user.pw_uid), *with_id(context, "/etc/passwd", str(user.pw_uid))}
    others = more.users | here.users | {one for name in more.groups | here.groups for one in members_in(context, name)}
    # Two names may have one UID, in a directory, too, and for the kernel these are one user.
    same = {name for name in others if getattr(find_user(context, name), "pw_uid", -1) == user.pw_uid}
    same -= {user.pw_name}
    group = next((one for one in groups if one in more.groups or among(one, here.groups)), "")
    if EVERYBODY in here.users:
        asked = " ".join((reader(context), *OPTIONS, SUDOERS[0]))
        return "rules of sudo or doas on this host name everybody, or cannot be read (%s)" % asked
    if alike & more.users:
        return "the cluster file lets it become root"
    if any(among(name, here.users) for name in alike):
        return "rules of sudo or doas on this host name it"
    if group or same:
        return "it is in the group %s" % group if group else "it has the UID of %s, who may become root" % min(same)
    return why_by_sudo(context, alike)


def members_in(context: Context, group: str) -> List[str]:
    """The users whom a group lists."""
    if context.root == "/":
        try:
            return grp.getgrnam(group).gr_mem
        except KeyError:
            return []
    return [
        name for one in entries(context.path("/etc/group")) if one[0] == group for name in one[3].split(",") if name
    ]


def named_without_entry(root: str, more: Iterable[str]) -> List[Tuple[str, int, str]]:
    """The users (`uid`) and groups (`gid`) without an entry in the host's own files who are powerful all the same.

    Whoever has such a name, which comes with the number 0, or such a number in a directory is it. `more`: further
    powerful groups.
    """
    context = Context(root)
    here = powerful(context, is_numbered=True)
    users, groups = ({one[0] for one in entries(context.path("/etc/" + file))} for file in ("passwd", "group"))
    strong = {*more, *here.groups}
    listed = {name for one in entries(context.path("/etc/group")) if one[0] in strong for name in one[-1].split(",")}
    missing = (("uid", (here.users | listed) - users), ("gid", here.groups - groups))
    found = [(kind, name) for kind, names in missing for name in sorted(names - {EVERYBODY, ""}) if name.isprintable()]
    numbers = [(kind, int(name[1:])) for kind, name in found if NUMBER.fullmatch(name)]
    return [
        *((kind, 0, name) for kind, name in found if not NUMBER.fullmatch(name)),
        *((kind, number, BY_RULE) for kind, number in numbers if FIRST_OF_PEOPLE <= number < LAST),
    ]


def among(name: str, patterns: Set[str]) -> bool:
    """Whether a name is one of these, as sudo and sshd compare names; upper and lower case are alike for some."""
    if EVERYBODY in patterns:
        return True
    texts = (re.escape(one).replace(r"\?", ".") for one in patterns)
    return any(re.fullmatch(text, name, re.IGNORECASE) for text in texts)


def is_system_id(field: List[str]) -> bool:
    """Whether a field is a number below 1000."""
    return bool(field) and field[0].isdecimal() and int(field[0]) < FIRST_OF_PEOPLE


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
    """The users, `%groups` and `#numbers` that rules of doas permit anything, whatever it is; `*` for all.

    It is everybody where a comment or a block may not end where it seems to.
    """
    text = read_text(context.path(DOAS))
    if UNCLEAR.search(text):
        return {EVERYBODY}
    found: Set[str] = set()
    for line in re.sub("#.*", "", text).replace("\\\n", "").split("\n"):
        rule = OF_DOAS.match(line.strip())
        if rule:
            name = re.sub(r'\\(.)|"', r"\1", rule.group(1))
            bare = name.lstrip(":")
            found.add(("%" if name != bare else "") + ("#" if bare.isdecimal() else "") + bare)
    return found


def named_by_sudo(context: Context) -> Set[str]:
    """The users, `%groups`, `+netgroups` and `#numbers` that rules of sudo name, for whichever host; `*` for all.

    sudo's own program reads the rules (cvtsudoers(1)): they include files and spell names in more ways than one. Where
    it cannot, nobody knows who is not among them, and that is everybody.
    """
    found: Set[str] = set()
    for path in (path for path in map(context.path, SUDOERS) if os.path.exists(path)):
        try:
            found |= named_in(context, path)
        except UNREADABLE:
            return {EVERYBODY}
    return {name if ODD.match(name) is None and name != "ALL" else EVERYBODY for name in found}


def named_in(context: Context, path: str) -> Set[str]:
    """The names in one file of rules of sudo, with all that it includes. Raises one of `UNREADABLE`."""
    told = context.must((reader(context), *OPTIONS, path), seconds=SUDO_SECONDS)
    rules = json.loads(told)
    members: List[Dict[str, Any]] = [one for rule in rules.get("User_Specs", ()) for one in rule["User_List"]]
    found = {MEMBERS[kind] % name for kind, name in without_aliases(members, rules.get("User_Aliases", {}))}
    return found | ({EVERYBODY} if GROUP_PLUGIN in told else set())


UNREADABLE = (ResourceFailed, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def unreadable(context: Context) -> str:
    """The file with rules that cannot be read, so that nobody knows whom they name; empty if all can."""
    if UNCLEAR.search(read_text(context.path(DOAS))):
        return DOAS
    places = ["%s/%s" % (folder, name) for folder in SYSTEM_PATH.split(":") for name in SUDOS]
    has_sudo = any(os.path.exists(context.path(place)) for place in places)
    for path in (path for path in SUDOERS if has_sudo and os.path.exists(context.path(path))):
        try:
            named_in(context, context.path(path))
        except UNREADABLE:
            return path
    return ""


def without_aliases(
    members: List[Dict[str, Any]], aliases: Mapping[str, List[Dict[str, Any]]]
) -> Iterator[Tuple[str, str]]:
    """Yield kind and name of each member of rules, with those of aliases; an alias that is none is a user for sudo.

    cvtsudoers -e of sudo 1.9.13 leaves out such a one.
    """
    for kind, name in ((kind, name) for one in members for kind, name in one.items() if kind != "negated"):
        if kind == "useralias" and name in aliases:
            yield from without_aliases(aliases[name], aliases)
        else:
            yield kind, name


def reader(context: Context) -> str:
    """The program that tells rules of sudo; the usual name if the host has none."""
    places = ((name, context.path("%s/%s" % (folder, name))) for name in READERS for folder in SYSTEM_PATH.split(":"))
    return next((name for name, path in places if os.access(path, os.X_OK)), READERS[0])


ODD = re.compile(r"%?#(?!\d+$)")  # a number that is none

MEMBERS = {
    "username": "%s", "useralias": "%s", "userid": "#%s", "usergroup": "%%%s", "usergid": "%%#%s",
    "nonunixgroup": "%%%s", "nonunixgid": "%%#%s", "netgroup": "+%s",
}  # fmt: skip
"""How sudoers(5) writes what cvtsudoers(1) calls so in JSON. Who is named behind an exclamation mark counts, too: a
second one, or one before an alias, makes it the contrary."""


def has_rules_elsewhere(context: Context) -> bool:
    """Whether sudo has rules that `powerful` does not see: those of a directory, or of another file."""
    has_sudo = any(os.path.exists(context.path(path)) for path in SUDOERS)
    texts = (read_text(context.path(path)) for path in ("/etc/nsswitch.conf", "/etc/sudo.conf"))
    return has_sudo and any(map(ELSEWHERE.search, texts))


def why_by_sudo(context: Context, names: Iterable[str]) -> str:
    """Why a user, by one of its names, may run something by sudo's own word; empty where sudo says that it may not."""
    import shutil  # notebooks alone ask

    programs = [one for one in SUDOS if context.root == "/" and shutil.which(one, path=SYSTEM_PATH)]
    if not programs and any(os.path.exists(context.path(path)) for path in SUDOERS):
        return "there are rules of sudo on this host, and no program sudo that could be asked about it"
    for program, name in ((program, name) for program in programs for name in sorted(names)):
        try:
            said = context.run((program, "-n", "-l", "-U", name), seconds=SUDO_SECONDS).stdout.decode(errors="replace")
        except ResourceFailed as error:
            said = str(error)
        if not re.fullmatch(MAY_NOT % re.escape(name), said.strip()):
            return "%s does not say that it may run nothing (%s -l -U %s)" % (program, program, name)
    return ""
