"""Backups and bundles on this machine: whether they can be signed, verified and decrypted, and which are trusted."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from slurmfab.base import archive, signatures
from slurmfab.base.archive import Kind, Manifest, OneManifest
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.base.signatures import NAMESPACES, NoSignature, Seal
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.backup import archive as backups
from slurmfab.commands.backup.trust import trusted_keys
from slurmfab.commands.doctor.finding import Finding, ok, warning
from slurmfab.on_hosts.agent.backup import encryption
from slurmfab.on_hosts.agent.core.listing import listed

TRIAL = b"a trial of fab doctor"
SSH_KEYS = Path("~/.ssh")
MOST_NAMED = 3
MOST_BYTES = 1 << 40
BUNDLE = Kind("bundle", Manifest, f"make it again: {FAB} bundle", lambda _: True, lambda _: MOST_BYTES)
"""A bundle of which the manifest and its signature alone are looked at."""


def signing_key() -> Iterator[Finding]:
    """Yield whether archives can be signed and signatures be verified, by a trial with the user's key."""
    path = signatures.key_path()
    public = signatures.public_path(path)
    if not path.exists() and not public.exists():
        yield ok("signing key", f"none yet; the first {FAB} backup or bundle makes {path}")
        return
    repair = f"Unsigned archives are trusted only after a question. Look at {path} and {public}, or move both away."
    try:
        seal = Seal(TRIAL, signatures.sign(TRIAL, NAMESPACES["backup"]))
        reason = signatures.distrust(seal, "backup", signatures.own_keys())
    except (NoSignature, InputError, OSError) as error:
        reason = str(error)
    if reason:
        yield warning("signing key", f"archives cannot be signed: {reason.rstrip('.')}.", repair)
    else:
        yield ok("signing key", f"{path} signs backups and bundles")


def kept(path: Path, known: Inventory | None) -> Iterator[Finding]:
    """Yield which backups and bundles beside a cluster file are not trusted; the files' contents are not read."""
    found = backups.all_in(backups.directory(path))
    if found:
        doubts = [f"{one.name} ({reason})" for one in found if (reason := doubt(one, backups.KIND, path))]
        repair = f"{FAB} restore asks before it uses these."
        yield judged("backups", len(found), doubts, repair)
    if known and known.cluster.bundle:
        names = {name: path.parent / Path(name).expanduser() for name in known.cluster.bundle}
        pins = known.lock.bundles
        reasons = {name: doubt(one, BUNDLE, path, pins.get(name)) for name, one in names.items()}
        doubts = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
        yield judged(
            "bundles", len(names), doubts, f"{FAB} bundle --list says more; {FAB} bundle --accept trusts them."
        )


def doubt(one: Path, kind: Kind[OneManifest], path: Path, pinned: str | None = None) -> str:
    """Why an archive of this kind is not trusted, by the digest in the lock (`None` for none); empty if it is."""
    try:
        seal = archive.seal_of(one, kind)
    except InputError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    if pinned is not None:
        return "" if hashlib.sha256(seal.data).hexdigest() == pinned else "its digest is not the one in the lock"
    return signatures.distrust(seal, kind.name, trusted_keys(path))


def encrypted(path: Path, known: Inventory | None) -> Iterator[Finding]:
    """Yield whether age is here where backups are encrypted, and whether an SSH key of this user decrypts them."""
    wanted = known.cluster.backup.encrypt_to if known and known.cluster.backup else ()
    keys = [keys for one in backups.all_in(backups.directory(path)) if (keys := recipients_of(one))]
    if not keys and not wanted:
        return
    if not shutil.which(encryption.PROGRAM):
        text = "there is no program age, without which no encrypted backup is made or restored here."
        yield warning("encryption", text, "Debian: apt install age")
        return
    own = {key for file in SSH_KEYS.expanduser().glob("*.pub") for key in readable(file)}
    foreign = [one for one in keys if not own & {*one}]
    whom = ", ".join(dict.fromkeys(backups.short(key) for one in foreign or keys or [wanted] for key in one))
    if foreign:
        text = f"{len(foreign)} of {len(keys)} backups are encrypted to {whom}; no SSH key in {SSH_KEYS} decrypts these"
        yield ok("encryption", f"{text}, so {FAB} restore needs --identity with the file of the private key")
    else:
        yield ok("encryption", f"backups are encrypted to {whom}")


def readable(file: Path) -> tuple[str, ...]:
    """The public keys in a file; none if it is no such file."""
    try:
        return signatures.keys_in(file)
    except InputError:
        return ()


def recipients_of(one: Path) -> tuple[str, ...]:
    """The public keys that a backup is encrypted to; none for one that is damaged, which `kept` says."""
    try:
        seal = archive.seal_of(one, backups.KIND)
        return archive.manifest_from(seal.data, one, backups.KIND).encrypted_to
    except (SlurmfabError, OSError):
        return ()


def judged(subject: str, count: int, doubts: list[str], repair: str) -> Finding:
    """A finding about the archives of a subject; `doubts` are those that are not trusted, with the reason."""
    if not doubts:
        return ok(subject, f"{count}, of trusted makers")
    text = f"{len(doubts)} of {count} not known to be of a trusted maker: {listed(doubts, MOST_NAMED)}."
    return warning(subject, text, repair)
