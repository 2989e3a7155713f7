"""The facts of a host, read once before planning, as JSON values for `slurmfab.cluster.facts.from_answer`.

Programs run only for what no file tells, so that a host answers within some ten milliseconds.
"""

from __future__ import annotations

import binascii
import json
import os
import re
import socket
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence

from slurmfab.on_hosts.agent.core.host_paths import (
    ADDED_PACKAGES,
    JWT_KEY,
    MUNGE_KEY,
    OUR_DROP_INS,
    OWNED,
    PROGRAMS,
    REGISTRY_CA,
    SITE_FILES,
    SLURM_DIRECTORY,
)
from slurmfab.on_hosts.agent.core.included_files import conf_bytes, read_included, whole
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB, entries, names, os_release, read_bytes, read_text
from slurmfab.on_hosts.agent.dnf import rpm_database
from slurmfab.on_hosts.agent.facts import cgroups, gpus, hardware, slurm_use, slurm_versions
from slurmfab.on_hosts.agent.packages import dpkg_status
from slurmfab.on_hosts.agent.services import systemctl


def read_site_files(root: str, asked: Iterable[str]) -> Dict[str, Any]:
    """SHA-256 by name of asked files below Slurm's directory, and the names that slurmfab has written."""
    written = read_text(root + SITE_FILES).split()
    paths = {name: "%s%s/%s" % (root, SLURM_DIRECTORY, name) for name in sorted({*asked, *written})}
    there = {name: path for name, path in paths.items() if os.path.isfile(path)}
    return {"site_files": site_file_digests(there) if there else {}, "written_site_files": written}


def site_file_digests(paths: Dict[str, str]) -> Dict[str, str]:
    """SHA-256 (hexadecimal) of files, by the names of their paths."""
    import hashlib  # few hosts have such files

    return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in paths.items()}


DOCUMENTATION_ADDRESSES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses reserved for documentation (RFC 5737, RFC 3849), which are reached over the default route."""


def network_addresses() -> List[str]:
    """This host's addresses without loopback: first those of the default routes, then IPv4, then IPv6."""
    local = [*ipv4_addresses(read_text("/proc/net/fib_trie")), *ipv6_addresses(read_text("/proc/net/if_inet6"))]
    return [address for address in dict.fromkeys([*default_addresses(), *local]) if address in local]


def default_addresses() -> List[str]:
    """The source addresses of the default routes; connecting a UDP socket sends nothing."""
    found = []
    for family, address in DOCUMENTATION_ADDRESSES:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                found.append(probe.getsockname()[0])
        except OSError:
            continue
    return found


def ipv4_addresses(trie: str) -> List[str]:
    """The local addresses in the text of /proc/net/fib_trie, where `/32 host LOCAL` follows each."""
    found, last = [], ""
    for line in trie.splitlines():
        fields = line.split()
        if fields and fields[0] == "|--":
            last = fields[1]
        elif fields[:3] == ["/32", "host", "LOCAL"] and not last.startswith("127."):
            found.append(last)
    return list(dict.fromkeys(found))


def ipv6_addresses(table: str) -> List[str]:
    """The global addresses in the text of /proc/net/if_inet6.

    Its lines have an address of 32 hexadecimal digits, index, prefix length, scope, flags and interface. Without
    temporary addresses (flag 0x01) and unusable ones.
    """
    rows = (line.split() for line in table.splitlines())
    lasting = (row for row in rows if row[3:4] == ["00"] and not int(row[4], 16) & 0x49)
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in lasting]


HOST_KEY_TYPES = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa", "ssh-dss",
)  # fmt: skip
SLURM_KEY = "ssh-ed25519"  # the type of the slurm user's SSH key

MAILERS = ("/usr/bin/mail", "/usr/bin/mailx")
MAIL_SYSTEMS = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
AUTODETECT = ("nvidia", "nvml", "oneapi", "rsmi")
CONFIGLESS_DROP_IN = "/etc/systemd/system/slurmd.service.d/slurmfab-configless.conf"
"""The drop-in of slurmd's unit with which slurmd fetches Slurm's files from slurmctld."""

