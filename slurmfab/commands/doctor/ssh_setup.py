"""This user's SSH: keys, agent, known_hosts, ssh_config."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import paramiko

from slurmfab.base.errors import InputError
from slurmfab.commands.doctor.finding import Finding, failure, ok, warning
from slurmfab.hosts import route
from slurmfab.hosts.connection import load_key
from slurmfab.hosts.known_hosts import GLOBAL_FILES, LEAST_FIELDS, USER_FILES, entry_from

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""Names in ~/.ssh of the keys that are tried (paramiko, SSHClient.connect)."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_BYTES = 64 << 20


class Agent(NamedTuple):
    """What the SSH agent has."""

    is_there: bool  # whether one is named by the environment
    answers: bool
    keys: Mapping[str, str]  # its public keys in base64, with their comments or types


def ask_agent(environment: Mapping[str, str]) -> Agent:
    """Ask the SSH agent for its keys."""
    path = environment.get("SSH_AUTH_SOCK", "")
    if not path:
        return Agent(is_there=False, answers=False, keys={})
    try:
        asked = paramiko.Agent()
        keys = {key.get_base64(): str(key.get_name()) for key in asked.get_keys()}
        asked.close()
    except (OSError, paramiko.SSHException):
        return Agent(is_there=True, answers=False, keys={})
    return Agent(is_there=True, answers=bool(keys) or is_socket(Path(path)), keys=keys)


def is_socket(path: Path) -> bool:
    """Whether a path is a socket."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def agent_and_keys(agent: Agent, named: str, others: Iterable[str]) -> Iterator[Finding]:
    """Yield which keys there are for logins.

    Args:
        named: the key file that the cluster file names, the only one that is used then; empty for none.
        others: key files that ssh_config names for its hosts.
    """
    if agent.is_there and not agent.answers:
        yield warning("SSH agent", "the one of SSH_AUTH_SOCK is silent.", 'Start one: eval "$(ssh-agent)"; ssh-add')
    else:
        count = f"it has {len(agent.keys)} key{'' if len(agent.keys) == 1 else 's'}" if agent.is_there else "none runs"
        yield ok("SSH agent", count)
    if named:
        yield named_key(Path(named).expanduser())
        return
    home = Path("~/.ssh").expanduser()
    paths = dict.fromkeys([*map(Path, others), *(home / name for name in DEFAULT_KEYS)])
    yield from own_keys([path for path in paths if path.is_file()], agent)


def named_key(path: Path) -> Finding:
    """Whether the key that the cluster file names can be used."""
    try:
        load_key(str(path))
    except InputError as error:
        return failure("SSH keys", str(error))
    return loose(path) or ok("SSH keys", f"{path}, which the cluster file names")


def own_keys(paths: Iterable[Path], agent: Agent) -> Iterator[Finding]:
    """Yield whether any of the user's own keys can be used. `paths`: key files that are there."""
    usable, locked = [], []
    for path in paths:
        finding = loose(path)
        if finding:
            yield finding
        try:
            load_key(str(path))
        except InputError as error:
            if "passphrase" not in str(error):
                yield warning("SSH keys", str(error))
            elif public_part(path) not in agent.keys:
                locked.append(str(path))
            continue
        usable.append(str(path))
    if usable or agent.keys:
        sources = [*usable, *([f"{len(agent.keys)} in the SSH agent"] if agent.keys else [])]
        yield ok("SSH keys", ", ".join(sources))
    if locked:
        judge = warning if usable or agent.keys else failure
        text = f"{', '.join(locked)}: with a passphrase, and not in an SSH agent, so not used."
        yield judge("SSH keys", text, f"Repair: ssh-add {' '.join(locked)}")
    elif not (usable or agent.keys):
        repair = "Make one: ssh-keygen -t ed25519; then put it on the hosts: ssh-copy-id USER@HOST."
        yield failure("SSH keys", "there is none in ~/.ssh, in ssh_config or in an SSH agent.", repair)


def loose(path: Path) -> Finding | None:
    """What to say of a private key that others may read; `None` where they may not."""
    if not path.stat().st_mode & OTHERS:
        return None
    return warning("SSH keys", f"{path}: other users may read it, so ssh does not use it.", f"Repair: chmod 600 {path}")


def public_part(path: Path) -> str:
    """The public key beside a private one, in base64; empty where there is none."""
    try:
        return path.with_name(f"{path.name}.pub").read_text(errors="replace").split()[1]
    except (OSError, IndexError):
        return ""


def known_hosts(files: Iterable[str] = (*USER_FILES, *GLOBAL_FILES)) -> Iterator[Finding]:
    """Yield whether known_hosts files can be read."""
    lines = hashed = 0
    for path in [path for path in (Path(file).expanduser() for file in files) if os.path.lexists(path)]:
        try:
            texts = path.read_text(errors="replace").splitlines()
        except OSError as error:
            yield failure("known_hosts", f"{path} cannot be read: {error.strerror}.", f"Repair: chmod u+r {path}")
            continue
        there = [(number, text) for number, text in enumerate(texts, 1) if text.strip() and text.strip()[0] != "#"]
        damaged = [number for number, text in there if not entry_from(text, path) and len(text.split()) >= LEAST_FIELDS]
        short = [number for number, text in there if len(text.split()) < LEAST_FIELDS]
        if damaged or short:
            first = min(damaged + short)
            yield warning("known_hosts", f"{path}:{first}: this line is damaged, and ignored.", "Remove or renew it.")
        lines += len(there) - len(damaged) - len(short)
        hashed += sum(text.startswith("|1|") for _, text in there)
    yield ok("known_hosts", f"{lines} keys" + (f", {hashed} of them under hashed names" if hashed else ""))


def ssh_config(files: Iterable[Path] = route.SSH_CONFIGS) -> Iterator[Finding]:
    """Yield whether the user's ssh_config is one that ssh and slurmfab read."""
    paths = [path for path in (file.expanduser() for file in files) if path.exists()]
    try:
        route.read_config(paths)
    except InputError as error:
        yield failure("ssh_config", str(error))
        return
    for path in paths:
        if path.stat().st_mode & OTHERS_WRITE:
            text = f"{path}: other users may write to it, so ssh refuses it."
            yield warning("ssh_config", text, f"Repair: chmod go-w {path}")
    yield ok("ssh_config", ", ".join(map(str, paths)) or "none")
