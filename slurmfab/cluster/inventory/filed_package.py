"""A package in a file beside the cluster file, of whatever package manager."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from slurmfab.base.errors import InputError


class FiledPackage:
    """A package in a file, which is sent to hosts."""

    path: Path
    size: int  # of the file in bytes

    @property
    def name(self) -> str:
        """The package's name."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        """Its version, as hosts tell that of an installed package."""
        raise NotImplementedError

    @property
    def architecture(self) -> str:
        """The architecture that it is for, in the words of its package manager."""
        raise NotImplementedError

    @property
    def file_name(self) -> str:
        """The name of the file on hosts."""
        raise NotImplementedError

    @property
    def installed_bytes(self) -> int:
        """About how much room it takes when it is installed."""
        raise NotImplementedError

    @property
    def depends(self) -> tuple[tuple[str, ...], ...]:
        """The names of the packages that it needs; of each group of alternatives, one."""
        raise NotImplementedError

    def is_for(self, architecture: str) -> bool:
        """Whether hosts of an architecture can install it."""
        raise NotImplementedError

    def digest(self) -> str:
        """The SHA-256 of the file in hexadecimal digits. Raises InputError if the file cannot be read any more."""
        found = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    found.update(piece)
                return found.hexdigest()
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}.") from error

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield the file in pieces with the number of bytes before; InputError if it is unreadable or has changed."""
        done = 0
        try:
            with self.path.open("rb") as file:
                while done < self.size:
                    data = file.read(min(size, self.size - done))
                    if not data:
                        raise InputError(f"{self.path} became shorter while it was read; run the same command again.")
                    yield done, data
                    done += len(data)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}.") from error
