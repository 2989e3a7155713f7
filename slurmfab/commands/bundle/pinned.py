"""Which bundles may be installed: those whose digest the lock has, and new ones that a trusted key has signed.

Hosts install a bundle's packages as root, and apt has no signature to verify on the way. So the lock has the SHA-256 of
each bundle's manifest, which has the SHA-256 of every file in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slurmfab.base import signatures
from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import with_bundles
from slurmfab.commands.bundle import archive
from slurmfab.commands.bundle.archive import Bundle
from slurmfab.core.engine.run import Run


def bundles(known: Inventory) -> tuple[Bundle, ...]:
    """The file's bundles, verified; InputError if missing, damaged, unlike the lock, or new and not signed."""
    found = {name: archive.verified(path) for name, path in archive.paths_by_name(known).items()}
    for name, bundle in found.items():
        pinned = known.lock.bundles.get(name, bundle.digest)
        if pinned != bundle.digest:
            raise InputError(other_bundle(known, bundle, pinned))
        refuse_unknown(known, name, bundle)
    return tuple(found.values())


def refuse_unknown(known: Inventory, name: str, bundle: Bundle) -> None:
    """Refuse, by InputError, a bundle whose digest the lock does not have, unless a trusted key has signed it."""
    if name in known.lock.bundles:
        return
    reason = signatures.distrust(bundle.seal, archive.KIND.name, (*signatures.own_keys(), *known.lock.signers))
    if reason:
        raise InputError(
            f"{bundle.path} is new here, and nothing shows who made it: {reason}.\n"
            f"  SHA-256 {bundle.digest}, made {bundle.made} by {bundle.manifest.by}, as it says\n"
            "Its packages would be installed as root. Nothing was changed. If you compared this SHA-256 with its "
            f"maker's ({FAB} bundle --list): {FAB} bundle --accept."
        )


def other_bundle(known: Inventory, bundle: Bundle, pinned: str) -> str:
    """The message about a bundle whose digest differs from the one that the lock has pinned."""
    return (
        f"{bundle.path} is another bundle than the one that was used or made before.\n"
        f"  before: SHA-256 {pinned} (in {loading.lock_path(known.path)})\n"
        f"  now:    SHA-256 {bundle.digest}, made {bundle.made} by {bundle.manifest.by}, as it says\n"
        "Its packages would be installed as root, and only their maker can know what is in them. Nothing was changed. "
        f"If you trust the new one: {FAB} bundle --accept. Otherwise make it again: {FAB} bundle."
    )


def pin_first_uses(run: Run, used: Iterable[Bundle]) -> None:
    """Put the digests of bundles that are sent to hosts for the first time into the lock, and tell the user."""
    names = {path: name for name, path in archive.paths_by_name(run.inventory).items()}
    by_name = {names[bundle.path]: bundle for bundle in used}
    new = {name: bundle for name, bundle in by_name.items() if name not in run.inventory.lock.bundles}
    if not new:
        return
    run.update_lock(with_bundles(run.inventory.lock, {name: bundle.digest for name, bundle in new.items()}))
    run.save_lock()
    for bundle in new.values():
        run.progress.line(
            f"{bundle.path} is used for the first time, and signed by a trusted key. "
            f"{loading.lock_path(run.inventory.path)} has its SHA-256 now "
            f"({bundle.digest}); another file in its place will be refused."
        )


def pin(known: Inventory, digests: dict[str, str], signers: Iterable[str] = ()) -> None:
    """Save digests of bundles in the lock file as it is on disk now, since other runs may have changed it.

    `digests`: by the bundles' names in the cluster file. `signers`: public keys that are trusted from now on. Raises
    InputError if the lock file cannot be read or written.
    """
    path = loading.lock_path(known.path)
    with shared_files.exclusively(known.path):
        locks.save(locks.with_signers(with_bundles(locks.load(path), digests), signers), path)


def accept(cluster: str) -> int:
    """Trust the file's bundles as they are now, and print them; InputError, accepting none, for a bad one."""
    known = loading.load_named(cluster)
    found = {name: archive.verified(path) for name, path in archive.paths_by_name(known).items()}
    if not found:
        raise InputError(f"{known.path} names no bundle, so there is none to accept.")
    pin(known, {name: bundle.digest for name, bundle in found.items()})
    for name, bundle in found.items():
        before = known.lock.bundles.get(name)
        kept = f"instead of {before}" if before not in (None, bundle.digest) else "as before" if before else "new"
        print(f"{archive.description(bundle)}\n  accepted ({kept})")  # noqa: T201 - the output of the command
    return 0


def name_in(known: Inventory, path: Path) -> str:
    """The name that a bundle has in a cluster file, or that it would have there."""
    for name, named in archive.paths_by_name(known).items():
        if named.absolute() == path.absolute():
            return name
    return path.name if path.absolute().parent == known.path.absolute().parent else str(path.absolute())
