"""Rules about the users of a cluster as users of the hosts."""

from __future__ import annotations

import re

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.public_keys import key_of, mistake
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.slurm.platform import DEBIAN

OF_THE_HOSTS = ("uid", "gid", "groups", "shell", "home", "comment", "keys", "sudo")
"""The fields of a user that concern the hosts; the others are for slurmdbd."""

SYSTEM_NAMES = (
    "_apt", "_chrony", "_rpc", "adm", "backup", "bin", "chrony", "daemon", "dbus", "dnsmasq", "games", "gnats",
    "halt", "irc", "list", "lp", "mail", "man", "messagebus", "munge", "mysql", "news", "nobody", "ntp",
    "nvidia-persistenced", "operator", "polkitd", "postgres", "proxy", "root", "shutdown", "slurm", "sshd",
    "statd", "sync", "sys", "syslog", "tss", "uucp", "www-data",
)  # fmt: skip
"""System users of base-passwd and of common packages, on Debian and other distributions."""

SERVICES = (
    "Debian-exim", "docker-registry", "jupyterhub", "mariadb", "nullmailer", "postfix", "prometheus",
    "prometheus-node-exporter", "node_exporter", "rpc", "rpcuser", "sackd", "slurmfab-jupyter", "slurmrestd", "sssd",
)  # fmt: skip
"""Users that run what slurmfab installs, before their packages or systemd have made them.

systemd takes a user of this name, wherever it comes from, in place of one of its own (systemd.exec(5), DynamicUser).
"""

SYSTEM_GROUPS = (
    # of base-passwd, with the same numbers below 100 on each host of Debian, and of Fedora's setup and systemd
    "audio", "backup", "bin", "cdrom", "cgred", "crontab", "daemon", "dialout", "dip", "fax", "floppy", "games", "irc",
    "list", "lock", "lp", "mail", "man", "mem", "news", "nogroup", "operator", "plugdev", "proxy", "src", "staff",
    "sys", "tape", "tty", "users", "utempter", "utmp", "video", "voice", "www-data",
    # of devices, which udev's rules give to them (sysusers.d of systemd)
    "clock", "input", "kvm", "rdma", "render", "sgx",
    # of packages that let members use something: ssl-cert, cups, samba, wireshark, plocate, mock, systemtap, openssh
    "bluetooth", "libvirt-dnsmasq", "lpadmin", "mlocate", "mock", "netdev", "plocate", "postdrop", "pulse-access",
    "sambashare", "scanner", "slocate", "ssh_keys", "ssl-cert", "stapdev", "stapsys", "stapusr", "tcpdump", "vboxusers",
    "winbindd_priv", "wireshark",
)  # fmt: skip
"""Groups that a host has or gets with a package.

A package whose group a directory has fails, or gives that group its key (adduser(8), sysusers.d(5)).
"""

OF_PACKAGES = (
    "avahi", "ceph", "clamav", "colord", "debian-tor", "dnsmasq", "dovecot", "fwupd-refresh", "geoclue", "haproxy",
    "libvirt-qemu", "libvirtdbus", "messagebus", "nginx", "nslcd", "ntpsec", "nvidia-persistenced", "openldap",
    "openvpn", "pcscd", "pesign", "polkitd", "pollinate", "pulse", "qemu", "rabbitmq", "redis", "rtkit", "saned",
    "stunnel4", "tftp", "tss", "usbmux", "usbmuxd", "uucp", "uuidd", "zabbix",
)  # fmt: skip
"""Users that packages make for their services, with groups of the same names."""

PREFIXES = ("_", "systemd-")
"""What such names begin with: Debian Policy 9.2.1 has the first for new packages, and systemd's own have the second."""

POWERFUL_GROUPS = (
    "root", "sudo", "wheel", "admin",  # may become root
    "docker", "lxd", "incus", "incus-admin", "libvirt",  # can start containers or machines with the host's disks
    "disk", "kmem", "shadow", "adm", "systemd-journal",  # can read or write what is root's: disks, passwords, logs
    "slurm", "munge", "mysql",  # have the cluster's keys and its database
)  # fmt: skip
"""Groups whose members control the system or the cluster, or can read its secrets, on any distribution."""

OTHER_WAYS = {"docker": "containers.docker.users"}
"""Where a cluster file names users of such a group openly, other than by `sudo`."""

SLURM_UID = DEBIAN.slurm.number
_FIRST_OF_PEOPLE = 1000
_NOBODYS_IDS = (65534, 65535)
_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+@-]+)+")
_LEAST_DEPTH = 2