SLURMD_OPTIONS = ("/etc/default/slurmd", "/etc/sysconfig/slurmd")
CONF_SERVER = re.compile(rb"^[^#\n]*--conf-server[ =]+([\w.:,\[\]-]{1,1024})", re.MULTILINE)
"""An option of slurmd in its environment file or its unit."""

RESTART = re.compile(rb"^[ \t]*Restart[ \t]*=", re.MULTILINE)
"""The setting by which systemd starts a daemon again that has ended by itself (systemd.service(5))."""

RESTARTED = ("munge", "slurmctld", "slurmdbd", "slurmd")
UNITS = ("/etc/systemd/system", "/run/systemd/system")
"""Where a site has units and drop-ins of its own (systemd.unit(5)); munge's package has a Restart=, too."""

CERTIFICATE = re.compile(
    "-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=]{1,76}\n){1,64}-----END CERTIFICATE-----", re.ASCII
)
LIBRARIES = "/usr/lib"
JOB_CONTAINER = "job_container_conf"
OF_EACH_HOST = (JOB_CONTAINER, "gres_conf", "cgroup_conf")
"""The files that may differ between the hosts of a cluster that was made by hand."""

RESTRICTS_NAMESPACES = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"  # which Ubuntu's kernels have
PROFILES = "/etc/apparmor.d/"

MOST_BYTES = 1 << 20  # the most bytes of such a file that are told unasked

FIRST_OF_PEOPLE, LAST_OF_PEOPLE, LAST = 1000, 60000, 1 << 32
MOST_RANGES = 256

SLURM_FILES = {
    name: "/etc/slurm/%s.conf" % name[: -len("_conf")]
    for name in ("slurm_conf", "gres_conf", "cgroup_conf", JOB_CONTAINER)
}


def read(request: Mapping[str, Any]) -> Dict[str, Any]:
    """All facts of this host.

    `request`: `users` (and `groups`, if others), `packages`, `services`: names to look up; `gpu_files`: device files
    that also count as GPUs; `members`: of which groups; `plugin_directories`: Slurm's, in those of libraries;
    `slurm_programs`: paths of those that tell a version; `namespace_programs`: patterns of paths of those that make
    user namespaces; `slurmd_parameters`: see `hardware.facts`; `site_files`: names
    below Slurm's directory; `with_munge_key`, `with_slurm_conf` (with gres.conf and cgroup.conf): whether to read these
    files; `found_numbers`: those of `own_numbers`; `is_new`, `state_directories`: see `slurm_use.read`; `root`: where
    the file system begins. Returns the fields
    of `slurmfab.cluster.facts.HostFacts` except those in its `OURS`, and `clock`: seconds since 1970.
    """
    root = request.get("root", "/").rstrip("/")
    users = tuple(request.get("users", ()))
    accounts = read_accounts(root, users)
    there = packages(root, request.get("packages", ()))
    return {
        **system(root),
        "addresses": network_addresses(),
        "accounts": accounts,
        "groups": read_groups(root, (*users, *request.get("groups", ()))),
        "members": members(root, request.get("members", ())),
        **ids(root, accounts),
        "own_numbers": request.get("found_numbers", []),
        **there,
        **(remains_of(root, request, there) if request.get("is_new") else {}),
        **hardware.facts(root, request),
        **gpu_facts(root, request.get("gpu_files", ()), request.get("plugin_directories", ())),
        "cgroup": cgroups.read(root),
        "ssh_host_keys": ssh_host_keys(root),
        "public_key": public_key(root, accounts),
        **keys(root, is_told=bool(request.get("with_munge_key"))),
        **slurm(root, request, accounts),
        "services": services(root, tuple(request.get("services", ()))),
        "boot": boot(),
        "mail_program": mail_program(root),
        **made_here(root),
        "enforces_selinux": "1" in read_text(root + "/sys/fs/selinux/enforce"),
        "ufw": "ENABLED=yes" in read_text(root + "/etc/ufw/ufw.conf").split(),
        **user_namespaces(root, request.get("namespace_programs", ())),
        **read_site_files(root, request.get("site_files", ())),
        "registry_ca": registry_ca(root),
        "clock": time.time(),
    }


