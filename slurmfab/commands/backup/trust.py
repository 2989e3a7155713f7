"""Whether a backup comes from somebody who is trusted; if nothing shows that, what it could do is shown, and asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurmfab.base import signatures
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import can_ask, in_one_line, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.accounting import User
from slurmfab.cluster.inventory.cluster import HARMLESS, Cluster, NodeGroup
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.backup.archive import KIND, PART_TITLES, Backup
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.archive import unpacked_most
from slurmfab.on_hosts.agent.backup.restored_state import members
from slurmfab.on_hosts.agent.core.listing import first_of

HARMLESS_OF_GROUP = frozenset({"hosts", "mig", "settings"})
"""Fields of a group of nodes that are harmless; its other one says where packages come from, which root installs."""

HARMLESS_OF_USER = frozenset({"name", "shell", "comment", "accounts", "associations", "quota"})
"""Fields of a user by which nobody becomes another user."""

FIRST_OF_PEOPLE = 1000  # the lowest UID and GID of people; lower ones are those of the system's own users and groups
MOST_SHOWN = 160  # characters of a value; of longer ones the beginning and the number of the others are shown


def root_keys(cluster: Cluster) -> tuple[str, ...]:
    """The keys of a cluster file that can make somebody root, a line for each entry: `files./etc/motd: {…}`."""
    found = cluster.model_dump(mode="json", exclude_unset=True, include=set(Cluster.model_fields) - HARMLESS)
    others = {key: value for key, value in found.items() if key != "users"}
    lines = [line for key, value in others.items() for line in entries(key, value)]
    lines += [line for group in cluster.nodes for line in of_group(group)]
    return (*lines, *(line for user in cluster.users for line in of_user(user)))


def entries(key: str, value: Any) -> Iterator[str]:
    """Yield a line for each entry of a key: those of a mapping or a list, or the value itself."""
    if isinstance(value, Mapping) and value:
        yield from (f"{key}.{one_line(name)}: {one_line(inner)}" for name, inner in value.items())
    elif isinstance(value, list) and value:
        yield from (f"{key}: {one_line(inner)}" for inner in value)
    else:
        yield f"{key}: {one_line(value)}"


def of_group(group: NodeGroup) -> Iterator[str]:
    """Yield a line for each key of a group of nodes that root obeys."""
    found = group.model_dump(mode="json", exclude_unset=True, exclude=set(HARMLESS_OF_GROUP))
    yield from (f"nodes.{fold(group.hosts)}.{key}: {one_line(value)}" for key, value in found.items())


def of_user(user: User) -> Iterator[str]:
    """Yield a line for a user who has more than an account."""
    found = user.model_dump(mode="json", exclude_unset=True, exclude=set(HARMLESS_OF_USER))
    if str(found.get("home", "")).rpartition("/")[2] == user.name:
        del found["home"]
    for number in ("uid", "gid"):
        if (found.get(number) or FIRST_OF_PEOPLE) >= FIRST_OF_PEOPLE:
            found.pop(number, None)
    found = {key: value for key, value in found.items() if value}
    if found:
        yield f"users.{user.name}: {one_line(found)}"


def one_line(value: Any) -> str:
    """A value in one line, as JSON with every unusual character written out."""
    text = value if isinstance(value, str) and value.isascii() and value.isprintable() else json.dumps(value)
    left_out = len(text) - MOST_SHOWN
    return text if left_out <= 0 else f"{text[:MOST_SHOWN]}… ({left_out} more characters)"


YES = "yes"
TRUSTED = "Trusted by --trust-archive."  # ends what is written of an archive that is trusted by that option
OTHER_WAYS = (
    "If you have the public key of its maker: --signed-by FILE. If you are sure that nobody has changed the archive: "
    "--trust-archive."
)
MOST_FILES = 50  # how many files of /etc/slurm are named; all of them mean the same

TITLE_OF_OTHERS = {
    parts.KEY: "whoever has it can act as any user of Slurm",
    parts.STATE: "the jobs in it run as the users that it names",
    parts.DATABASE: "it says who administers Slurm's accounting",
}
"""What the parts of a backup mean that hold no list of files."""


def trusted_keys(path: Path, signed_by: str = "") -> tuple[str, ...]:
    """The public keys whose backups are restored without a question: the user's own, the lock's, and given ones.

    Args:
        path: of the cluster file; the lock is the one beside it, never the one in an archive.
        signed_by: a file with public keys; empty for none.
    """
    given = signatures.keys_in(Path(signed_by)) if signed_by else ()
    return (*signatures.own_keys(), *locks.load(loading.lock_path(path)).signers, *given)


def require_before_decryption(backups: Sequence[Backup], path: Path, signed_by: str, *, trust: bool) -> None:
    """Refuse encrypted backups that no trusted key has signed, unless somebody can be asked or trusts them anyway.

    The signature is that of the encrypted parts. So an archive that anybody has made with the public keys is not even
    decrypted; what it brings is not known before, and is shown by `require`. `signed_by`: a file with public keys that
    are trusted; empty for none. `trust`: whether the user trusts the backups by an option. Raises InputError if one is
    not trusted, and nobody can be asked.
    """
    if trust or can_ask() or not any(one.encrypted_to for one in backups):
        return
    keys = trusted_keys(path, signed_by)
    for one in backups:
        reason = signatures.distrust(one.seal, KIND.name, keys)
        if one.encrypted_to and reason:
            raise InputError(f"{one.path}: {reason}. It was not decrypted, and nothing was changed. {OTHER_WAYS}")


def require(backups: Sequence[Backup], known: Inventory, signed_by: str, *, trust: bool) -> None:
    """Go on with backups that a trusted key has signed, or that the user trusts after seeing what they can do.

    `signed_by`: a file with further trusted keys. Raises InputError if nobody can be asked, SlurmfabError after a no.
    """
    keys = trusted_keys(known.path, signed_by)
    reasons = [(one, signatures.distrust(one.seal, KIND.name, keys)) for one in backups]
    doubts = [(one, reason) for one, reason in reasons if reason]
    if not doubts:
        return
    text = "\n".join(line for one, reason in doubts for line in warning(one, reason, known))
    if trust:
        write(f"{text}\n{TRUSTED}", sys.stderr)
        return
    if not can_ask():
        raise InputError(f"{text}\nNothing was changed. {OTHER_WAYS}")
    write(text, sys.stderr)
    if input("Restore it all the same? Type yes: ").strip().lower() != YES:
        raise SlurmfabError("Nothing was changed.")


def warning(backup: Backup, reason: str, known: Inventory) -> Iterator[str]:
    """Yield the lines about a backup that is not trusted, for this reason, to restore the cluster `known`."""
    yield f"{backup.path}: {reason}. Whoever could write this file can have changed it, and become root with it."
    yield "It brings, among other things:"
    if parts.CLUSTER_FILE in backup.parts and not known.path.exists():
        lines = root_keys(known.cluster)
        yield from (f"  cluster file: {line}" for line in lines or ("no key that can make somebody root",))
    if parts.LOCK in backup.parts and not loading.lock_path(known.path).exists():
        yield "  lock: the SSH host keys by which slurmfab knows the hosts, and the digests of bundles"
    for name in (parts.FILES, parts.DATABASE_FILES):
        if name in backup.parts:
            yield f"  {PART_TITLES[name]}, which daemons read and run: {', '.join(files_in(backup, name))}"
    yield from (f"  {PART_TITLES[name]}: {text}" for name, text in TITLE_OF_OTHERS.items() if name in backup.parts)


def files_in(backup: Backup, name: str) -> tuple[str, ...]:
    """The names of the files in a compressed part, the first 50, and how many others there are."""
    part = backup.parts[name]
    with part.opened() as file:
        return tuple(first_of((in_one_line(path) for _, path in members(file, unpacked_most(part.size))), MOST_FILES))


def standing(backup: Backup, path: Path) -> str:
    """A line that says whether a backup is signed by a trusted key."""
    reason = signatures.distrust(backup.seal, KIND.name, trusted_keys(path))
    return f"  not trusted: {reason}" if reason else "  signed by a trusted key"
