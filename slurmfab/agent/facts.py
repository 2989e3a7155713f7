"""What a host is, read once before anything is planned, as JSON values for `slurmfab.facts.from_answer`.

Programs are run only where no file tells: a host answers in some ten milliseconds.
"""

from __future__ import annotations

import binascii
import os
import sys
import time
from typing import Any, Dict, Iterable, List, Mapping

from slurmfab.agent import cgroups, gpus, hardware, network
from slurmfab.agent.reading import entries, names, read_bytes, read_text

MUNGE_KEY = "/etc/munge/munge.key"
MAILERS = ("/usr/bin/mail", "/usr/bin/mailx")
MAIL_SYSTEMS = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
PROGRAMS = "/usr/local/lib/slurmfab"
AUTODETECT = ("nvidia", "nvml", "oneapi", "rsmi")
FETCHING = "/etc/systemd/system/slurmd.service.d/slurmfab-configless.conf"
"""The drop-in by which slurmd fetches Slurm's files from slurmctld."""

LIBRARIES, PLUGINS = "/usr/lib", "slurm-wlm"
JOB_CONTAINER = "job_container_conf"
SLURM_FILES = {
    name: "/etc/slurm/%s.conf" % name[: -len("_conf")]
    for name in ("slurm_conf", "gres_conf", "cgroup_conf", JOB_CONTAINER)
}


def read(request: Mapping[str, Any]) -> Dict[str, Any]:
    """All facts of this host.

    Args:
        request: `users` (and `groups`, if others), `packages`, `services`: names that the cluster cares for;
            `gpu_files`: device files that are GPUs as well; `with_munge_key`, `with_slurm_conf` (with gres.conf and
            cgroup.conf): whether to read these files; `root`: where the file system begins.

    Returns:
        The fields of `slurmfab.facts.HostFacts` except `name` and `clock_offset`, and `clock`: seconds since 1970.
    """
    root = request.get("root", "/").rstrip("/")
    users = tuple(request.get("users", ()))
    accounts = read_accounts(root, users)
    found = gpus.read(root, request.get("gpu_files", ()))
    return {
        "hostname": os.uname().nodename.split(".")[0],
        **system(root),
        "addresses": network.addresses(),
        "accounts": accounts,
        "groups": read_groups(root, (*users, *request.get("groups", ()))),
        "uids": taken(root + "/etc/passwd", {str(one["uid"]): name for name, one in accounts.items()}),
        "gids": taken(root + "/etc/group", {}),
        "busy_uids": busy_uids(),
        "packages": packages(root, request.get("packages", ())),
        "hardware": hardware.read(root),
        "gpus": found,
        "bare_gpus": gpus.unusable(root, found),
        "gpu_plugins": gpu_plugins(root),
        "cgroup": cgroups.read(root),
        "ssh_host_keys": ssh_host_keys(root),
        "public_key": public_key(root, accounts),
        "munge_key": munge_key(root) if request.get("with_munge_key") else "",
        **slurm_files(root, bool(request.get("with_slurm_conf"))),
        "services": services(root, tuple(request.get("services", ()))),
        "boot": boot(),
        "mail_program": mail_program(root),
        "programs": names(root + PROGRAMS),
        "clock": time.time(),
    }


def munge_key(root: str) -> str:
    """The munge key in base64, empty while there is none."""
    return binascii.b2a_base64(read_bytes(root + MUNGE_KEY), newline=False).decode()


def gpu_plugins(root: str) -> List[str]:
    """What AutoDetect can be here (gres.conf(5)): the names of Slurm's plugins that find GPUs."""
    libraries = root + LIBRARIES
    found = {name for folder in names(libraries) for name in names("%s/%s/%s" % (libraries, folder, PLUGINS))}
    return [name for name in AUTODETECT if "gpu_%s.so" % name in found]


def mail_program(root: str) -> str:
    """What slurmctld can send mail with (slurm.conf(5), MailProg); empty where it cannot.

    Debian's mailers hand mail on to `sendmail`, which every mail system brings along; without one they fail.
    """
    has_system = any(os.access(root + path, os.X_OK) for path in MAIL_SYSTEMS)
    return next((path for path in MAILERS if has_system and os.access(root + path, os.X_OK)), "")


def slurm_files(root: str, is_wanted: bool) -> Dict[str, Any]:
    """Whether slurmd fetches Slurm's files, and the texts of the host's own.

    Those that are not there or not wanted are empty ones; the small last one comes always.
    """
    texts = {
        name: (read_bytes(root + path) if is_wanted or name == JOB_CONTAINER else b"").decode(errors="replace")
        for name, path in SLURM_FILES.items()
    }
    return {"fetches": os.path.exists(root + FETCHING), **texts}


def boot() -> str:
    """What differs from boot to boot: the kernel's own mark, and when PID 1 started, for containers share a kernel.

    PID 1's start is in ticks since the kernel's boot, which a time namespace shifts (proc(5), time_namespaces(7)).
    """
    start = read_text("/proc/1/stat").rpartition(")")[2].split()[19:20]
    shifts = dict(line.split()[:2] for line in read_text("/proc/1/timens_offsets").splitlines())
    ticks = int(start[0]) - int(shifts.get("boottime", 0)) * os.sysconf("SC_CLK_TCK") if start else 0
    return "%s %d" % (read_text("/proc/sys/kernel/random/boot_id"), ticks)


def os_release(root: str) -> Dict[str, str]:
    """The fields of os-release(5)."""
    lines = (read_text(root + "/etc/os-release") or read_text(root + "/usr/lib/os-release")).splitlines()
    return {name: value.strip("\"'") for name, _, value in (line.partition("=") for line in lines)}


