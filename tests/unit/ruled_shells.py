"""Shells whose answers are rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from slurmfab.commands.checks.shell import CommandResult

Rule = str | CommandResult | Callable[[str], str | CommandResult]

BASE: dict[str, Rule] = {
    "^test -d /run/systemd/system/$": CommandResult(0),
    "^test -": CommandResult(1),
    "^uname -s$": CommandResult(0, b"Linux\n"),
    "^uname -m$": CommandResult(0, b"x86_64\n"),
    "^cat /etc/os-release$": CommandResult(0, b"ID=debian\n"),
    "^command -v ": lambda command: CommandResult(0, f"/usr/bin/{command.split()[-1]}\n".encode()),
}
"""What every host answers to testinfra, unless its own rules say otherwise: files are not there, programs are."""


class RuledShell:
    """A shell that answers by rules: the first regular expression that is found in a command decides."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = dict(rules)
        self.commands: list[str] = []
        self.inputs: list[str] = []

    def run(self, command: str, stdin: str = "", seconds: float = 0) -> CommandResult:  # noqa: ARG002 - as Shell has it
        self.commands.append(command)
        self.inputs.append(stdin)
        for pattern, rule in {**self.rules, **BASE}.items():
            if re.search(pattern, command):
                answer = rule if isinstance(rule, str | CommandResult) else rule(command)
                return CommandResult(0, answer.encode()) if isinstance(answer, str) else answer
        return CommandResult(127, b"", f"sh: {command.split(maxsplit=1)[0]}: not found\n".encode())


def unit(name: str, **properties: str) -> dict[str, Rule]:
    """What systemd tells testinfra of a unit; one that runs as process 7, unless these properties say otherwise."""
    told = {"LoadState": "loaded", "ActiveState": "active", "Result": "success", "MainPID": "7", **properties}
    is_running = told["ActiveState"] in ("active", "reloading")
    return {
        f"^systemctl is-active {name}$": CommandResult(0 if is_running else 3),
        f"^systemctl show {name}$": "".join(f"{key}={value}\n" for key, value in told.items()),
    }


def timer(name: str, state: str = "active", result: str = "success") -> dict[str, Rule]:
    """What systemd tells testinfra of a timer and of the last run that it started."""
    return {**unit(f"{name}.timer", ActiveState=state), **unit(f"{name}.service", Result=result)}


def account(name: str, uid: int | None, gid: int | None, of_group: int | None) -> dict[str, Rule]:
    """What a host tells testinfra of the user and the group of this name; `None` where it has none.

    Args:
        of_group: GID of the group.
    """
    return {
        f"^id {name}$": CommandResult(1 if uid is None else 0),
        f"^id -u {name}$": f"{uid}\n",
        f"^id -g {name}$": f"{gid}\n",
        f"^getent group {name}$": CommandResult(2 if of_group is None else 0),
        f"^getent group {name} . cut -d':' -f3$": f"{of_group}\n",
        "^cat /etc/passwd$": "root:x:0:0::/root:/bin/sh\n",
    }


def file(path: str, text: str | None = "", access: str = "root root 644", *, kinds: str = "ef") -> dict[str, Rule]:
    """What a file tells testinfra.

    Args:
        text: its content; `None` if it is not there.
        access: user, group and mode.
        kinds: options of test(1) that are true of it.
    """
    known = {f"^stat -Lc %{letter} {path}$": f"{value}\n" for letter, value in zip("UGa", access.split(), strict=True)}
    is_there = f"^test -[{kinds}] {path}$"
    return {is_there: "", f"^cat -- {path}$": text, **known} if text is not None else {}


def process(
    pid: int, program: str, user: str, *, line: str = "", words: str = "", files: str = "1024", environ: str = ""
) -> dict[str, Rule]:
    """What /proc tells testinfra of a process.

    Args:
        line: its file `stat`.
        words: its command line.
        files: how many it may open.
        environ: its variables.
    """
    return {
        **file(f"/proc/{pid}/stat", line),
        **file(f"/proc/{pid}", access=f"{user} {user} 555"),
        **file(f"/proc/{pid}/cmdline", words.replace(" ", "\0")),
        **file(f"/proc/{pid}/environ", environ.replace(" ", "\0")),
        **file(f"/proc/{pid}/limits", f"Max processes  7 7\nMax open files  {files}  {files}  files\n"),
        f"^realpath /proc/{pid}/exe$": f"{program}\n",
    }


def daemons_of(
    *, changes: str = "", start: int | None = 100, key: str = "munge munge 400", stopped: str = ""
) -> dict[str, Rule]:
    """What a host shows of its daemons, whose clock says 1000 s, and which booted at 500 s.

    Args:
        changes: when files changed, and their paths, line by line.
        start: seconds from the boot to the start of the daemons; `None` where they do not run.
        key: user, group and mode of the munge key; empty for none.
        stopped: the unit whose process a signal has stopped.
    """
    rules: dict[str, Rule] = timer("slurmfab-recovery")
    for number, name in enumerate(("munge", "mariadb", "slurmdbd", "slurmctld", "slurmd")):
        pid = 0 if start is None else 70 + number
        rules |= unit(name, ActiveState="active" if pid else "inactive", UnitFileState="enabled", MainPID=str(pid))
        state = "T" if name == stopped else "S"
        line = f"{pid} (a (b) c) {state} 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {(start or 0) * 100} 1 2\n"
        program = f"/usr/sbin/{'munged' if name == 'munge' else name}"
        user = {"munge": "munge", "slurmd": "root"}.get(name, "slurm")
        rules |= {
            **(process(pid, program, user, line=line) if pid else {}),
            f"^realpath {program}$": program,
            f"^test -e {program}$": "",
        }

    def times(command: str) -> str:
        wanted = [line for line in changes.splitlines() if line.split()[1] in command.split()]
        return "\n".join(("500.00 400.00", "1000.0", "100", *wanted))

    sockets = "".join(f"tcp LISTEN 0 128 0.0.0.0:{port} 0.0.0.0:*\n" for port in (6817, 6818, 6819))
    return {
        **rules,
        "^cat /proc/uptime": times,
        **file("/etc/munge/munge.key", "" if key else None, key or "root root 600"),
        "^test -S /run/munge/munge.socket.2$": CommandResult(0 if start is not None else 1),
        "ss --numeric --listening": f"Netid State Recv-Q Send-Q Local Peer\n{sockets}",
        "ss -Hlntup; echo": "",
    }
