"""Other names for users, hosts and addresses, the same in the whole bundle, for `--anonymous`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping

from slurmfab.errors import HostlistError
from slurmfab.hostlist import count_names, expand, fold

KEPT_USERS = frozenset({"root", "slurm", "munge", "nobody", "mysql", "daemon", "sshd"})
MOST_NAMES = 20_000
"""The most names of a hostlist that is expanded."""

MOST_PARTS = 16
"""The most parts of a name with dots and hyphens that are looked up together."""

_HOSTLIST = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}\[[0-9,-]{1,4000}\]")
_WORD = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*")
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_ADDRESSES = re.compile(r"(?<![\w.])(?:\d{1,3}\.){1,3}\[[0-9,-]{1,4000}\](?:\.\d{1,3}){0,2}")
_HARDWARE = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_ADDRESS_6 = re.compile(r"(?<![\w:])[0-9A-Fa-f:]{3,45}(?![\w:])")
_MAIL = re.compile(r"[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b")
_PUBLIC_KEY = re.compile(
    r"\b(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-\S{1,20}|sk-\S{1,40}) AAAA[A-Za-z0-9+/=]+(?: [^\n\"',]*)?"
)
_UNITS = (".service", ".slice", ".socket", ".mount", ".target", ".timer", ".scope", ".path", ".device")


class Pseudonyms:
    """Gives each name another one, by the order in which names come.

    Args:
        hosts: the hosts, in the cluster's order.
        users: names of users.
        domains: DNS domains.
    """

    def __init__(self, hosts: Iterable[str], users: Iterable[str], domains: Iterable[str]) -> None:
        self.hosts = {name: f"host{number}" for number, name in enumerate(hosts, 1)}
        named = sorted(set(users) - KEPT_USERS - self.hosts.keys())
        places = sorted(set(domains) - self.hosts.keys(), key=lambda name: (-len(name), name))
        self.words: dict[str, str] = {
            **{name: f"user{number}" for number, name in enumerate(named, 1)},
            **{name: f"domain{number}" for number, name in enumerate(places, 1)},
            **self.hosts,
        }
        self.others: dict[str, dict[str, str]] = {}

    def text(self, text: str) -> str:
        """A text with other names."""
        text = _PUBLIC_KEY.sub(lambda found: self.other("public-key", found[0]), text)
        text = _MAIL.sub(lambda found: self.mail(found[0]), text)
        text = _HARDWARE.sub(lambda found: self.other("mac", found[0].lower()), text)
        text = _ADDRESSES.sub(lambda found: self.other("addresses", found[0]), text)
        text = _ADDRESS.sub(lambda found: self.address(found[0]), text)
        text = _ADDRESS_6.sub(lambda found: self.address(found[0]), text)
        text = _HOSTLIST.sub(lambda found: self.hostlist(found[0]), text)
        return _WORD.sub(lambda found: self.word(found[0]), text)

    def other(self, kind: str, name: str) -> str:
        """The other name of something, by its kind."""
        names = self.others.setdefault(kind, {})
        return names.setdefault(name, f"{kind}{len(names) + 1}")

    def mail(self, name: str) -> str:
        """The other name of a mail address; units of systemd with an instance look like one."""
        return name if name.endswith(_UNITS) else self.other("mail", name)

    def address(self, text: str) -> str:
        """The other name of an IP address; a text that is none, and addresses that every host has, stay."""
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return text
        return text if found.is_loopback or found.is_unspecified else self.other("address", str(found))

    def hostlist(self, text: str) -> str:
        """The other names of the hosts of a hostlist, folded; a text without hosts of the cluster stays."""
        if count_names(text) > MOST_NAMES:
            return text
        try:
            names = expand(text)
        except HostlistError:
            return text
        if not any(name in self.hosts for name in names):
            return text
        return fold(self.hosts.get(name) or self.other("other-host", name) for name in names)

    def word(self, text: str) -> str:
        """A word in which each name that is known has its other one; the longest counts."""
        if text in self.words:
            return self.words[text]
        parts = re.split(r"([._-]+)", text)
        return text if len(parts) == 1 else "".join(replaced(parts, self.words))


def replaced(parts: list[str], words: Mapping[str, str]) -> Iterable[str]:
    """Yield the parts of a word, or other names for several of them together."""
    first = 0
    while first < len(parts):
        for end in range(min(len(parts), first + MOST_PARTS), first, -1):
            other = words.get("".join(parts[first:end]))
            if other is not None:
                yield other
                first = end
                break
        else:
            yield parts[first]
            first += 1
