"""A cluster file and its lock as one value: reads files, talks to nobody."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmfab import lock as locks
from slurmfab.errors import InputError

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster

DEFAULT_PATH = Path("configs/cluster.yaml")
PATH_VARIABLE = "SLURMFAB_CLUSTER"


@dataclass(frozen=True)
class Inventory:
    """What is known of a cluster without asking its hosts.

    Args:
        cluster: what the user wrote.
        lock: what slurmfab discovered or decided before.
        path: the cluster file.
    """

    cluster: Cluster
    lock: locks.Lock
    path: Path


def load(path: Path) -> Inventory:
    """The cluster in a file, with its lock.

    Raises:
        ClusterFileError: the file has mistakes; the error has them all.
        InputError: the file or its lock cannot be read.
    """
    return Inventory(parse(read_text(path), str(path)), locks.load(lock_path(path)), path)


def parse(text: str, where: str) -> Cluster:
    """The cluster that the text of a cluster file describes.

    Args:
        text: YAML 1.2.
        where: the file's name, for complaints.

    Raises:
        ClusterFileError: with all that is wrong.
    """
    # ruamel and pydantic cost 80 ms that `fab --list` need not pay.
    from slurmfab.clusterfile import complaints, reading  # noqa: PLC0415

    return complaints.cluster_from(reading.read(text, where), where)


def read_text(path: Path) -> str:
    """The text of a cluster file, with its line ends as they are.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        raise InputError(
            f"There is no cluster file {path}. `fab deploy --hosts n1,n[2-5]` makes one, with the first host as the "
            f"controller; --cluster or {PATH_VARIABLE} names another."
        ) from None
    except OSError as error:
        raise InputError(f"The cluster file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: this is no UTF-8 text; save the file as UTF-8.") from error


def lock_path(path: Path) -> Path:
    """Where the lock of a cluster file lies: `cluster.lock.json` beside `cluster.yaml`."""
    return path.with_name(f"{path.stem}.lock.json")


def default_path() -> Path:
    """The cluster file when the command line names none: from SLURMFAB_CLUSTER, else configs/cluster.yaml."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def schema() -> dict[str, Any]:
    """The JSON schema of a cluster file, for editors that complete and check while one writes."""
    from slurmfab.clusterfile import json_schema  # noqa: PLC0415

    return json_schema.schema()
