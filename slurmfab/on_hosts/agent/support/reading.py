"""Configuration, state and logs of a host for a support bundle, bounded, with secrets for the deployer."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import read_end
from slurmfab.on_hosts.agent.services.daemon_log import log_file
from slurmfab.on_hosts.agent.slurm import found_files
from slurmfab.on_hosts.agent.support import host_secrets

FILE_BYTES = 1 << 20  # the most characters of one file, of which the end is kept
LOG_BYTES = 256 << 10  # the size of the end of a log
HOST_BYTES = 12 << 20  # the most characters of all files of a host
SECONDS = 20.0  # time limit of one program

UNITS = ("slurmctld", "slurmd", "slurmdbd", "munge", "mariadb", "mysql", "chrony", "systemd-timesyncd", "ssh")
LOGGED = ("slurmctld", "slurmd", "slurmdbd", "munge")
JOURNAL = ("journalctl", "--no-pager", "--quiet", "--output=short-iso")
PACKAGES = (
    "slurm*", "libslurm*", "munge", "libmunge*", "libpmix*", "openmpi-bin", "mariadb-server*", "nvidia-*",
    "libnvidia-*", "systemd", "dbus", "openssh-server", "python3", "linux-image-*", "enroot*", "podman", "crun",
)  # fmt: skip
ON_HOST: Mapping[str, Sequence[Sequence[str]]] = {
    "kernel.txt": (("uname", "-a"), ("uptime",)),
    "units.txt": (
        ("systemctl", "list-units", "--all", "--no-pager", "--plain", "--full", *(one + ".service" for one in UNITS)),
        ("systemctl", "list-units", "--failed", "--no-pager", "--plain", "--full"),
        ("systemctl", "list-timers", "--all", "--no-pager", "slurmfab*"),
    ),
    "packages.txt": (("dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Package} ${Version}\n", *PACKAGES),),
    "disks.txt": (("df", "-PhT", "--local"), ("df", "-PiT", "--local"), ("lsblk",)),
    "memory.txt": (("free", "-m"),),
    "clock.txt": (("timedatectl", "status", "--no-pager"), ("chronyc", "-n", "tracking")),
    "network.txt": (("ip", "-brief", "address"), ("ip", "route")),
    "gpus.txt": (("nvidia-smi", "-L"), ("nvidia-smi",)),
    "slurmd.txt": (commands.NODE_VERSION, commands.NODE_HARDWARE),
}
"""What is asked on each host, by the name of the file with the answers."""

OF_CLUSTER: Mapping[str, commands.Command] = {
    "config.txt": commands.SHOW_CONFIG,
    "nodes.txt": commands.show_nodes(),
    "partitions.txt": commands.SHOW_PARTITIONS,
    "out-of-service.txt": commands.OUT_OF_SERVICE,
    "scheduler.txt": commands.DIAGNOSTICS,
    "queue.txt": commands.QUEUE_WITHOUT_TEXTS,
}
"""What is asked on one controller, by the name of the file with the answer."""

KEPT = {
    "gpu-checks.jsonl": "/var/lib/slurmfab/gpu-checks/history.jsonl",
    "acceptance.jsonl": "/var/lib/slurmfab/acceptance/history.jsonl",
    "drift.json": "/var/lib/slurmfab/drift.json",
    "os-release.txt": "/usr/lib/os-release",
}
"""Files of which the end is taken, by the name that they get."""

CONFIGURATION = (".conf", ".yaml")
"""The ends of names of configuration files; programs of the site's own, such as prologs, stay on the host."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What this host has for a support bundle.

    `request`: `parts`: `host` for its files, programs and logs, `cluster` for Slurm's state. `private`: paths of files
    of the site's own that are secret. Returns `files`: name and text of each file. `left`: what is not there, and why.
    `secrets`: values in base64. `public`: public keys.
    """
    found = Collection(context)
    if "host" in request["parts"]:
        add_slurm_files(found)
        for name, programs in ON_HOST.items():
            found.add("system/" + name, "\n".join(answer_of(context, argv) for argv in programs))
        for name, path in KEPT.items():
            found.add("kept/" + name, end_of(context, path))
        add_logs(found)
    if "cluster" in request["parts"]:
        add_state(found)
    secrets = list(host_secrets.values(context, tuple(request.get("private", ()))))
    if len(secrets) >= host_secrets.MOST_VALUES:
        found.left.append(("secrets", "the host has more than are looked for; have a look before you send this"))
    return {
        "files": found.files,
        "left": found.left,
        "secrets": [base64.b64encode(value).decode() for value in secrets],
        "public": list(host_secrets.public_keys(context)),
    }


class Collection:
    """Files up to a size each and together: `files` by name, and in `left` why others are missing or cut."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.files: List[Tuple[str, str]] = []
        self.left: List[Tuple[str, str]] = []
        self.size = 0

    def add(self, name: str, text: Optional[str]) -> None:
        """Add a file; nothing for one without text, and the end of one that is too long."""
        if not text or not text.strip():
            return
        if len(text) > FILE_BYTES:
            text = text[-FILE_BYTES:].partition("\n")[2]
            self.left.append((name, "only its last %d KiB are here" % (FILE_BYTES >> 10)))
        if self.size + len(text) > HOST_BYTES:
            self.left.append((name, "this host has more than %d MiB" % (HOST_BYTES >> 20)))
            return
        self.size += len(text)
        self.files.append((name, text))


