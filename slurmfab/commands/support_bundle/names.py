"""Which names a bundle has: of people, hosts, other machines, domains and accounts, for `--anonymous`."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable, Iterator, Mapping

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.hostnames import other_machines
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.support_bundle import free_texts
from slurmfab.commands.support_bundle.gathering import Gathered
from slurmfab.commands.support_bundle.pseudonyms import WORDS, Names
from slurmfab.core.engine import record
from slurmfab.core.engine.run import Run

FIRST_UID, LAST_UID = 1000, 59_999  # UIDs of people (login.defs(5)); others are users of the system
MOST_FOUND = 20_000  # the most names of machines that texts tell

SYSTEM_GROUPS = frozenset(
    ("adm", "audio", "docker", "disk", "plugdev", "render", "staff", "sudo", "tty", "video", "wheel")
)

PUBLIC = (
    "schedmd.com", "debian.org", "ubuntu.com", "canonical.com", "kernel.org", "gnu.org", "github.com", "python.org",
    "nvidia.com", "freedesktop.org", "systemd.io", "docker.io", "quay.io", "mariadb.org", "openssh.com",
)  # fmt: skip
"""Domains that tell nothing about a site."""

TOP_LEVELS = (
    "com|org|net|edu|gov|mil|int|info|eu|local|lan|internal|intern|intra|intranet|private|home|corp|cluster|hpc|site"
    "|test|example|invalid|localdomain|arpa|cloud|dev|io|ai|app|de|ch|at|fr|it|uk|us|nl|be|se|no|fi|dk|cz|es|pt|gr|ie"
    "|hu|ro|si|sk|lt|lv|ee|lu|is|tr|il|cn|jp|kr|tw|sg|hk|au|nz|ca|mx|br|ar|cl|za|ru|ua|bg|hr"
)
"""How names of machines end; not those that are also endings of files, such as `so`, `sh` and `py`."""

_IN_TEXTS = (
    re.compile(r"(?<![\w./@-])((?=[A-Za-z_-]{1,63}[\d.])[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}):/(?![/\s])"),
    re.compile(r"(?<![:\w/])//((?=[A-Za-z_-]{1,63}[\d.])[A-Za-z][\w.-]{0,252})/"),
    re.compile(r"://(?:[^\s/@\"']{1,256}@)?([A-Za-z][\w.-]{0,252})"),
    re.compile(rf"(?<![\w.-])((?:[A-Za-z0-9_-]{{1,63}}\.){{1,8}}(?:{TOP_LEVELS}))(?![\w-]|\.\w)"),
    re.compile(r"(?i)\b(?:connect(?:ing|ion)? to(?: host| address)?|server|relay|hostname|host|rhost)[ =:]{1,3}[\"']?"
               r"([a-z][\w-]{0,62}\d[\w.-]{0,190})"),
)  # fmt: skip
_LOGINS = (
    re.compile(r"\bUserId=([A-Za-z_][\w.-]{0,63})\("),
    re.compile(r"\buid=\d{1,10}\(([A-Za-z_][\w.-]{0,63})\)"),
    re.compile(r"/home/([A-Za-z_][\w.-]{0,63})(?![\w-])"),
    re.compile(r"(?:Accepted|Failed) \w{1,32} for (?:invalid user )?([A-Za-z_][\w.-]{0,63}) from "),
    re.compile(r"session (?:opened|closed) for user ([A-Za-z_][\w.-]{0,63})"),
)


def names_of(run: Run, gathered: Gathered, files: Mapping[str, str]) -> Names:
    """What gets other names in a bundle."""
    known = run.inventory
    cluster = known.cluster
    hosts = tuple(dict.fromkeys((*cluster.hosts, socket.gethostname().partition(".")[0])))
    neighbours = (one for answer in gathered.answers.values() for one in answer.neighbours)
    found = {one.lower().strip(".") for one in (*neighbours, *named_machines(cluster), *machines_in(files.values()))}
    domains = {domain.lower() for answer in gathered.answers.values() for domain in answer.domains}
    domains |= {one.partition(".")[2] for one in found if one.count(".") > 1}
    domains |= {one for one in found if one.count(".") == 1}
    own = {host.lower() for host in hosts}
    machines = {one.partition(".")[0] for one in found if one not in domains} - own - WORDS - {""}
    accounts = {account.name for account in cluster.accounts} | {one for user in cluster.users for one in user.groups}
    written = (account.description for account in cluster.accounts)
    return Names(
        hosts,
        cluster.name,
        people(known, gathered, files.values()),
        tuple(one for one in machines if not one.replace("-", "").isdigit()),
        tuple(one for one in domains if one and not one.endswith(PUBLIC)),
        tuple(accounts - SYSTEM_GROUPS),
        (*free_texts.reasons(files.values()), *(one for one in written if " " in one)),
    )


def named_machines(cluster: Cluster) -> Iterator[str]:
    """Yield names of other machines in keys of the cluster file where texts around them do not tell it."""
    yield from other_machines(cluster)
    for place in (*cluster.addresses.values(), *cluster.ssh.endpoints.values()):
        name = re.match(r"(?:[^@\s]*@)?([A-Za-z][A-Za-z0-9.-]*)", place.strip())
        if name:
            yield name[1]


def machines_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield names of machines that texts have where only a machine can be."""
    found: set[str] = set()
    for text in texts:
        for pattern in _IN_TEXTS:
            for name in pattern.findall(text):
                if len(found) < MOST_FOUND and not name.lower().endswith(PUBLIC):
                    found.add(name)
    yield from found


def people(known: Inventory, gathered: Gathered, texts: Iterable[str]) -> dict[str, str]:
    """The full names, with commas between them, of people whom the cluster, hosts, records or texts name, by login."""
    logins = {login for text in texts for pattern in _LOGINS for login in pattern.findall(text)}
    logins |= {login for login in (known.cluster.ssh.user, getpass.getuser()) if login}
    logins |= {one.by.partition("@")[0] for one in record.load_all(known.path)[0]}
    for answer in gathered.answers.values():
        uids = answer.facts.uids if answer.facts else {}
        logins |= {name for uid, name in uids.items() if FIRST_UID <= uid <= LAST_UID}
    named = [(user.name, user.comment) for user in known.cluster.users]
    named += [one for answer in gathered.answers.values() for one in answer.people]
    full_names = {login: dict.fromkeys(("",)) for login in logins}
    for login, full_name in named:
        full_names.setdefault(login, {})[full_name] = None
    return {login: ",".join(filter(None, one)) for login, one in full_names.items() if login}
