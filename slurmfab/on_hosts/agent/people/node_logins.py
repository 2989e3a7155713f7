"""Who may log in to a compute node by SSH: users with a job there, and those who look after the node.

The lines are sshd's own in PAM (pam.conf(5), pam_slurm_adopt): other ways in, such as the console, stay as they are.
Each change is guarded (`slurmfab.on_hosts.agent.services.login_guard`) until another login has passed the new lines.
"""

from __future__ import annotations

import json
import os
import re
from typing import ClassVar, List, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.files import pam_modules
from slurmfab.on_hosts.agent.files.block import DamagedBlock, MarkedBlock, join_lines, split_lines
from slurmfab.on_hosts.agent.services import login_guard

SSHD = "/etc/pam.d/sshd"
COMMON_SESSION, PASSWORD_AUTH = "/etc/pam.d/common-session", "/etc/pam.d/password-auth"
"""The file whose lines of sessions sshd's file includes: Debian's, and Enterprise Linux's, which authselect writes."""

ACCOUNT = "/etc/pam.d/slurmfab-account"  # who may log in

SESSION = "/etc/pam.d/slurmfab-session"
"""The lines of sessions of that file, with pam_systemd for those alone who need no job: it takes sessions out of jobs'
control groups. What authselect writes stays as it is, and what it changes there comes here with the next run."""

EXEMPT = "/etc/security/slurmfab-logins"  # names of the users who need no job, one a line (pam_listfile(8))
RECORD = OWNED + "/node-logins.json"  # exists while the host has these lines, so that its facts tell it

LOGIN_FILES = (SSHD, EXEMPT, ACCOUNT, SESSION, RECORD)

MODULE = "pam_slurm_adopt.so"

ACCOUNTS = MarkedBlock("# BEGIN slurmfab logins", "# END slurmfab logins")
SESSIONS = MarkedBlock("# BEGIN slurmfab sessions", "# END slurmfab sessions")
IN_PLACE = "# in place of: "  # the beginning of the comment with the line that the block of sessions replaces

ACCOUNTS_LINE = re.compile(r"^\s*(?:@include\s+common-account|account\s+(?:include|substack)\s+password-auth)\s*$")
SESSIONS_LINE = re.compile(r"^\s*(?:@include\s+common-session|session\s+(include|substack)\s+password-auth)\s*$")
"""It has a group if it is Enterprise Linux's."""

OF_SESSION = re.compile(r"^\s*-?session\s")
ADOPTS = re.compile(r"^[^#\n]*\bpam_slurm_adopt\b", re.MULTILINE)
SYSTEMD = re.compile(r"^\s*-?session\s.*\bpam_systemd\.so\b", re.MULTILINE)
LOGIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\@+-]{0,255}")

DEPLOYERS = "# have deployed:"
"""The line of `EXEMPT` behind which there are the users who logged in to deploy. Those whom the cluster file names are
there, too: after a change of `ssh.user`, a rollback logs in as the former one. pam_listfile compares whole lines, so no
user has this name."""

LISTED = "pam_listfile.so item=user sense=allow onerr=fail quiet file=" + EXEMPT
SUDOERS = "pam_succeed_if.so quiet user ingroup "
ACCOUNT_TEXT = (
    "# Made by slurmfab: users without a job on this node may not log in, except those in\n"
    "# %s and the group {group}.\n"
    "account sufficient %s\n"
    "account sufficient %s{group}\n"
    "account required %s action_generic_failure=deny action_adopt_failure=deny{node}\n"
    % (EXEMPT, LISTED, SUDOERS, MODULE)
)
ACCOUNT_LINE = "account substack %s\n" % os.path.basename(ACCOUNT)
"""Decides for the lines in that file alone, so that those of others behind it are asked, too (pam.conf(5))."""

SYSTEMD_LINES = "session [success=1 default=ignore] %s\nsession [success=ignore default=1] %s{group}\n" % (
    LISTED,
    SUDOERS,
)
"""Lead past pam_systemd, but for those who need no job."""