def add_slurm_files(found: Collection) -> None:
    """Add Slurm's configuration as this host has it, and what extends its units."""
    try:
        there = found_files.read({}, found.context)
    except (ResourceFailed, OSError) as error:
        found.left.append(("slurm", one_line(str(error))))
        return
    for path, text, *_ in (*there["files"], *there["drop_ins"]):
        if path.endswith(CONFIGURATION):
            found.add("slurm/" + flat(path), text)
    for path, reason in there["left"]:
        if path.endswith(CONFIGURATION):
            found.left.append((one_line(path), one_line(reason)))


def flat(path: str) -> str:
    """The name of a file in the bundle: its own in Slurm's directory, otherwise its path."""
    name = path[len("/etc/slurm/") :] if path.startswith("/etc/slurm/") else path.strip("/")
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in name)[-100:].lstrip(
        "._-"
    )


def answer_of(context: Context, argv: Sequence[str]) -> str:
    """A command and what it printed, or why it printed nothing; empty where the program is missing."""
    try:
        done = context.run(argv, seconds=SECONDS)
    except ResourceFailed as error:
        return "" if "is not installed" in str(error) else "$ %s\n%s\n" % (" ".join(argv), error)
    shown = (done.stdout + done.stderr).decode(errors="replace")
    return "$ %s\n%s" % (" ".join(argv), shown)


def end_of(context: Context, path: str) -> str:
    """The end of a file; empty where there is none, or another user could lead root to another one."""
    with suppress(ResourceFailed, OSError):
        return (read_end(context.path(path), FILE_BYTES) or b"").decode(errors="replace")
    return ""


def add_logs(found: Collection) -> None:
    """Add the ends of the daemons' logs and of the kernel's messages."""
    for unit in LOGGED:
        path = log_file(found.context, unit)
        try:
            text = read_end(found.context.path(path), LOG_BYTES) if path else None
            found.add("logs/%s.log" % unit, (text or b"").decode(errors="replace"))
        except (ResourceFailed, OSError) as error:
            found.left.append(("logs/%s.log" % unit, one_line(str(error))))
        found.add("logs/%s.journal" % unit, journal(found.context, "--unit=" + unit, "--lines=500"))
    found.add("logs/kernel.journal", journal(found.context, "--dmesg", "--lines=1000"))


def journal(context: Context, *options: str) -> str:
    """The end of the journal; empty if it cannot be read."""
    try:
        return context.run((*JOURNAL, *options), seconds=SECONDS).stdout.decode(errors="replace")[-LOG_BYTES:]
    except ResourceFailed:
        return ""


def add_state(found: Collection) -> None:
    """Add Slurm's state by its own commands; each would take half a minute without a slurmctld that answers."""
    shown = answer_of(found.context, commands.PING)
    found.add("state/ping.txt", shown)
    if not commands.any_answers(shown):
        found.left.append(("state", "no slurmctld answers"))
        return
    for name, argv in OF_CLUSTER.items():
        found.add("state/" + name, answer_of(found.context, argv))


def one_line(text: str) -> str:
    """A text as one printable line of limited length."""
    return "".join(one if one.isprintable() else " " for one in text)[:500]
