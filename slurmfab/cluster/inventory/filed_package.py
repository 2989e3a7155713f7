"""A package in a file beside the cluster file, of whatever package manager."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from slurmfab.base.bounded_file import opened, without_waiting
from slurmfab.base.errors import InputError

LARGEST_FILE = 2 << 30  # bytes of the largest package

Package = TypeVar("Package", bound="FiledPackage")


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
            with opened(self.path) as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    found.update(piece)
                return found.hexdigest()
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}.") from error

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield the file in pieces with the number of bytes before; InputError if it is unreadable or has changed."""
        done = 0
        try:
            with opened(self.path) as file:
                while done < self.size:
                    data = file.read(min(size, self.size - done))
                    if not data:
                        raise InputError(f"{self.path} became shorter while it was read; run the same command again.")
                    yield done, data
                    done += len(data)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}.") from error


def package_in(path: Path, read: Callable[[BinaryIO, int], Package]) -> Package:
    """The package in a file; InputError if it cannot be read, or is none. `read`: makes it of the file and its size."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            if not path.is_file():
                raise InputError("it is not a regular file")
            size = path.stat().st_size
            if size > LARGEST_FILE:
                raise InputError(f"it has more than {LARGEST_FILE >> 30} GiB")
            return read(file, size)
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}") from None