def read_accounts(root: str, users: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """Those of the users that exist here, wherever NSS finds them; below another root only /etc/passwd counts."""
    if root:
        local = {fields[0]: fields for fields in entries(root + "/etc/passwd")}
        return {
            user: {"uid": int(one[2]), "gid": int(one[3]), "home": one[5], "shell": one[6]}
            for user, one in ((user, local[user]) for user in users if user in local)
        }
    import pwd  # noqa: PLC0415 - only for the real root

    found = {}
    for user in users:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            continue
        found[user] = {"uid": entry.pw_uid, "gid": entry.pw_gid, "home": entry.pw_dir, "shell": entry.pw_shell}
    return found


def read_groups(root: str, groups: Iterable[str]) -> Dict[str, int]:
    """Those of the groups that exist here, by GID; looked for as users are."""
    if root:
        local = {fields[0]: int(fields[2]) for fields in entries(root + "/etc/group")}
        return {group: local[group] for group in groups if group in local}
    import grp  # noqa: PLC0415

    found = {}
    for group in groups:
        try:
            found[group] = grp.getgrnam(group).gr_gid
        except KeyError:
            continue
    return found


def taken(path: str, more: Mapping[str, str]) -> Dict[str, str]:
    """Names by ID, from a file in the format of passwd(5) or group(5).

    Users of a directory service are never listed, for there can be many thousands; `more` adds those looked up by name.
    """
    return {**{fields[2]: fields[0] for fields in entries(path) if len(fields) > 2}, **more}  # noqa: PLR2004


def busy_uids() -> List[int]:
    """UIDs that own running processes, by the real, effective, saved and file system UID."""
    busy = {0}
    for pid in names("/proc"):
        if not pid.isdigit():
            continue
        try:
            owner = os.stat("/proc/" + pid).st_uid
            if owner:
                busy.add(owner)
                continue
            # A daemon that was root has files of root's here; kernel threads have no exe and are all root's.
            os.readlink("/proc/%s/exe" % pid)
        except OSError:
            continue
        status = read_bytes("/proc/%s/status" % pid).partition(b"\nUid:")[2].partition(b"\n")[0]
        busy.update(int(uid) for uid in status.split())
    return sorted(busy)


def packages(root: str, wanted: Iterable[str]) -> Dict[str, str]:
    """Versions of those packages that are completely installed, held ones included, from dpkg's status file."""
    status = b"\n\n" + read_bytes(root + "/var/lib/dpkg/status")
    found = {}
    for package in wanted:
        start = status.find(b"\n\nPackage: %s\n" % package.encode())
        while start >= 0:
            paragraph = status[start : status.find(b"\n\n", start + 2) + 1 or None]
            if b" ok installed\n" in paragraph:
                found[package] = paragraph.partition(b"\nVersion: ")[2].partition(b"\n")[0].decode()
            start = status.find(b"\n\nPackage: %s\n" % package.encode(), start + 2)
    return found


def system(root: str) -> Dict[str, str]:
    """The distribution, its release, for which architecture it is, and which Python runs here."""
    release = os_release(root)
    named = {"os_id": "ID", "os_like": "ID_LIKE", "codename": "VERSION_CODENAME"}
    return {
        **{fact: release.get(name, "") for fact, name in named.items()},
        "architecture": architecture(root),
        "python": "%d.%d.%d" % sys.version_info[:3],
    }


def architecture(root: str) -> str:
    """Debian's name for the host's architecture, such as `amd64`: that of dpkg itself."""
    status = b"\n\n" + read_bytes(root + "/var/lib/dpkg/status")
    paragraph = status.partition(b"\n\nPackage: dpkg\n")[2].partition(b"\n\n")[0]
    return paragraph.partition(b"\nArchitecture: ")[2].partition(b"\n")[0].decode(errors="replace")


def ssh_host_keys(root: str) -> Dict[str, str]:
    """Public host keys of sshd, base64 by type."""
    keys = {}
    for name in names(root + "/etc/ssh"):
        if name.startswith("ssh_host_") and name.endswith("_key.pub"):
            words = read_text(root + "/etc/ssh/" + name).split()
            if len(words) > 1:
                keys[words[0]] = words[1]
    return keys


def public_key(root: str, accounts: Mapping[str, Mapping[str, Any]]) -> str:
    """The slurm user's SSH public key, empty while there is none."""
    home = accounts.get("slurm", {}).get("home", "")
    return read_text(root + home + "/.ssh/id_ed25519.pub") if home else ""


def services(root: str, units: tuple[str, ...]) -> Dict[str, str]:
    """ActiveState of those units that exist; none where systemd does not run."""
    if not units or root or not os.path.isdir("/run/systemd/system"):
        return {}
    import subprocess  # noqa: PLC0415 - not every request needs it

    argv = ["systemctl", "show", "-p", "LoadState", "-p", "ActiveState", "--", *units]
    try:
        shown = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return service_states(units, shown.decode(errors="replace"))


def service_states(units: Iterable[str], shown: str) -> Dict[str, str]:
    """ActiveState by unit, from `systemctl show`: one paragraph per unit, in the order they were asked for."""
    states = {}
    for unit, paragraph in zip(units, shown.strip().split("\n\n")):  # noqa: B905 - zip(strict=) is Python 3.10's
        fields = dict(line.partition("=")[::2] for line in paragraph.splitlines())
        if fields.get("LoadState") not in ("not-found", None):
            states[unit] = fields.get("ActiveState", "")
    return states
