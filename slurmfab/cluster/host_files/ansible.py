"""Ansible inventories: INI and YAML (Ansible documentation, "How to build your inventory").

Read are hosts with their ranges, groups, children, and the variables that say how SSH reaches a host. Group variables
hold for the hosts of the group and of its children; a child's variables override its parent's, and a host's override
both. Everything else in an inventory is about playbooks and is passed over.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from yaml.nodes import MappingNode, Node, ScalarNode

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import MOST_HOSTS
from slurmfab.cluster.host_files.host_file import HostFile, ListedHost
from slurmfab.cluster.inventory import yaml_nodes

ADDRESS, USER, PORT = (
    ("ansible_host", "ansible_ssh_host"),
    ("ansible_user", "ansible_ssh_user"),
    ("ansible_port", "ansible_ssh_port"),
)
"""Variables that say how SSH reaches a host, the newer name first."""

EVERYTHING, NO_GROUP = "all", "ungrouped"
MOST_GROUPS = 10_000
DEEPEST = 64
RANGE = re.compile(r"\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")
SECTION = re.compile(r"\[([^:\]]+)(?::(hosts|children|vars))?\]\s*(?:[#;].*)?")
HOST_WITH_PORT = re.compile(r"([^:\[\]]+(?:\[[^\]]*\][^:\[\]]*)*):([0-9]+)")

Variables = dict[str, str]


@dataclass
class Group:
    """A group while it is read: its own hosts, children and variables."""

    hosts: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    variables: Variables = field(default_factory=dict)


@dataclass
class Inventory:
    """An inventory while it is read."""

    where: str
    groups: dict[str, Group] = field(default_factory=dict)  # the groups, by name
    # the variables of each host, in the order in which the hosts were named first
    variables: dict[str, Variables] = field(default_factory=dict)

    def group(self, name: str, line: int) -> Group:
        """The group of this name; makes it on first use."""
        if name not in self.groups and len(self.groups) >= MOST_GROUPS:
            raise self.refusal(line, f"it has more than {MOST_GROUPS} groups.")
        return self.groups.setdefault(name, Group())

    def add(self, group: Group, pattern: str, variables: Variables, line: int) -> None:
        """Add the hosts of a pattern, which may have ranges and a port, to a group."""
        with_port = HOST_WITH_PORT.fullmatch(pattern)
        if with_port:
            pattern, variables = with_port[1], {PORT[0]: with_port[2], **variables}
        for name in self.expanded(pattern, line):
            self.variables.setdefault(name, {}).update(variables)
            group.hosts.append(name)
        if len(self.variables) > MOST_HOSTS:
            raise self.refusal(line, f"it has more than {MOST_HOSTS} hosts.")

    def expanded(self, pattern: str, line: int) -> Iterator[str]:
        """The names of a pattern such as `n[01:16].site` or `rack-[a:c]`."""
        parts = RANGE.split(pattern)
        plain, choices, count = parts[::4], [], 1
        for first, last, step in zip(parts[1::4], parts[2::4], parts[3::4], strict=True):
            choices.append(self.numbers(first, last, int(step or 1), line))
            count *= len(choices[-1])
        if not all(choices) or count > MOST_HOSTS or re.search(r"[\[\]{}\s]", "".join(plain)):
            raise self.refusal(line, f"{pattern!r} is no name of a host and no range such as n[01:16].")
        for chosen in product(*choices):
            yield plain[0] + "".join(value + text for value, text in zip(chosen, plain[1:], strict=True))

    def numbers(self, first: str, last: str, step: int, line: int) -> list[str]:
        """The values of one range; numbers keep their leading zeros, and the last one belongs to it."""
        if first.isdecimal() != last.isdecimal() or step < 1:
            raise self.refusal(line, f"[{first}:{last}] is no range.")
        if not first.isdecimal():
            return [chr(code) for code in range(ord(first), ord(last) + 1, step)]
        values = range(int(first), int(last) + 1, step)[: MOST_HOSTS + 1]
        return [str(value).zfill(len(first)) if first.startswith("0") else str(value) for value in values]

    def finished(self) -> HostFile:
        """The hosts with the variables of their groups, and the members of all groups."""
        members = {name: self.members(name) for name in self.groups}
        grouped = {host for names in members.values() for host in names}
        members[EVERYTHING] = tuple(self.variables)
        depths = self.depths()
        members.setdefault(NO_GROUP, tuple(host for host in self.variables if host not in grouped))
        chain = sorted(self.groups, key=lambda name: (name != EVERYTHING, depths[name], name))
        merged: dict[str, Variables] = {host: {} for host in self.variables}
        for name in chain:
            for host in members[name]:
                merged[host].update(self.groups[name].variables)
        hosts = tuple(self.listed(host, {**merged[host], **own}) for host, own in self.variables.items())
        return HostFile(self.where, hosts, {name: names for name, names in members.items() if names})

    def members(self, name: str) -> tuple[str, ...]:
        """The hosts of a group and of all groups below it, each once."""
        seen, waiting, found = {name}, [name], dict[str, None]()
        while waiting:
            group = self.groups.get(waiting.pop(), Group())
            found.update(dict.fromkeys(group.hosts))
            waiting += [child for child in group.children if child not in seen]
            seen.update(group.children)
        return tuple(found)

    def depths(self) -> dict[str, int]:
        """How far each group is below the top, by its longest way."""
        depths = dict.fromkeys(self.groups, 0)
        for _ in range(DEEPEST):
            before = dict(depths)
            for name, group in self.groups.items():
                for child in group.children:
                    depths[child] = max(depths.get(child, 0), depths[name] + 1)
            if depths == before:
                return depths
        raise InputError(f"{self.where}: its groups contain each other, or more than {DEEPEST} levels.")

    def listed(self, name: str, variables: Mapping[str, str]) -> ListedHost:
        """A host with what its variables say about SSH."""
        address, user, port = (
            next((variables[key] for key in keys if key in variables), "") for keys in (ADDRESS, USER, PORT)
        )
        for key, value in (("ansible_host", address), ("ansible_user", user), ("ansible_port", port)):
            if "{{" in value:
                raise InputError(
                    f"{self.where}: {name}: {key} is a template, which only Ansible can evaluate. Let it write the "
                    f"values: ansible-inventory -i {self.where} --list --yaml > hosts.yml"
                )
        if port and not port.isdecimal():
            raise InputError(f"{self.where}: {name}: ansible_port {port!r} is not a number.")
        return ListedHost(name, "" if address == name else address, user, int(port or 0))

    def refusal(self, line: int, reason: str) -> InputError:
        """A complaint with its place."""
        return InputError(f"{self.where}:{line}: {reason}")


def parse_ini(text: str, where: str) -> HostFile:
    """Read an inventory in Ansible's INI format; InputError, with the number, if a line is none that it has."""
    inventory = Inventory(where)
    name, kind = NO_GROUP, "hosts"
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        section = SECTION.fullmatch(stripped)
        if section:
            name, kind = section[1].strip(), section[2] or "hosts"
            inventory.group(name, number)
        else:
            take(inventory, inventory.group(name, number), kind, stripped, number)
    return inventory.finished()