def users_differ(cluster: Cluster) -> Complaints:
    """Names, homes and keys are unique: with a shared key, one user could log in as another."""
    names: dict[str, int] = {}
    homes: dict[str, str] = {}
    keys: dict[str, str] = {}
    for number, user in enumerate(cluster.users):
        if names.setdefault(user.name, number) != number:
            yield ("users", number, "name"), f'"{user.name}" is already the name of users[{names[user.name]}]'
            continue
        if homes.setdefault(user.home_directory, user.name) != user.name:
            owner = homes[user.home_directory]
            yield ("users", number, "home"), f'"{user.home_directory}" is already the home of {owner}'
        for place, key in enumerate(user.keys):
            if keys.setdefault(key_of(key), user.name) != user.name:
                yield ("users", number, "keys", place), f"this is already a key of {keys[key_of(key)]}"


def users_are_no_daemons(cluster: Cluster) -> Complaints:
    """Users do not have the name of a system user or group, and are in no group that amounts to being root."""
    for number, user in enumerate(cluster.users):
        if user.name in (*SYSTEM_NAMES, *SERVICES) or user.name.startswith("systemd-"):
            yield ("users", number, "name"), f'"{user.name}" is a system user; a person needs another name'
        elif user.name in POWERFUL_GROUPS:
            yield ("users", number, "name"), f'"{user.name}" is a system group; a person needs another name'
        for place, group in enumerate(user.groups):
            if group in POWERFUL_GROUPS:
                yield (
                    ("users", number, "groups", place),
                    f"members of {group} could take over the host or the cluster; see {OTHER_WAYS.get(group, 'sudo')}",
                )
            elif group == user.name:
                yield ("users", number, "groups", place), f'"{group}" is the user\'s own group already'


def numbers_are_free_to_use(cluster: Cluster) -> Complaints:
    """UIDs and GIDs are unique, and not those of system users; a user's GID is the UID by default."""
    daemons = {number: name for name, number in {"slurm": SLURM_UID, **cluster.ids}.items()}
    uids: dict[int, str] = {}
    gids: dict[int, str] = {}
    for number, user in enumerate(cluster.users):
        for key, value, taken in (("uid", user.uid, uids), ("gid", user.gid or user.uid, gids)):
            place: Place = ("users", number, key)
            chosen = user.uid if key == "uid" else user.gid
            if value is None:
                continue
            if chosen and chosen < _FIRST_OF_PEOPLE:
                yield place, f"{chosen} is reserved for system users; people have numbers from {_FIRST_OF_PEOPLE}"
            elif chosen and chosen in _NOBODYS_IDS:
                yield place, f"{chosen} cannot be a user's number"
            elif chosen and chosen in daemons:
                yield place, f"{chosen} is the number of {daemons[chosen]}"
            elif taken.setdefault(value, user.name) != user.name:
                owner = taken[value]
                yield place, f"{value} is already the {key.upper()} of {owner}"


def keys_are_public(cluster: Cluster) -> Complaints:
    """Keys are valid public keys: sshd ignores others, and the user could not log in."""
    for number, user in enumerate(cluster.users):
        for place, key in enumerate(user.keys):
            if reason := mistake(key):
                yield ("users", number, "keys", place), reason


def texts_suit_passwd(cluster: Cluster) -> Complaints:
    """Values for passwd(5) have neither colons nor line breaks; homes and shells are absolute paths."""
    for number, user in enumerate(cluster.users):
        for key, path in (("home", user.home_directory), ("shell", user.shell)):
            if not _PATH.fullmatch(path):
                yield (
                    ("users", number, key),
                    f'"{path}" is not an absolute path of letters, digits and _ . + @ -, such as /home/ann',
                )
        if user.home_directory.count("/") < _LEAST_DEPTH:
            yield ("users", number, "home"), f'"{user.home_directory}" cannot be the home of one person'
        if ":" in user.comment or not user.comment.isprintable():
            yield ("users", number, "comment"), "it goes into a line of /etc/passwd: no colon and no line break"


def a_directory_service_has_the_rest(cluster: Cluster) -> Complaints:
    """With `unix_users: false` no fields about users on the hosts are set, as they would have no effect."""
    for number, user in enumerate(cluster.users if not cluster.unix_users else ()):
        for key in OF_THE_HOSTS:
            if key in user.model_fields_set:
                yield (
                    ("users", number, key),
                    "it has no effect with unix_users: false: slurmfab makes no users on the hosts",
                )


"""The rules of this module."""
