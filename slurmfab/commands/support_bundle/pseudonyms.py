"""Other names for people, hosts, domains, addresses and the cluster, the same in a whole bundle (`--anonymous`)."""

from __future__ import annotations

import getpass
import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slurmfab.base.errors import HostlistError
from slurmfab.base.hostlist import count_names, expand, fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.hostnames import other_machines
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.support_bundle import free_texts
from slurmfab.commands.support_bundle.gathering import Gathered
from slurmfab.commands.support_bundle.redaction import UUID
from slurmfab.core.engine import record
from slurmfab.core.engine.run import Run

KEPT_USERS = frozenset({"root", "slurm", "munge", "nobody", "nogroup", "mysql", "daemon", "sshd"})
WORDS = frozenset(
    """
    account accounts address admin all allocated and are auth auto backup batch bin boot by cgroup cluster command
    compute conf config configuration connect connection controller core count cpu cpus ctld daemon data database
    debug default degraded deploy deployment device disk done down drain drained drop end error etc exit failed
    false fatal file files for found from gpu gpus gres group has home host hosts idle info init is job jobs kernel
    kill lib limit list load local localhost log login main mem memory mode name net network new nfs no node nodes
    none not null of ok old on opt or partition path pid plugin port power proc proxy queue reason relay resume root
    run running server service services set shared signal site size slurm slurmctld slurmd slurmdbd slurmfab socket
    srun srv start state status step stop storage suspend sys system task tasks test the time timeout tmp to true
    type uid unit unknown up use user users usr var version wait warning was with work yes
    """.split()  # noqa: SIM905 - a list of so many words is easier to read and to keep so
)
"""Words of Slurm's and systemd's messages. A name that is one of them gets another name only where it is surely a name,
because nobody could read the messages otherwise."""

MOST_NAMES = 20_000  # the most names of a hostlist that is expanded

MOST_NETWORKS = 1_000
LEAST_PART = 3  # characters of the shortest part of a full name that is looked for by itself
NETWORKS = {4: 24, 6: 64}  # bits of the network of an address for which no text tells them, by the version

_HOSTLIST = re.compile(r"(?<![A-Za-z0-9-])[A-Za-z][A-Za-z0-9-]{0,62}\[[0-9,-]{1,4000}\]")
_WORD = re.compile(r"[^\W_]+")
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_ADDRESSES = re.compile(r"(?<![\w.])(?:\d{1,3}\.){1,3}\[[0-9,-]{1,4000}\](?:\.\d{1,3}){0,2}")
_HARDWARE = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_ADDRESS_6 = re.compile(r"(?<![\w:])[0-9A-Fa-f:]{3,45}(?![\w:])")
_NETWORK = re.compile(r"(?<![\w.:])([0-9A-Fa-f:.]{3,45})/(\d{1,3})(?!\d)")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b")
_PUBLIC_KEY = re.compile(
    r"\b(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-\S{1,20}|sk-\S{1,40}) AAAA[A-Za-z0-9+/=]+(?: [^\n\"',]*)?"
)
_FINGERPRINT = re.compile(r"\bSHA256:[A-Za-z0-9+/]{43}")
_UNITS = (".service", ".slice", ".socket", ".mount", ".target", ".timer", ".scope", ".path", ".device")
_BETWEEN = re.compile(r"[\s._,+-]{1,3}")  # what may be between the words of a full name


@dataclass(frozen=True)
class Names:
    """What gets other names."""

    hosts: tuple[str, ...]  # the cluster's hosts, in its order
    cluster: str = ""
    people: Mapping[str, str] = field(default_factory=dict)  # full name by login; empty where it is not known
    machines: tuple[str, ...] = ()  # names of other machines
    domains: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()  # names of accounts and groups
    texts: tuple[str, ...] = ()  # texts that people wrote


