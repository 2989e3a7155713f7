"""Plain lists of hosts, lists as in /etc/hosts, genders databases, and the nodes of a slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmfab.base.errors import HostlistError, InputError
from slurmfab.base.hostlist import entries, expand, expand_endpoints, fold
from slurmfab.base.ip_addresses import Address, is_loopback, parsed
from slurmfab.cluster.host_files.host_file import HostFile, ListedHost
from slurmfab.cluster.slurm.conf_text import parse

COMMENT = re.compile(r"#.*")


def lines_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and words of each line that has words; comments begin with #."""
    for number, line in enumerate(text.splitlines(), 1):
        words = COMMENT.sub("", line).split()
        if words:
            yield number, words


def parse_plain(text: str, where: str) -> HostFile:
    """Read a list: names, addresses or hostlists between spaces, commas or lines; or lines as in /etc/hosts.

    A line is as in /etc/hosts(5) if an address is first and a name follows; addresses that are no host's, such as
    127.0.0.1 and multicast, are passed over. Raises InputError if a line is neither; the message has its number.
    """
    hosts: dict[str, ListedHost] = {}
    for number, words in lines_of(text):
        for host in plain_line(words, f"{where}:{number}"):
            if hosts.setdefault(host.name, host) != host:
                raise InputError(f"{where}:{number}: {host.name} is listed twice, in different ways.")
    return HostFile(where, tuple(hosts.values()))


def plain_line(words: list[str], where: str) -> Iterator[ListedHost]:
    """The hosts of one line."""
    address = address_in(words[0])
    if address and len(words) > 1 and not address_in(words[1]) and "," not in words[0]:
        if not (address.is_loopback or address.is_multicast or address.is_link_local or address.is_unspecified):
            yield ListedHost(words[1].partition(".")[0], str(address))
        return
    try:
        for word in words:
            for entry in entries(word.strip(",")):
                for endpoint in expand_endpoints(entry):
                    yield ListedHost(endpoint.address, "", endpoint.user, endpoint.port)
    except HostlistError as error:
        raise InputError(f"{where}: {error}") from None


def address_in(word: str) -> Address | None:
    """The address that a word is; `None` if it is none."""
    try:
        return parsed(word)
    except ValueError:
        return None


def parse_genders(text: str, where: str) -> HostFile:
    """Read a genders database: hosts, then their attributes with commas in between; each attribute is a group.

    `attribute=value` is in two groups, `attribute` and `attribute=value`; `%n` in a value is the host's name. Raises
    InputError if a line has no hostlist first, or more than two parts; the message has its number.
    """
    hosts: dict[str, ListedHost] = {}
    groups: dict[str, dict[str, None]] = {}
    for number, words in lines_of(text):
        try:
            names = expand(words[0])
        except HostlistError as error:
            raise InputError(f"{where}:{number}: {error}") from None
        if len(words) > 2:  # noqa: PLR2004 - hosts and attributes
            raise InputError(f"{where}:{number}: write hosts, a space, and attributes with commas and no spaces.")
        for name in names:
            hosts.setdefault(name, ListedHost(name))
            for attribute in filter(None, words[1].split(",") if len(words) > 1 else ()):
                for group in {attribute.replace("%n", name), attribute.partition("=")[0]}:
                    groups.setdefault(group, {})[name] = None
    return HostFile(where, tuple(hosts.values()), {group: tuple(names) for group, names in groups.items()})


def parse_slurm_conf(text: str, where: str) -> HostFile:
    """Read the controllers and nodes of a slurm.conf; partitions are groups.

    Raises InputError for a wrong hostlist, and for names and addresses by which the file's own host means itself.
    """
    conf = parse(text)
    hosts: dict[str, ListedHost] = {}
    # SlurmctldHost(primary)(address), or ControlMachine and ControlAddr before Slurm 18.08 (slurm.conf(5)).
    for controller in filter(None, (conf.settings.get("slurmctldhost", "")).split(",")):
        name, _, address = controller.strip().rstrip(")").partition("(")
        hosts[name] = ListedHost(name, address)
    for name, line in conf.nodes.items():
        address = line.of(name, "nodeaddr")
        hosts.setdefault(name, ListedHost(name, "" if address == name else address))
    if own := [one.name for one in hosts.values() if is_loopback(one.address or one.name)]:
        raise InputError(
            f"{where}: {fold(own)}: by a loopback name or address, a slurm.conf means the host that it lies on, not "
            "this machine. Name that host as SSH reaches it."
        )
    groups: dict[str, tuple[str, ...]] = {}
    for partition, settings in conf.partitions.items():
        nodes = settings.get("nodes", "")
        try:
            groups[partition] = tuple(conf.nodes) if nodes.upper() == "ALL" else expand(nodes) if nodes else ()
        except HostlistError as error:
            raise InputError(f"{where}: partition {partition}: {error}") from None
    return HostFile(where, tuple(hosts.values()), groups)