class NodeLogins(Resource):
    """The lines of sshd's PAM configuration with which users need a job on this node, or their removal.

    The user who deploys is exempt as well, and stays so, since other users may deploy in turn.
    """

    kind: ClassVar[str] = "node-logins"
    only_name: ClassVar[str] = SSHD
    exempt: Tuple[str, ...]  # names of users who need no job; empty to take the lines back
    node: str = ""  # NodeName, where it is not the hostname

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ."""
        return tuple(sorted(differing))

    def wanted(self, context: Context) -> State:
        """The files by path, `None` for none; ResourceFailed without sshd's PAM, or with others' lines for it."""
        lines = without_blocks(read(context, SSHD))
        if not self.exempt:
            return {SSHD: text_of(lines), **dict.fromkeys((EXEMPT, ACCOUNT, SESSION, RECORD))}
        if not lines:
            raise ResourceFailed("there is no %s; install openssh-server anew" % SSHD)
        if ADOPTS.search("".join(lines)):
            raise ResourceFailed("%s has a line of %s that slurmfab did not write; remove it" % (SSHD, MODULE))
        has_auth = any(os.path.basename(PASSWORD_AUTH) in line.split() for line in lines)
        source, group = (PASSWORD_AUTH, "wheel") if has_auth else (COMMON_SESSION, "sudo")
        has_session = any(map(SESSIONS_LINE.match, lines))
        session = session_text(read(context, source), source, group) if has_session else None
        texts = {
            EXEMPT: self.list_text(context),
            ACCOUNT: ACCOUNT_TEXT.format(group=group, node=" nodename=" + self.node if self.node else ""),
            SESSION: session,
        }
        record = json.dumps({"files": {path: None for path, text in texts.items() if text}})
        return {SSHD: text_of(with_blocks(lines, has_session=session is not None)), **texts, RECORD: record}

    def actual(self, context: Context) -> State:
        """The same as found."""
        return {path: read(context, path) for path in LOGIN_FILES}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write files so that every login finds a line's file, or take back; ResourceFailed of module or guard."""
        wanted = self.wanted(context)
        if self.exempt and not pam_modules.is_installed(context, MODULE):
            package = "libpam-slurm-adopt, slurm-smd-libpam-slurm-adopt or slurm-pam_slurm"
            raise ResourceFailed("%s is not there; install the package of it anew: %s" % (MODULE, package))
        files = (EXEMPT, ACCOUNT, SESSION)
        order = (RECORD, *files, SSHD) if self.exempt else (SSHD, *files, RECORD)
        login_guard.arm(context, LOGIN_FILES)
        try:
            for path in order:
                if path in differing:
                    put(context, path, wanted[path])
        except BaseException:
            login_guard.take_back(context)
            raise

    def list_text(self, context: Context) -> str:
        """The text of `EXEMPT`: the users of the cluster file, then those who have deployed."""
        _, _, later = (read(context, EXEMPT) or "").partition(DEPLOYERS + "\n")
        named = sorted({"root", *self.exempt})
        deployers = sorted({*later.splitlines(), *deployer()})
        return "".join(name + "\n" for name in (*named, DEPLOYERS, *deployers))


def deployer() -> List[str]:
    """The user who has logged in to run this, if not root."""
    user = os.environ.get("SUDO_USER", "")
    return [user] if LOGIN_NAME.fullmatch(user) else []


def read(context: Context, path: str) -> Optional[str]:
    """The text of a file, with surrogates for bytes that are not UTF-8; `None` for none."""
    content = replace.read(context.path(path))
    return None if content is None else content.decode("utf-8", "surrogateescape")


def put(context: Context, path: str, text: Optional[str]) -> None:
    """Write a file of root's in one step, or remove it; a file that is there keeps its access."""
    place = context.path(path)
    if text is None:
        replace.unlink(place)
        return
    there = replace.regular(place)
    access = (there.st_uid, there.st_gid, there.st_mode & 0o777) if there and path == SSHD else (0, 0, 0o644)
    replace.put(place, text.encode("utf-8", "surrogateescape"), *access, make=True)


def text_of(lines: List[str]) -> Optional[str]:
    """The text of these lines; `None` for none."""
    return join_lines(lines).decode("utf-8", "surrogateescape") or None


def without_blocks(text: Optional[str]) -> List[str]:
    """The lines of sshd's PAM configuration without slurmfab's; ResourceFailed if a block's markers are damaged."""
    lines = split_lines((text or "").encode("utf-8", "surrogateescape"))
    try:
        sessions = SESSIONS.content(lines)
        if sessions is not None:
            begin = next(index for index, line in enumerate(lines) if line.strip() == SESSIONS.begin)
            replaced = [line[len(IN_PLACE) :] for line in sessions.splitlines(True) if line.startswith(IN_PLACE)]
            lines = SESSIONS.replaced(lines, "")
            lines[begin:begin] = replaced[:1]
        return ACCOUNTS.replaced(lines, "")
    except DamagedBlock as error:
        raise ResourceFailed("slurmfab's lines in %s are damaged (%s); remove them" % (SSHD, error)) from None


def with_blocks(lines: List[str], *, has_session: bool) -> List[str]:
    """The lines with slurmfab's blocks before common-account or password-auth, whose lines may end the judgment."""
    place = next((index for index, line in enumerate(lines) if ACCOUNTS_LINE.match(line)), len(lines))
    found = [*lines[:place], *block(ACCOUNTS, ACCOUNT_LINE), *lines[place:]]
    for index, line in enumerate(found if has_session else ()):
        theirs = SESSIONS_LINE.match(line)
        if theirs:
            ended = line if line.endswith("\n") else line + "\n"
            ours = "%s %s\n" % ("session " + theirs[1] if theirs[1] else "@include", os.path.basename(SESSION))
            found[index : index + 1] = block(SESSIONS, IN_PLACE + ended + ours)
            break
    return found


def block(marked: MarkedBlock, content: str) -> List[str]:
    """The lines of a block with its markers."""
    return marked.replaced([], content)


def session_text(text: Optional[str], source: str, group: str) -> Optional[str]:
    """The text of `SESSION`, from that of the file that sshd's includes. `group`: whose users need no job."""
    if text is None:
        return None
    if source == PASSWORD_AUTH:  # it has lines of other kinds, too; a line may go on in the next one (pam.conf(5))
        joined = text.replace("\\\n", " ").splitlines(keepends=True)
        text = "".join(line for line in joined if OF_SESSION.match(line))
    guards = SYSTEMD_LINES.format(group=group)
    return "# Made by slurmfab from %s.\n" % source + SYSTEMD.sub(lambda line: guards + line[0], text)