class Pseudonyms:
    """Gives each name another one, in the order of coming; the texts of the bundle tell the networks."""

    def __init__(self, names: Names, texts: Iterable[str] = ()) -> None:
        self.hosts = {name.lower(): f"host{number}" for number, name in enumerate(names.hosts, 1)}
        self.networks = sorted(networks(texts), key=lambda one: -one.prefixlen)
        self.texts = {text: f"(text-{number})" for number, text in enumerate(names.texts, 1)}
        self.others: dict[str, dict[str, str]] = {}
        self.phrases: dict[str, list[tuple[str, str]]] = {}
        self.full_names: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self.surely: dict[str, str] = {}
        for name, other in self.known(names):
            self.add(name.lower(), other)
        people = sorted(set(names.people) - KEPT_USERS - self.hosts.keys())
        for number, login in enumerate(people, 1):
            self.add_full_name(names.people[login], f"person{number}")
        for phrases in self.phrases.values():
            phrases.sort(key=lambda one: -len(one[0]))
        for full_names in self.full_names.values():
            full_names.sort(key=lambda one: -len(one[0]))
        self.surely_named = sure_places(self.surely)

    def known(self, names: Names) -> Iterator[tuple[str, str]]:
        """Yield each name with its other one; what comes first counts."""
        yield from self.hosts.items()
        people = sorted(set(names.people) - KEPT_USERS - self.hosts.keys())
        yield from ((name, f"user{number}") for number, name in enumerate(people, 1))
        if names.cluster:
            yield names.cluster, "cluster1"
        domains = sorted({name.lower() for name in names.domains}, key=lambda name: (-len(name), name))
        yield from ((name, f"domain{number}") for number, name in enumerate(domains, 1))
        yield from ((name, f"server{number}") for number, name in enumerate(sorted(set(names.machines)), 1))
        yield from ((name, f"account{number}") for number, name in enumerate(sorted(set(names.accounts)), 1))

    def add(self, name: str, other: str) -> None:
        """Have a name get another one, unless it has one."""
        first = _WORD.search(name)
        if first is None or name in KEPT_USERS or any(name == one for one, _ in self.phrases.get(first[0], ())):
            return
        if name in WORDS and name not in self.hosts:
            self.surely.setdefault(name, other)
        else:
            self.phrases.setdefault(first[0], []).append((name, other))

    def add_full_name(self, full_name: str, other: str) -> None:
        """Have the fields of a comment in passwd(5), and the words of a full name, get another name."""
        for part in full_name.lower().split(","):
            words = tuple(_WORD.findall(part))
            spellings = {words, words[::-1], (*words[-1:], *words[:-1]), ("".join(words),), ("".join(words[::-1]),)}
            if len("".join(words)) > LEAST_PART:
                spellings |= {(word,) for word in words if is_part(word)}
                for spelling in sorted(spellings):
                    known = self.full_names.setdefault(spelling[0], [])
                    if all(one != spelling for one, _ in known) and " ".join(spelling) not in self.phrases:
                        known.append((spelling, other))

    def knows(self, text: str) -> bool:
        """Whether a text has a name that gets another one."""
        return self.text(text) != text

    def text(self, text: str) -> str:
        """A text with other names."""
        for words, other in self.texts.items():
            text = text.replace(words, other)
        text = _PUBLIC_KEY.sub(lambda found: self.other("public-key", found[0]), text)
        text = _FINGERPRINT.sub(lambda found: self.other("fingerprint", found[0]), text)
        text = _MAIL.sub(lambda found: self.mail(found[0]), text)
        text = UUID.sub(lambda found: self.other("uuid", found[0].lower()), text)
        text = _HARDWARE.sub(lambda found: self.other("mac", found[0].lower()), text)
        text = _ADDRESSES.sub(lambda found: self.addresses(found[0]), text)
        text = _ADDRESS.sub(lambda found: self.address(found[0]), text)
        text = _ADDRESS_6.sub(lambda found: self.address(found[0]), text)
        text = _HOSTLIST.sub(lambda found: self.hostlist(found[0]), text)
        if self.surely:
            text = self.surely_named.sub(lambda found: found[1] + self.surely[found[2].lower()], text)
        return "".join(self.replaced(text))

    def replaced(self, text: str) -> Iterator[str]:
        """Yield the parts of a text with other names in the places of words."""
        end = 0
        for word in _WORD.finditer(text):
            first = word.start()
            if first < end:
                continue
            key = word[0].lower()
            if key in self.full_names:
                for spelling, other in self.full_names[key]:
                    after = end_of(text, word.end(), spelling[1:])
                    if after:
                        yield text[end:first] + other
                        end = after
                        break
            if first >= end and key in self.phrases:
                for name, other in self.phrases[key]:
                    if text[first : first + len(name)].lower() == name and is_end(text, first + len(name)):
                        yield text[end:first] + other
                        end = first + len(name)
                        break
        yield text[end:]

    def other(self, kind: str, name: str) -> str:
        """The other name of something, by its kind."""
        names = self.others.setdefault(kind, {})
        return names.setdefault(name, f"{kind}{len(names) + 1}")

    def mail(self, name: str) -> str:
        """The other name of a mail address; units of systemd with an instance look like one."""
        return name if name.endswith(_UNITS) else self.other("mail", name.lower())

    def address(self, text: str) -> str:
        """The other name of an IP address, which tells its network; one that every host has stays."""
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return text
        if found.is_loopback or found.is_unspecified or found.is_multicast or text.startswith("255."):
            return text
        wide = ipaddress.ip_network(f"{found}/{NETWORKS[found.version]}", strict=False)
        network = next((one for one in self.networks if one.version == found.version and found in one), wide)
        return f"{self.other('net', str(network))}-{self.other('address', str(found))}"

    def addresses(self, text: str) -> str:
        """The other names of folded addresses."""
        try:
            return fold(self.address(one) for one in (expand(text) if count_names(text) <= MOST_NAMES else ()))
        except HostlistError:
            return self.other("addresses", text)

    def hostlist(self, text: str) -> str:
        """The other names of the hosts of a hostlist, folded; a text without hosts of the cluster stays."""
        if count_names(text) > MOST_NAMES:
            return text
        try:
            names = expand(text)
        except HostlistError:
            return text
        if not any(name.lower() in self.hosts for name in names):
            return text
        return fold(self.hosts.get(name.lower()) or self.other("other-host", name) for name in names)


