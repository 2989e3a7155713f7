"""The state of each lab on disk, and locks that let one process at a time change a lab.

A lab's state is written before anything else of it is made, and contains everything that does not follow from the lab's
name. So `down` can remove a lab whose `up` was interrupted at any time.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from slurmfab.base import bounded_file, strict_json
from slurmfab.base.errors import BrokenFile, InputError, LabError
from slurmfab.lab.layout import LABS, LabLayout
from slurmfab.lab.spec import LabSpec

MOST_BYTES = 16 << 20  # size of the largest JSON file that is read; a state of a lab has some KiB
PATIENCE = 10.0  # seconds to wait for another process that holds the lock of the same lab


@dataclass(frozen=True)
class LabState:
    """The state of one lab, as stored on disk."""

    spec: LabSpec
    network: str  # the lab's network, such as `10.20.30.0/24`
    base: str
    cgroups: tuple[str, ...]  # its directory in each cgroup hierarchy
    cluster_file: str
    phase: str = "starting"  # `starting` until all hosts are up, then `up`
    disks: str = ""  # name of the kept disks that its hosts are copies of; empty if all started as bare hosts

    @property
    def layout(self) -> LabLayout:
        """Names and paths of this lab."""
        return LabLayout(self.spec.name)


def write(state: LabState) -> None:
    """Write the state atomically: readers get the old or the new state, never a part of one."""
    write_json(state.layout.state, asdict(state))


def read(name: str) -> LabState | None:
    """Read a lab's state, `None` if there is no lab or its `up` was interrupted; BrokenFile for something else."""
    path = LabLayout(name).state
    data = read_json(path)
    try:
        return None if data is None else from_data(data)
    except (AttributeError, KeyError, TypeError) as error:
        raise BrokenFile(path, f"it is not the state of a lab ({type(error).__name__}: {error})") from error


def from_data(data: dict[str, Any]) -> LabState:
    """Build the state from JSON data; unknown keys, which a newer slurmfab may have written, are ignored."""
    known = {field.name for field in fields(LabSpec)}
    spec: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data["spec"].items() if key in known
    }
    values = {field.name: data[field.name] for field in fields(LabState) if field.name in data}
    try:
        made = LabSpec(**spec)
    except InputError:
        # A newer slurmfab wrote values that are not valid here. These three suffice to keep the lab or to remove it.
        made = LabSpec(spec["name"], spec["suite"], spec["nodes"])
    return LabState(**{**values, "spec": made, "cgroups": tuple(data["cgroups"])})


def names() -> tuple[str, ...]:
    """Names of all labs on this machine, including incomplete ones."""
    return tuple(sorted(path.name for path in LABS.iterdir() if path.is_dir())) if LABS.is_dir() else ()


def states() -> tuple[LabState, ...]:
    """States of all labs on this machine that have one."""
    return tuple(state for state in map(read, names()) if state)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON to a temporary file in the same directory, then rename it to `path`."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(data, indent=1))
    fresh.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file; None if it does not exist. Raises BrokenFile if it holds something else than a JSON object."""
    try:
        data = strict_json.parse(bounded_file.read(path, MOST_BYTES), path)
    except FileNotFoundError:
        return None
    if not isinstance(data, dict):
        raise BrokenFile(path, "it is not a JSON object")
    return data


@contextmanager
def locked(directory: Path, patience: float = PATIENCE, make: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a directory; the kernel releases it when the process ends.

    `patience`: seconds to wait for another process that holds the lock. `make`: whether to make the directory if it
    does not exist; if not, a missing directory is not locked. Raises LabError if another process held the lock for that
    long.
    """
    descriptor = _lock(directory, patience, make)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(directory: Path, patience: float, make: bool) -> int | None:
    """Take the lock; returns the file descriptor that holds it, or None if the directory does not exist."""
    deadline = time.monotonic() + patience
    while True:
        if make:
            # Whoever can open it can lock it.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if make:
                continue
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(directory, descriptor):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise LabError(
                    f"Another process is working on {directory} (starting or removing the lab). "
                    "Wait until it is done, or end it and try again."
                ) from None
            time.sleep(0.05)
        os.close(descriptor)


def _is_still(directory: Path, descriptor: int) -> bool:
    """Whether the open directory still has this path; the last holder of the lock may have removed it."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
