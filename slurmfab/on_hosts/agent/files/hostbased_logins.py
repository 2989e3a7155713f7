"""sshd's settings for logins that hosts vouch for, which are refused for users who are or may become root here.

sshd itself looks at groups, at each login. Which users have a UID below 1000, and whom rules of sudo or doas name, it
cannot know, so the host writes these names among its settings whenever it compares or changes them.
"""

from __future__ import annotations

import re
from itertools import product
from typing import ClassVar, Set

from slurmfab.on_hosts.agent.core.reading import entries, read_text
from slurmfab.on_hosts.agent.core.resource import Context, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.sshd_files import SshdFiles
from slurmfab.on_hosts.agent.identities.powerful_users import (
    EVERYBODY,
    has_rules_elsewhere,
    is_system_id,
    named_by_rules,
)
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user

REFUSED_HERE = "# Refused here, too:\n"
"""The line of a file behind which the host puts those whom it refuses by its own users and rules."""

ODD = re.compile(r"[^A-Za-z0-9_.\\@+$*-]")
"""A character of a name that means something else in sshd_config(5); a question mark stands for any."""


OWN = r"(?m)^Match %s ([^*\s]+)$"  # a line of a file with users or groups of the cluster's
OWN_SERVICES = {"files", "systemd"}  # of nsswitch.conf(5): names of the host's own
OUTER_LETTERS = 4  # at each end of a name: 256 patterns at most, which no group of another purpose is likely to match


class HostbasedLogins(SshdFiles):
    """Files that sshd reads, with the host's own powerful users and groups in them."""

    kind: ClassVar[str] = "hostbased-logins"

    def here(self, context: Context) -> SshdFiles:
        """The same files with this host's names."""
        own = REFUSED_HERE + refusals(context, "\n".join(text for _, text, *_ in self.files))
        files = (OwnedFile(*one) for one in self.files)
        return SshdFiles(self.of, tuple(one._replace(text=one.text.replace(REFUSED_HERE, own)) for one in files))

    def wanted(self, context: Context) -> State:
        """The files, loaded."""
        return self.here(context).wanted(context)

    def actual(self, context: Context) -> State:
        """The same as found."""
        return self.here(context).actual(context)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the files, and have sshd load them. Raises ResourceFailed as for files of sshd's."""
        self.here(context).converge(context, differing)


def refusals(context: Context, text: str = "") -> str:
    """The blocks of sshd_config(5) that refuse users with a UID below 1000, and whom rules of sudo or doas name.

    Everybody is refused where sudo has rules of a directory: whom these name, it tells of one user at a time. `text`:
    the files of sshd, whose own users and groups are refused under further names, too.
    """
    listed, named = [*entries(context.path("/etc/passwd"))], named_by_rules(context)
    own_users, own_groups = ({*",".join(re.findall(OWN % kind, text)).split(",")} for kind in ("User", "Group"))
    users = {one[0] for one in listed if is_system_id(one[2:3])} | spelled(context, named.users, "/etc/passwd")
    # For the kernel, names with one number are one user, or one group. sudo and sshd take the first of them.
    numbers = {str(one.pw_uid) for name in users | own_users for one in (find_user(context, name),) if one}
    users |= {one[0] for one in listed if {*one[2:3]} & numbers}
    listed = [*entries(context.path("/etc/group"))]
    groups = spelled(context, named.groups, "/etc/group")
    numbers = {one[2] for one in listed if one[0] in groups | own_groups and one[2:]}
    groups |= {one[0] for one in listed if {*one[2:3]} & numbers}
    everybody = has_rules_elsewhere(context)
    return block("User", {EVERYBODY} if everybody else users - own_users) + block("Group", groups - own_groups)


def spelled(context: Context, names: Set[str], path: str) -> Set[str]:
    """Names of users or groups, whom rules name, as accounts may spell them: sudo takes upper and lower case as alike.

    sshd tells them apart. `path`: the host's own file of such names. A directory's names are not listed, so where the
    host asks one, there is a pattern for every spelling.
    """
    folded = {name.casefold() for name in names}
    own = {one[0] for one in entries(context.path(path)) if one[0].casefold() in folded}
    if not has_directory(context, path.rpartition("/")[2]):
        return own | names
    patterns = {one for name in names for one in spellings(name)}
    if path == "/etc/passwd" and folded - {name.casefold() for name in own}:
        # A directory knows its users by other names, too, such as with a domain or by mail (sssd.conf(5)).
        patterns |= {"*@*", "*\\*"}
    return own | names | patterns


def has_directory(context: Context, database: str) -> bool:
    """Whether users (`passwd`) or groups (`group`) come from elsewhere than the host's own files (nsswitch.conf(5))."""
    lines = re.findall(r"^\s*%s:([^#\n]*)" % database, read_text(context.path("/etc/nsswitch.conf")), re.MULTILINE)
    return any({*re.sub(r"\[[^\]]*\]", " ", line).split()} - OWN_SERVICES for line in lines)


def spellings(name: str) -> Set[str]:
    """Patterns of sshd's for a name in upper and lower case: the outer letters in both, a question mark for others.

    >>> sorted(spellings("ab1"))
    ['AB1', 'Ab1', 'aB1', 'ab1']
    """
    letters = [place for place, one in enumerate(name) if one.isascii() and one.isalpha()]
    outer = {*letters[:OUTER_LETTERS], *letters[-OUTER_LETTERS:]}
    choices = [
        (one.lower(), one.upper()) if place in outer else "?" if place in letters else one
        for place, one in enumerate(name)
    ]
    return {"".join(one) for one in product(*choices)}


def block(kind: str, refused: Set[str]) -> str:
    """The block that refuses users, or members of groups; empty for none.

    Where a name has another character, the pattern has a question mark for each of its bytes, as sshd compares these.
    """
    patterns = {ODD.sub(lambda odd: "?" * len(odd[0].encode(errors="surrogateescape")), name) for name in refused}
    some = EVERYBODY if EVERYBODY in refused else ",".join(sorted(patterns - {""}))
    return "Match %s %s\n    HostbasedAuthentication no\n" % (kind, some) if some else ""