def networks(texts: Iterable[str]) -> set[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The networks that texts name with their bits, as `ip address` does."""
    found: set[ipaddress.IPv4Network | ipaddress.IPv6Network] = set()
    for text in texts:
        for address, bits in _NETWORK.findall(text):
            try:
                network = ipaddress.ip_network(f"{address}/{bits}", strict=False)
            except ValueError:
                continue
            if 0 < network.prefixlen < network.max_prefixlen - 1 and len(found) < MOST_NETWORKS:
                found.add(network)
    return found


def sure_places(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern for where a word is surely a name: in a home directory, or after a key."""
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    key = r"(?:user|userid|username|account|cluster|clustername|group)[ \t]{0,8}[\"']?[=:(][ \t]{0,8}[\"']?"
    return re.compile(rf"(?i)(/home/|\b{key})({words})(?![\w-])")


def is_part(word: str) -> bool:
    """Whether a word of a full name is looked for by itself; numbers of rooms are not."""
    return len(word) >= LEAST_PART and word.isalpha() and word not in WORDS | KEPT_USERS


def is_end(text: str, place: int) -> bool:
    """Whether a name may end at a place of a text."""
    return place >= len(text) or not text[place].isalnum()


def end_of(text: str, place: int, words: tuple[str, ...]) -> int:
    """Where words end that follow at a place of a text; 0 if others do."""
    for expected in words:
        between = _BETWEEN.match(text, place)
        word = _WORD.match(text, between.end()) if between else None
        if word is None or word[0].lower() != expected:
            return 0
        place = word.end()
    return place


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
