"""What keeps a daemon's user out of a host although its key is accepted: files of an administrator, never changed."""

from __future__ import annotations

import grp
import os
import re
from fnmatch import fnmatchcase
from typing import ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user

NOLOGIN = "/etc/nologin"  # while this file exists, only root can log in (pam_nologin(8))

SSHD = ("/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d")
SSHD_ADDITION = "/etc/ssh/sshd_config.d/slurm.conf"
"""Where messages propose to write what lets the user in; keywords in several files add up (sshd_config(5))."""

LISTED = re.compile(r"^\s*(?:allow|deny)(?:users|groups)\b", re.I | re.M)
"""A line of sshd's files that names who may log in."""

CRYPTO_POLICY = "/etc/crypto-policies/config"
"""The name of the policy by which a distribution limits the algorithms of sshd and others (crypto-policies(7))."""

KEY_TYPE = "ssh-ed25519"  # of the keys that slurmfab makes
ACCEPTED = re.compile(r"^pubkeyacceptedalgorithms (\S+)$", re.M)  # in the output of `sshd -T`

SHOWN = 100  # the most characters of /etc/nologin that a message shows


class SshLogin(Resource):
    """The host lets a user in by SSH: no /etc/nologin, no list of sshd's without the user, no policy against its key.

    All are an administrator's decisions, so they are reported and not changed.
    """

    kind: ClassVar[str] = "ssh-login"
    named_by: ClassVar[str] = "user"
    wanted_state: ClassVar[State] = {"login": "allowed"}
    user: str
    origin: str  # an IP address from which the user logs in

    def actual(self, context: Context) -> State:
        """The same, a future user being allowed; ResourceFailed, with a repair, if the user cannot log in."""
        found = find_user(context, self.user)
        if found is None:
            return self.wanted(context)
        path = context.path(NOLOGIN)
        if os.path.lexists(path):
            raise ResourceFailed("%s. Repair: %s" % nologin(self.user, read_text(path)))
        policy = read_text(context.path(CRYPTO_POLICY))
        if policy or any(LISTED.search(text) for text in sshd_files(context)):
            where = "user=%s,host=%s,addr=%s" % (self.user, self.origin, self.origin)
            shown = context.run(["sshd", "-T", "-C", where]).stdout.decode(errors="replace")
            groups = [name for name in map(group_of, os.getgrouplist(self.user, found.pw_gid)) if name]
            refusal = barred(self.user, groups, lists(shown)) or refused_type(shown, policy)
            if refusal:
                raise ResourceFailed("%s. Repair: %s" % refusal)
        return self.wanted(context)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Nothing: what differs is an error already."""


def nologin(user: str, text: str) -> Tuple[str, str]:
    """What /etc/nologin does, and the repair. `text`: content of the file, which everybody who logs in sees."""
    says = " (it says: %s)" % " ".join(text.split())[:SHOWN] if text else ""
    problem = "%s exists%s, so only root can log in, and neither %s nor any other user" % (NOLOGIN, says, user)
    return problem, "rm %s, once its reason is over" % NOLOGIN


def refused_type(shown: str, policy: str) -> Optional[Tuple[str, str]]:
    """Why sshd accepts no keys of the type that slurmfab makes, and the repair; `None` if it does.

    Args:
        shown: the output of `sshd -T`.
        policy: the text of `CRYPTO_POLICY`; empty on a host without.
    """
    found = ACCEPTED.search(shown)
    if found is None or KEY_TYPE in found[1].split(","):
        return None
    names = [line.strip() for line in policy.splitlines() if line.strip() and not line.startswith("#")]
    by = "the crypto-policy %s" % names[0][:SHOWN] if names else "PubkeyAcceptedAlgorithms in sshd's files"
    return (
        "sshd accepts no keys of the type %s, as slurmfab makes them: %s leaves it out" % (KEY_TYPE, by),
        "a policy that has it, such as update-crypto-policies --set DEFAULT, then systemctl restart sshd; or "
        "slurm_ssh: none in the cluster file",
    )


def sshd_files(context: Context) -> Iterator[str]:
    """The texts of sshd's configuration files."""
    main, more = SSHD
    yield read_text(context.path(main))
    for name in names(context.path(more)):
        yield read_text(context.path("%s/%s" % (more, name)))


def lists(shown: str) -> Dict[str, List[str]]:
    """The patterns of AllowUsers and the like, by keyword in lower case. `shown`: the output of `sshd -T`."""
    found: Dict[str, List[str]] = {}
    for line in shown.splitlines():
        keyword, _, patterns = line.partition(" ")
        if LISTED.match(keyword):
            found.setdefault(keyword.lower(), []).extend(patterns.split())
    return found


def barred(user: str, groups: Sequence[str], found: Dict[str, List[str]]) -> Optional[Tuple[str, str]]:
    """Which of sshd's lists keeps a user out, and the repair; `None` if none does.

    An entry `USER@HOST` lets the user in, whatever the host, because the user may come from any of many. `found`: see
    `lists`.
    """
    problem, users, own = "sshd keeps %s out: %s %s", {user}, set(groups)
    for keyword, who in (("DenyUsers", users), ("DenyGroups", own)):
        hits = [pattern for pattern in found.get(keyword.lower(), []) if matches(pattern, who) and "@" not in pattern]
        if hits:
            where = "remove that from %s or %s/*.conf, then: systemctl restart ssh" % SSHD
            return problem % (user, keyword, " ".join(hits)), where
    for keyword, who in (("AllowUsers", users), ("AllowGroups", own)):
        patterns = found.get(keyword.lower(), [])
        if patterns and not any(matches(pattern, who) for pattern in patterns):
            addition = "echo '%s %s' > %s && systemctl restart ssh" % (keyword, user, SSHD_ADDITION)
            return problem % (user, keyword, " ".join(patterns)), addition
    return None


def matches(pattern: str, who: set[str]) -> bool:
    """Whether a pattern of sshd's lists, without its host, matches one of these names."""
    return any(fnmatchcase(name, pattern.partition("@")[0]) for name in who)


def group_of(gid: int) -> str:
    """The name of a GID; empty if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
