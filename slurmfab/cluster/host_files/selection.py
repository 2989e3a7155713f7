"""A value of `--hosts` with files in it: `@FILE`, `@FILE:GROUP`, and `-` for standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from slurmfab.base.errors import HostlistError, InputError
from slurmfab.base.hostlist import entries
from slurmfab.cluster.host_files.host_file import HostFile, ListedHost

LARGEST = 16 << 20  # bytes; an inventory of 10,000 hosts with ten variables each has 3 MB

STANDARD_INPUT = "-"
INI_SECTION = re.compile(r"(?m)^\s*\[[^\]]+\]\s*$")
VARIABLE = re.compile(r"(?m)^[^#\n]*\sansible_\w+\s*=")
NODE_LINE = re.compile(r"(?im)^\s*(NodeName|SlurmctldHost|PartitionName)\s*=")
JSON = re.compile(r"\s*\{")


def resolved(hosts: str, members: Mapping[str, Iterable[str]], *, newcomers: bool, stdin: TextIO | None = None) -> str:
    """A hostlist with the hosts that a value of `--hosts` stands for, each once and in its order.

    `hosts`: such as `head,@inventory.yml:gpu`. `members`: their addresses by name; empty without a cluster file.
    `newcomers`: hosts that are no members, by the address and user in the file. Raises InputError if a file cannot be
    read, has no such group, or names no host.
    """
    by_address = {address: name for name, addresses in members.items() for address in addresses}
    found: dict[str, None] = {}
    for entry in entries(hosts):
        if not entry.startswith("@") and entry != STANDARD_INPUT:
            found[entry] = None
            continue
        for host in hosts_of(entry, stdin or sys.stdin):
            known = host.name if host.name in members else by_address.get(host.address or host.name, "")
            found[known or (host.endpoint if newcomers else host.name)] = None
    return ",".join(found)


def hosts_of(entry: str, stdin: TextIO) -> tuple[ListedHost, ...]:
    """The hosts of `@FILE`, `@FILE:GROUP` or `-`."""
    if entry == STANDARD_INPUT:
        if stdin.isatty():
            raise InputError("--hosts - reads hosts from standard input, which is a terminal: pipe a list into it.")
        return read(stdin.read(LARGEST + 1), "standard input").selected("")
    name = entry[1:]
    path, _, group = (name, "", "") if Path(name).is_file() else name.rpartition(":") if ":" in name else (name, "", "")
    return read(text_of(Path(path).expanduser()), path).selected(group)


def text_of(path: Path) -> str:
    """The text of a file. Raises InputError if it cannot be read, or is a program, as dynamic inventories are."""
    try:
        if path.is_dir():
            raise InputError(f"--hosts @{path}: this is a directory. Name one file in it, such as {path}/hosts.yml.")
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"--hosts @{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"--hosts @{path}: this is not a text in UTF-8.") from None
    if text.startswith("#!"):
        raise InputError(
            f"--hosts @{path}: this is a program. Let Ansible run it, and name the result: "
            f"ansible-inventory -i {path} --list --yaml > hosts.yml"
        )
    return text


def read(text: str, where: str) -> HostFile:
    """Read a file in the format that its text and name suggest; InputError if it is too long, or cannot be read."""
    if len(text) > LARGEST:
        raise InputError(f"{where}: a list of hosts with more than {LARGEST >> 20} MB is not read.")
    name = Path(where).name.lower()
    if JSON.match(text):
        raise InputError(f"{where}: JSON is not read. For an Ansible inventory: ansible-inventory --list --yaml.")
    if name.endswith((".yml", ".yaml")):
        from slurmfab.cluster.host_files.ansible import parse_yaml  # slow to import, and most runs name no inventory

        return parse_yaml(text, where)
    from slurmfab.cluster.host_files import lists

    if NODE_LINE.search(text):
        return lists.parse_slurm_conf(text, where)
    if INI_SECTION.search(text) or VARIABLE.search(text):
        from slurmfab.cluster.host_files.ansible import parse_ini

        return parse_ini(text, where)
    try:
        return lists.parse_genders(text, where) if "genders" in name else lists.parse_plain(text, where)
    except HostlistError as error:
        raise InputError(f"{where}: {error}") from None
