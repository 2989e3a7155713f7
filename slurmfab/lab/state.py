"""What is remembered about each lab, and who may work on it at one time.

The state is written before the first thing of a lab is made, and it names everything that is not told by the lab's
name alone. So `down` can remove a lab whose `up` was killed at any moment.
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

from slurmfab.errors import InputError, LabError
from slurmfab.lab.layout import LABS, LabLayout
from slurmfab.lab.spec import LabSpec

PATIENCE = 10.0
"""Seconds to wait for another process that works on the same lab."""


@dataclass(frozen=True)
class LabState:
    """One lab, as remembered on disk.

    Args:
        spec: what it was asked to be.
        network: its /24, as in `10.20.30.0/24`.
        base: its base tree.
        cgroups: its directory in each cgroup hierarchy.
        cluster_file: the cluster file written for it.
        phase: `starting` until every host answers, then `up`.
    """

    spec: LabSpec
    network: str
    base: str
    cgroups: tuple[str, ...]
    cluster_file: str
    phase: str = "starting"

    @property
    def layout(self) -> LabLayout:
        """Names and places of this lab."""
        return LabLayout(self.spec.name)


def write(state: LabState) -> None:
    """Remember the state; a reader sees the old one or the new one, never half of it."""
    write_json(state.layout.state, asdict(state))


def read(name: str) -> LabState | None:
    """The state of the lab of that name; None when there is none, or when `up` was killed before it had one."""
    data = read_json(LabLayout(name).state)
    return None if data is None else from_data(data)


def from_data(data: dict[str, Any]) -> LabState:
    """The state in a lab's JSON; what it says beyond that is a newer slurmfab's, whose lab is beside ours."""
    known = {field.name for field in fields(LabSpec)}
    spec: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data["spec"].items() if key in known
    }
    said = {field.name: data[field.name] for field in fields(LabState) if field.name in data}
    try:
        made = LabSpec(**spec)
    except InputError:
        # Values that this one does not understand; what is needed to leave the lab alone, or to remove it, is enough.
        made = LabSpec(spec["name"], spec["suite"], spec["nodes"])
    return LabState(**{**said, "spec": made, "cgroups": tuple(data["cgroups"])})


def names() -> tuple[str, ...]:
    """Names of all labs on this machine, whole or half."""
    return tuple(sorted(path.name for path in LABS.iterdir() if path.is_dir())) if LABS.is_dir() else ()


def states() -> tuple[LabState, ...]:
    """The states of all labs on this machine."""
    return tuple(state for state in map(read, names()) if state)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON beside the file, then rename it into place."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(data, indent=1))
    fresh.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read JSON; None when there is no such file."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return data


@contextmanager
def locked(directory: Path, patience: float = PATIENCE, make: bool = True) -> Iterator[None]:
    """Hold a directory for this process alone; the lock goes with the process, however that ends.

    Args:
        directory: what to hold.
        patience: seconds to wait for another holder.
        make: make the directory when it is not there; otherwise nothing is held then.

    Raises:
        LabError: another process held it all the time.
    """
    descriptor = _lock(directory, patience, make)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(directory: Path, patience: float, make: bool) -> int | None:
    """Take the lock; returns the open file that holds it, or None when there is no directory to hold."""
    deadline = time.monotonic() + patience
    while True:
        if make:
            directory.mkdir(parents=True, exist_ok=True)
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
    """Whether the open directory is the one that has this name now: its holder may have removed it."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
