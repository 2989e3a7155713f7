"""`fab eject`: writes a cluster that is as wanted into a directory, as scripts that need no slurmfab."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from slurmfab.base import atomic_file, bounded_file, exit_codes
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.eject.scripts import Ejected, eject, with_marks
from slurmfab.core.engine import converge, session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

RUNS = ("make-cluster",)  # files that are programs
MOST_BYTES = 4 << 30  # size of the largest package beside the cluster file


def write_cluster(cluster: str, to: str, output: Output) -> int:
    """Compare all hosts with the cluster file, and write the scripts of those that are as wanted.

    `to`: the directory, which must not exist, or be empty; by default CLUSTER-ejected beside the cluster file. Raises
    InputError of these; SlurmfabError of a host that is silent or differs.
    """
    known = loading.load_named(cluster)
    place = Path(to) if to else known.path.with_name(f"{known.cluster.name}-ejected")
    refuse_place(place)
    run = session.start(known, "", output, RunOptions("eject", installs_python=False))
    with session.ending(run):
        plan_input, steps = converge.survey(run, may_prepare=False)
        refuse_others([step.host for step in steps if step.not_ok], run.failed_hosts)
        marked = with_marks(plan_input)
        made = eject(marked, make_plan(marked, run.hosts))
    write_files(made, place)
    tell(made, place, output)
    return exit_codes.LEFT_OUT if made.unsaid else exit_codes.DONE


def refuse_place(place: Path) -> None:
    """Refuse, by InputError, a directory that has something in it, or cannot be made."""
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place} exists and is not empty. Name another directory: --to.")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{place.absolute().parent} does not exist. Make it, or name another directory: --to.")
    with atomic_file.refusing(place), atomic_file.opened_parent(place)[0] as parent:
        atomic_file.refuse_open_to_all(parent)


def refuse_others(differing: list[str], failed: Mapping[str, Exception]) -> None:
    """Refuse, by SlurmfabError, hosts that are not as the cluster file wants them: the scripts would be of others."""
    if failed:
        raise SlurmfabError(f"No script was written, since {fold(failed)} could not be asked.")
    if differing:
        named = fold(dict.fromkeys(differing))
        raise SlurmfabError(f"No script was written, since {named} differs from the cluster file. First: {FAB} deploy")


def write_files(ejected: Ejected, place: Path) -> None:
    """Write the directory, whole or not at all; for its owner alone. Raises InputError if that is not possible."""
    try:
        parent, name = atomic_file.opened_parent(place)
        with parent:
            atomic_file.refuse_open_to_all(parent)
            new = f".{name}.{secrets.token_hex(4)}"
            with parent.make(new, 0o700) as made:
                try:
                    atomic_file.write_new(made, contents(ejected))
                    if parent.find(name):
                        os.rmdir(name, dir_fd=parent.descriptor)
                    parent.rename(new, name)
                except BaseException:
                    for one in made.names():
                        made.remove(one)
                    with suppress(OSError):
                        os.rmdir(new, dir_fd=parent.descriptor)
                    raise
                named = parent.find(name)
                if named is None or not os.path.samestat(named, made.status):
                    raise InputError(f"Somebody has put another directory in the place of {place}: do not use it.")
    except (OSError, ResourceFailed) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"The scripts cannot be written to {place}: {why}.") from error


def contents(ejected: Ejected) -> Iterator[tuple[str, bytes, int]]:
    """Paths of the files in the directory, with contents and modes."""
    for name, text in ejected.files.items():
        yield name, text.encode(errors="surrogateescape"), 0o700 if name in RUNS else 0o600
    for name, path in ejected.copies.items():
        yield name, bounded_file.read(path, MOST_BYTES), 0o600


def tell(made: Ejected, place: Path, output: Output) -> None:
    """Print where the scripts are, and what they need and lack."""
    lines = [f"{place} has the cluster as shell scripts; README.md there tells how to use them."]
    lines += [f"Not in them: {'; '.join(made.unsaid)}."] if made.unsaid else []
    needed = ", ".join(f"secrets/{name}" for name in made.secrets)
    lines += [f"Before use, put there: {needed}."] if needed else []
    write("\n".join(lines), output.stream)