def take(inventory: Inventory, group: Group, kind: str, line: str, number: int) -> None:
    """Add one line of a section (`hosts`, `children` or `vars`) to its group; InputError if the line is no such one."""
    if kind == "vars":
        key, _, value = line.partition("=")
        group.variables[key.strip()] = unquoted(value.strip())
        return
    try:
        first, *rest = shlex.split(line, comments=True)
    except ValueError as error:
        raise inventory.refusal(number, f"this line cannot be read: {error}.") from None
    if kind == "children":
        inventory.group(first, number)
        group.children.append(first)
        return
    wrong = [word for word in rest if "=" not in word]
    if wrong:
        raise inventory.refusal(number, f"{wrong[0]!r} is no variable; write key=value behind the host's name.")
    variables = {key: value for key, _, value in (word.partition("=") for word in rest)}
    inventory.add(group, first, variables, number)


def unquoted(value: str) -> str:
    """A value of INI without its quotes."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def parse_yaml(text: str, where: str) -> HostFile:
    """Read an inventory in Ansible's YAML; InputError, with the line, if it is none, or a group is wrong."""
    inventory = Inventory(where)
    waiting = [(name, node, 0) for name, node in pairs(inventory, yaml_nodes.compose(text, where))]
    while waiting:
        name, node, depth = waiting.pop(0)
        if depth > DEEPEST:
            raise inventory.refusal(node.start_mark.line + 1, f"groups are nested more than {DEEPEST} levels deep.")
        group = inventory.group(name, node.start_mark.line + 1)
        for key, value in pairs(inventory, node):
            if key == "hosts":
                for pattern, own in pairs(inventory, value):
                    inventory.add(group, pattern, scalars(inventory, own), own.start_mark.line + 1)
            elif key == "vars":
                group.variables.update(scalars(inventory, value))
            elif key == "children":
                children = list(pairs(inventory, value))
                group.children += [child for child, _ in children]
                waiting += [(child, inside, depth + 1) for child, inside in children]
            else:
                reason = f"{key!r} is none of hosts, vars and children, so this is no inventory of Ansible's."
                raise inventory.refusal(value.start_mark.line + 1, reason)
    return inventory.finished()


def pairs(inventory: Inventory, node: Node) -> Iterator[tuple[str, Node]]:
    """Keys and values of a mapping; nothing for an empty value. Raises InputError if the node is something else."""
    if isinstance(node, ScalarNode) and node.value in yaml_nodes.NULLS:
        return
    if not isinstance(node, MappingNode):
        raise inventory.refusal(node.start_mark.line + 1, "a mapping is expected here, such as `n1:` in a line.")
    for key, value in node.value:
        yield str(key.value), value


def scalars(inventory: Inventory, node: Node) -> Variables:
    """The variables of a mapping whose values are plain; others concern playbooks alone."""
    return {key: str(value.value) for key, value in pairs(inventory, node) if isinstance(value, ScalarNode)}