def user_namespaces(root: str, asked: Iterable[str]) -> Dict[str, Any]:
    """The programs that make user namespaces for users, and the files of AppArmor's profiles that may be about these.

    Nothing where AppArmor denies these namespaces to nobody. `asked`: patterns of their paths (glob(7)).
    """
    if read_text(root + RESTRICTS_NAMESPACES) != "1":
        return {}
    import glob  # few hosts deny them

    found = {path[len(root) :] for one in asked for path in glob.glob(glob.escape(root) + one)}
    texts = {name: read_text(root + PROFILES + name) for name in names(root + PROFILES)}
    for name in names(root + PROFILES + "disable"):
        texts.pop(name, None)
    about = {name: text for name, text in texts.items() if any(os.path.basename(path) in text for path in found)}
    return {"namespace_programs": sorted(found), "apparmor_profiles": about}


def made_here(root: str) -> Dict[str, List[str]]:
    """The programs that slurmfab has put here, the capabilities for which it has files, and the packages."""
    return {
        "programs": names(root + PROGRAMS),
        "owned": [name[: -len(".json")] for name in names(root + OWNED) if name.endswith(".json")],
        "added_packages": read_text(root + ADDED_PACKAGES).split(),
    }


def packages(root: str, asked: Iterable[str]) -> Dict[str, Any]:
    """The versions of packages that are installed, and those that are there and not completely installed."""
    status, asked = dpkg_status.read(root), tuple(asked)
    if not status and os.path.exists(root + rpm_database.RPM):
        there = dict(rpm_database.rows(printed(rpm_database.query(root, asked))))
        return {"packages": there, "unfinished_packages": [one for one in rpm_database.unended(root) if one in asked]}
    there = dpkg_status.versions(status, asked)
    states = dpkg_status.states(status, [name for name in asked if name not in there])
    return {"packages": there, "unfinished_packages": [name for name in states if states[name] != "installed"]}


def remains_of(root: str, request: Mapping[str, Any], found: Mapping[str, Any]) -> Dict[str, Any]:
    """What another installation of Slurm has left on a host that is new. `found`: the packages that it has."""
    from slurmfab.on_hosts.agent.facts import remains  # a host of the lock is not judged by them

    has_slurm = any(name.startswith("slurm") for key in ("packages", "unfinished_packages") for name in found[key])
    return {"remains": remains.read(root, request.get("slurm_programs", ()), has_packages=has_slurm)}


