"""sshd's settings for logins that hosts vouch for, which are refused for users who are or may become root here.

sshd itself looks at groups, at each login. Which users have a UID below 1000, and whom rules of sudo or doas name, it
cannot know, so the host writes these names among its settings whenever it compares or changes them.
"""

from __future__ import annotations

import re
from typing import ClassVar, Set

from slurmfab.on_hosts.agent.core.resource import Context, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.sshd_files import SshdFiles
from slurmfab.on_hosts.agent.identities.powerful_users import EVERYBODY, has_rules_elsewhere, powerful

REFUSED_HERE = "# Refused here, too:\n"
"""The line of a file behind which the host puts those whom it refuses by its own users and rules."""

ODD = re.compile(r"[^A-Za-z0-9_.\\@+$-]")
"""A character of a name that means something else in sshd_config(5); a question mark stands for any."""


class HostbasedLogins(SshdFiles):
    """Files that sshd reads, with the host's own powerful users and groups in them."""

    kind: ClassVar[str] = "hostbased-logins"

    def here(self, context: Context) -> SshdFiles:
        """The same files with this host's names."""
        own = REFUSED_HERE + refusals(context)
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


def refusals(context: Context) -> str:
    """The blocks of sshd_config(5) that refuse users with a UID below 1000, and whom rules of sudo or doas name.

    Everybody is refused where sudo has rules of a directory: whom these name, it tells of one user at a time.
    """
    found = powerful(context)
    users = {EVERYBODY} if has_rules_elsewhere(context) else found.users
    return block("User", users) + block("Group", found.groups)


def block(kind: str, refused: Set[str]) -> str:
    """The block that refuses users, or members of groups; empty for none."""
    patterns = EVERYBODY if EVERYBODY in refused else ",".join(sorted(ODD.sub("?", name) for name in refused if name))
    return "Match %s %s\n    HostbasedAuthentication no\n" % (kind, patterns) if patterns else ""
