"""What SELinux has denied the cluster's daemons on a host since the last change, as the kernel's audit tells it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from slurmfab.on_hosts.agent.core.labels import ENFORCE
from slurmfab.on_hosts.agent.undo.undo_store import DIRECTORY as KEPT

DAEMONS = ("slurm", "sackd", "munged", "sshd", "mariadb", "mysqld", "logrotate")
"""Beginnings of the names of programs that the cluster needs; the kernel has 15 characters of a name."""

PLACES = ("slurm", "munge")  # in the paths of all files that slurmfab writes for daemons

AUDIT_LOG = "/var/log/audit/audit.log"
MOST_LINES, MOST_CHARACTERS = 100, 800
WANTED = rf'avc: +denied .*(comm="({"|".join(DAEMONS)})|(path|name)="[^"]*({"|".join(PLACES)}))'

QUESTION = (
    f"if [ -e {ENFORCE} ]; then echo mode $(cat {ENFORCE}) $(ls {KEPT} 2>/dev/null | tail -n 1); "
    f"if [ -e {AUDIT_LOG} ]; then cat {AUDIT_LOG}.1 {AUDIT_LOG} 2>/dev/null; "
    "else timeout 10 journalctl --quiet --dmesg --output=cat 2>/dev/null; fi | "
    f"grep -aE '{WANTED}' | tail -n {MOST_LINES} | cut -c 1-{MOST_CHARACTERS}; fi"
)
"""A shell command that prints nothing where the kernel has no SELinux; otherwise whether it enforces, the last run that
changed something, and lines of the audit about the cluster. Without auditd, the kernel's log has them."""

MODE = re.compile(r"mode ([01])(?: (\d{8}T\d{6})\S*)?")
DENIED = re.compile(r"audit\((\d{1,12})\.\d+:\d+\).*avc: +denied +\{ ([\w ]{1,200}) \}")
FIELD = re.compile(r'\b(comm|path|name|src|tcontext|tclass|permissive)=(?:"([^"]*)"|(\S+))')


@dataclass(frozen=True)
class Denial:
    """Something that SELinux denied, or would have denied."""

    program: str
    rights: str  # such as `read`
    subject: str  # a path, a name without its directory, or `port 2222`
    kind: str  # the type of what it is about, such as `var_lib_t`
    is_enforced: bool

    def __str__(self) -> str:
        """The denial as part of a sentence."""
        return f"{self.program} may not {self.rights.replace(' ', ', ')} {self.subject} ({self.kind})"

    @property
    def repair(self) -> str:
        """What to try on the host."""
        if self.kind == "nfs_t":
            return "setsebool -P use_nfs_home_dirs on"
        if self.subject.startswith("port "):
            allow = f"semanage port -a -t ssh_port_t -p tcp {self.subject.removeprefix('port ')}"
            return allow if self.program.startswith("sshd") else "ausearch -m avc -ts recent | audit2why"
        place = shlex.quote(self.subject) if self.subject.startswith("/") else "its path"
        return f"restorecon -v {place}; if it stays, ausearch -m avc -ts recent | audit2why tells more"


@dataclass(frozen=True)
class Denials:
    """SELinux on a host."""

    is_on: bool = False  # whether the kernel has it
    found: tuple[Denial, ...] = ()  # each once, those since the last change alone


NO_SELINUX = Denials()


def denials(lines: Iterable[str]) -> Denials:
    """What a host told. `lines`: the output of `QUESTION`."""
    first, *rest = (*lines, "")
    mode = MODE.match(first)
    if mode is None:
        return NO_SELINUX
    since = datetime.strptime(mode[2], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc).timestamp() if mode[2] else 0.0
    found = (denial(line, since) for line in rest)
    return Denials(is_on=True, found=tuple(dict.fromkeys(one for one in found if one)))


def denial(line: str, since: float) -> Denial | None:
    """The denial in a line of the audit; `None` for another line, or an earlier one. `since`: seconds since 1970."""
    denied = DENIED.search(line)
    if denied is None or int(denied[1]) < since:
        return None
    fields = {name: quoted or bare for name, quoted, bare in FIELD.findall(line)}
    context = fields.get("tcontext", "").split(":")
    kind = context[2] if len(context) > 2 else "an unknown type"  # USER:ROLE:TYPE:LEVEL
    port = f"port {fields['src']}" if "src" in fields else ""
    subject = fields.get("path") or fields.get("name") or port or f"a {fields.get('tclass', 'thing')}"
    return Denial(fields.get("comm", "a program"), denied[2], subject, kind, fields.get("permissive") != "1")