def ids(root: str, accounts: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """The UIDs and GIDs that are taken here, and the UIDs of running processes."""
    return {
        "uids": taken(root + "/etc/passwd", {str(one["uid"]): name for name, one in accounts.items()}),
        "gids": taken(root + "/etc/group", {}),
        "subordinate": subordinate(root),
        "busy_uids": busy_uids(),
    }


def subordinate(root: str) -> List[List[int]]:
    """The ranges of subordinate IDs that have some of the numbers of people, each as first and last one."""
    found = {(first, min(last, LAST_OF_PEOPLE)) for _, first, last, _ in ranges(root)}
    return [[first, last] for first, last in sorted(found) if first <= last >= FIRST_OF_PEOPLE][:MOST_RANGES]


def ranges(root: str) -> Iterator[List[Any]]:
    """The ranges of subordinate IDs (subuid(5)): the kind, the first and the last one, and whose they are."""
    for kind in ("uid", "gid"):
        for one in entries(root + "/etc/sub" + kind):
            if len(one) == 3 and one[1].isdecimal() and one[2].isdecimal() and int(one[2]) > 0:  # noqa: PLR2004
                yield [kind, int(one[1]), min(int(one[1]) + int(one[2]) - 1, LAST - 1), "subordinate to " + one[0]]


def gpu_facts(root: str, named: Iterable[str], directories: Iterable[str]) -> Dict[str, Any]:
    """The GPUs with and without a device file, and what Slurm has for them."""
    found = gpus.read(root, named)
    return {
        "gpus": found,
        "driverless_gpus": gpus.without_driver(root, found),
        "gpu_plugins": gpu_plugins(root, directories),
    }


def keys(root: str, *, is_told: bool) -> Dict[str, Any]:
    """The keys of munge and of slurmrestd's tokens, if they are to be told, and whether there is the latter."""
    munge, tokens = (key_in(root + path) if is_told else "" for path in (MUNGE_KEY, JWT_KEY))
    return {"munge_key": munge, "jwt_key": tokens, "has_jwt_key": os.path.lexists(root + JWT_KEY)}


def key_in(path: str) -> str:
    """The key in a file in base64, empty if there is none."""
    return binascii.b2a_base64(read_bytes(path), newline=False).decode()


def registry_ca(root: str) -> str:
    """The certificate by which the cluster's own image registry is known; empty where there is none."""
    text = read_text(root + REGISTRY_CA)
    return text if CERTIFICATE.fullmatch(text) else ""


def gpu_plugins(root: str, directories: Iterable[str]) -> List[str]:
    """The values that AutoDetect can have here (gres.conf(5)), by the names of Slurm's installed GPU plugins."""
    folders = [*names(root + LIBRARIES), "../lib64"]
    places = ["%s/%s/%s" % (root + LIBRARIES, folder, one) for folder in folders for one in directories]
    found = {name for place in places for name in names(place)}
    return [name for name in AUTODETECT if "gpu_%s.so" % name in found]


def mail_program(root: str) -> str:
    """The program for slurmctld's mail (slurm.conf(5), MailProg); empty if mail cannot be sent.

    Debian's mailers pass mail to `sendmail`, which every mail system provides; they fail without it.
    """
    has_system = any(os.access(root + path, os.X_OK) for path in MAIL_SYSTEMS)
    return next((path for path in MAILERS if has_system and os.access(root + path, os.X_OK)), "")


def slurm(root: str, request: Mapping[str, Any], accounts: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """What Slurm this host has: its versions, its use by clusters, and the files that are asked for.

    A controller that is new to the deployer sends its files unasked: they say which nodes its cluster has.
    """
    use = slurm_use.read(root, request, accounts)
    is_new_controller = bool(request.get("is_new")) and slurm_use.is_controller(hostname(), use["marks"])
    versions = slurm_versions.read(root, request.get("slurm_programs", ()))
    return {
        "slurm_use": use,
        "cluster_id": slurm_use.cluster_id(root, request.get("state_directories", ())),
        "slurm_versions": versions,
        "restarted_by_others": restarted_by_others(root),
        **slurm_files(root, bool(request.get("with_slurm_conf")) or is_new_controller),
    }


def slurm_files(root: str, is_wanted: bool) -> Dict[str, Any]:
    """Whether slurmd fetches Slurm's files, the texts of the host's own files, and a digest of a hand-made slurm.conf.

    Missing and unwanted files are empty texts. The small job_container.conf is always told, and hand-made files of
    `OF_EACH_HOST` are. Files are told with all that they include. `is_wanted`: whether to tell the other files.
    """
    contents = {name: whole(root + path, conf_bytes(root + path)) for name, path in SLURM_FILES.items()}
    told = {
        name: content if is_wanted or name == JOB_CONTAINER or is_own(name, content) else b""
        for name, content in contents.items()
    }
    conf = contents["slurm_conf"]
    own = b"" if conf.startswith(MADE_BY_SLURMFAB.encode()) else conf.decode(errors="replace").encode()
    return {
        "fetches": os.path.exists(root + CONFIGLESS_DROP_IN),
        "conf_server": "" if conf else conf_server(root),
        "slurm_conf_digest": slurm_use.digest(own),
        "slurm_conf_parts": parts(root + SLURM_FILES["slurm_conf"]) if is_wanted else {},
        **{name: content.decode(errors="replace") for name, content in told.items()},
    }


def conf_server(root: str) -> str:
    """The `--conf-server` that the site, and not slurmfab, has given to slurmd; empty for none."""
    if os.path.exists(root + CONFIGLESS_DROP_IN):
        return ""
    folder = root + os.path.dirname(CONFIGLESS_DROP_IN)
    units = ["%s/%s" % (folder, name) for name in names(folder)] + [root + "/etc/systemd/system/slurmd.service"]
    for path in (*map(root.__add__, SLURMD_OPTIONS), *units):
        found = CONF_SERVER.search(read_bytes(path))
        if found:
            return found[1].decode()
    return ""


def restarted_by_others(root: str) -> List[str]:
    """The daemons of which a unit or a drop-in that is not slurmfab's says whether systemd starts them again."""
    found = []
    for daemon in RESTARTED:
        folders = ["%s/%s.service.d" % (root + place, daemon) for place in UNITS]
        drop_ins = ["%s/%s" % (folder, name) for folder in folders for name in names(folder) if not is_ours(name)]
        units = ["%s/%s.service" % (root + place, daemon) for place in UNITS]
        if any(RESTART.search(read_bytes(path)) for path in (*units, *drop_ins)):
            found.append(daemon)
    return found


def is_ours(drop_in: str) -> bool:
    """Whether a drop-in of a unit is slurmfab's, or no drop-in, by its name."""
    return drop_in.startswith(OUR_DROP_INS) or not drop_in.endswith(".conf")


def parts(path: str) -> Dict[str, str]:
    """The texts of a slurm.conf and what it includes, by name; none if it includes nothing, or elsewhere."""
    found: Dict[str, str] = {}

    def read(path: str) -> bytes:
        content = read_included(path)
        found[path] = content.decode(errors="replace")
        return content

    content = conf_bytes(path)
    found[path] = content.decode(errors="replace")
    whole(path, content, read)
    directory = os.path.dirname(path)
    is_here = len(found) > 1 and all(os.path.dirname(name) == directory for name in found)
    return {os.path.basename(name): text for name, text in found.items()} if is_here else {}


def is_own(name: str, content: bytes) -> bool:
    """Whether a file that may differ between hosts was made by hand."""
    return name in OF_EACH_HOST and len(content) < MOST_BYTES and not content.startswith(MADE_BY_SLURMFAB.encode())


def boot() -> str:
    """A mark that changes with each boot: the kernel's boot ID and the start of PID 1.

    The start matters in containers, which share a kernel. It is in ticks since the kernel's boot, shifted by a time
    namespace (proc(5), time_namespaces(7)).
    """
    start = read_text("/proc/1/stat").rpartition(")")[2].split()[19:20]
    shifts = dict(line.split()[:2] for line in read_text("/proc/1/timens_offsets").splitlines())
    ticks = int(start[0]) - int(shifts.get("boottime", 0)) * os.sysconf("SC_CLK_TCK") if start else 0
    return "%s %d" % (read_text("/proc/sys/kernel/random/boot_id"), ticks)


def read_accounts(root: str, users: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """UID, GID, home and shell of those users that exist, by name: by NSS, or /etc/passwd below another root."""
    if root:
        local = {fields[0]: fields for fields in entries(root + "/etc/passwd")}
        return {
            user: {"uid": int(one[2]), "gid": int(one[3]), "home": one[5], "shell": one[6]}
            for user, one in ((user, local[user]) for user in users if user in local)
        }
    import pwd  # only for the real root

    found = {}
    for user in users:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            continue
        found[user] = {"uid": entry.pw_uid, "gid": entry.pw_gid, "home": entry.pw_dir, "shell": entry.pw_shell}
    return found


def read_groups(root: str, groups: Iterable[str]) -> Dict[str, int]:
    """GIDs of the groups that exist here, by name. NSS is asked; with another root only /etc/group is read."""
    if root:
        local = {fields[0]: int(fields[2]) for fields in entries(root + "/etc/group")}
        return {group: local[group] for group in groups if group in local}
    import grp

    found = {}
    for group in groups:
        try:
            found[group] = grp.getgrnam(group).gr_gid
        except KeyError:
            continue
    return found


MEMBERS = """\
import grp, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = grp.getgrnam(name).gr_mem
    except KeyError:
        pass
print(json.dumps(found))
"""
"""Prints groups with their members, whose names getent(1) would print in rows of its own."""


def members(root: str, groups: Sequence[str]) -> Dict[str, List[str]]:
    """The members of the groups that exist here, by name. NSS is asked by a program, as a directory may be silent."""
    if root:
        found = {one[0]: one[3].split(",") for one in entries(root + "/etc/group") if one[0] in groups}
    else:
        found = json.loads((printed([sys.executable, "-I", "-S", "-c", MEMBERS, *groups]) if groups else "") or "{}")
    return {
        group: sorted({(name if name.isprintable() else ascii(name))[:255] for name in some} - {""})
        for group, some in found.items()
    }


def taken(path: str, more: Mapping[str, str]) -> Dict[str, str]:
    """Names by ID in a file as passwd(5) or group(5), and `more`: directory services are never listed."""
    listed = (fields for fields in entries(path) if len(fields) > 2 and fields[2].isdecimal())  # noqa: PLR2004
    return {**{fields[2]: fields[0] for fields in listed}, **more}


def busy_uids() -> List[int]:
    """UIDs of running processes: real, effective, saved and file system UID."""
    busy = {0}
    for pid in names("/proc"):
        if not pid.isdecimal():
            continue
        try:
            owner = os.stat("/proc/" + pid).st_uid
            if owner:
                busy.add(owner)
                continue
            # After a change of user the files in /proc may still belong to root; kernel threads have no exe.
            os.readlink("/proc/%s/exe" % pid)
        except OSError:
            continue
        status = read_bytes("/proc/%s/status" % pid).partition(b"\nUid:")[2].partition(b"\n")[0]
        busy.update(int(uid) for uid in status.split())
    return sorted(busy)


def system(root: str) -> Dict[str, str]:
    """Hostname, distribution, codename, architecture, and the version of the Python that runs the agent."""
    release = os_release(root)
    fields = {"os_id": "ID", "os_like": "ID_LIKE", "codename": "VERSION_CODENAME"}
    # As `platform:el9`, without a codename.
    release.setdefault("VERSION_CODENAME", release.get("PLATFORM_ID", "").rpartition(":")[2])
    return {
        "hostname": hostname(),
        **{fact: release.get(name, "") for fact, name in fields.items()},
        "architecture": dpkg_status.architecture(dpkg_status.read(root)) or os.uname().machine,
        "python": "%d.%d.%d" % sys.version_info[:3],
    }


def ssh_host_keys(root: str) -> Dict[str, str]:
    """sshd's public host keys in base64, by type."""
    keys = {}
    for name in names(root + "/etc/ssh"):
        if name.startswith("ssh_host_") and name.endswith("_key.pub"):
            fields = read_text(root + "/etc/ssh/" + name).split()
            if len(fields) > 1 and fields[0] in HOST_KEY_TYPES:
                keys[fields[0]] = fields[1]
    return keys


def public_key(root: str, accounts: Mapping[str, Mapping[str, Any]]) -> str:
    """The slurm user's SSH public key with the comment that `SshKey` gives it, empty if there is none."""
    home = accounts.get("slurm", {}).get("home", "")
    fields = read_text(root + home + "/.ssh/id_ed25519.pub").split() if home else []
    if len(fields) < 2 or fields[0] != SLURM_KEY:  # noqa: PLR2004 - type and key
        return ""
    is_ours = len(fields) == 3 and fields[2].startswith("slurm@") and "." not in fields[2]  # noqa: PLR2004
    return " ".join([*fields[:2], fields[2] if is_ours else "slurm@" + hostname()])


def hostname() -> str:
    """The host's own name, without a domain."""
    return os.uname().nodename.split(".")[0]


def services(root: str, units: tuple[str, ...]) -> Dict[str, str]:
    """ActiveState of the units that exist; empty if systemd does not run."""
    if not units or root or not os.path.isdir("/run/systemd/system"):
        return {}
    return service_states(units, printed(systemctl.show_command(units, ("LoadState", "ActiveState"))))


def printed(argv: Sequence[str]) -> str:
    """What a program prints; empty if it does not end in time."""
    import subprocess  # not every request needs it

    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def service_states(units: Sequence[str], shown: str) -> Dict[str, str]:
    """ActiveState by unit, for the units that exist, from the output of `systemctl show` for them."""
    return {
        unit: properties.get("ActiveState", "")
        for unit, properties in systemctl.parse_show(units, shown).items()
        if properties.get("LoadState") not in ("not-found", None)
    }
