"""Packages of rpm in files beside the cluster file: what each says of itself in its header.

A package begins with a lead of 96 bytes, a header with signatures, and the header, which has an index of 16 bytes for
each entry and a store with the values (rpm's manual, “RPM V4 package format”). The program needs no rpm.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import filed_package
from slurmfab.cluster.inventory.filed_package import FiledPackage

LEAD = 96  # bytes before the first header
MAGIC, HEADER = b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\x01"
MOST_ENTRIES = 1 << 16
LARGEST_STORE = 16 << 20

NAME, VERSION, RELEASE, EPOCH, SIZE, ARCHITECTURE, SOURCE, NEEDED = 1000, 1001, 1002, 1003, 1009, 1022, 1044, 1049
"""Tags of a header; a package without `SOURCE` is itself one of sources."""
NUMBER, TEXT, TEXTS = 4, 6, 8  # types of values that are read

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~^-]{0,199}")
_DAMAGED = (
    "it is not a package of rpm, or it is damaged; see it with rpm --query --info --package, or download it again"
)


@dataclass(frozen=True)
class RpmFile(FiledPackage):
    """A package of rpm in a file."""

    path: Path
    values: dict[int, tuple[str, ...]] = field(repr=False)  # texts and numbers of its header by tag
    size: int  # of the file in bytes

    def _value(self, tag: int) -> str:
        return next(iter(self.values.get(tag, ())), "")

    @property
    def name(self) -> str:
        """The package's name."""
        return self._value(NAME)

    @property
    def version(self) -> str:
        """Its version and release, such as `24.11.5-1.el9`."""
        return f"{self._value(VERSION)}-{self._value(RELEASE)}"

    @property
    def architecture(self) -> str:
        """The architecture that it is for, such as `x86_64`, or `noarch`."""
        return self._value(ARCHITECTURE)

    @property
    def file_name(self) -> str:
        """The name that rpmbuild gives the file: `NAME-VERSION-RELEASE.ARCHITECTURE.rpm`."""
        return f"{self.name}-{self.version}.{self.architecture}.rpm"

    @property
    def installed_bytes(self) -> int:
        """About how much room it takes when it is installed."""
        return max(int(self._value(SIZE) or 0), self.size)

    @property
    def depends(self) -> tuple[tuple[str, ...], ...]:
        """The names of the packages that it needs, without what is no package's, such as `/bin/sh`."""
        names = dict.fromkeys(text.partition("(")[0] for text in self.values.get(NEEDED, ()))
        return tuple((name,) for name in names if _WORD.fullmatch(name))

    def is_for(self, architecture: str) -> bool:
        """Whether hosts of an architecture can install it."""
        return self.architecture in ("noarch", architecture)


def package_in(path: Path) -> RpmFile:
    """The package in a file. Raises InputError if the file cannot be read, or is no package, and why."""
    return filed_package.package_in(path, lambda file, size: checked(RpmFile(path, values_in(file), size)))


def checked(package: RpmFile) -> RpmFile:
    """The package, if its name, version and architecture are some; InputError otherwise, and for one of sources."""
    for what in (package.name, *package.version.rsplit("-", 1), package.architecture):
        if not _WORD.fullmatch(what):
            raise InputError(_DAMAGED)
    if SOURCE not in package.values:
        raise InputError(
            "it is a package of sources; build it (rpmbuild --rebuild), and keep the packages of that here"
        )
    return package


def values_in(file: BinaryIO) -> dict[int, tuple[str, ...]]:
    """The texts and numbers of a package's header by tag. Raises InputError if the file is no package."""
    try:
        if file.read(LEAD)[: len(MAGIC)] != MAGIC:
            raise InputError(_DAMAGED)
        _, store = header(file)
        file.seek(-len(store) % 8, 1)  # the header of signatures is filled up to a multiple of eight bytes
        entries, store = header(file)
        wanted = (NAME, VERSION, RELEASE, EPOCH, SIZE, ARCHITECTURE, SOURCE, NEEDED)
        return {
            tag: value(store, kind, offset, count)
            for tag, kind, offset, count in struct.iter_unpack(">4I", entries)
            if tag in wanted
        }
    except (struct.error, IndexError):
        raise InputError(_DAMAGED) from None


def header(file: BinaryIO) -> tuple[bytes, bytes]:
    """Index and store of the header at which a file is. Raises InputError if none is there."""
    magic, entries, size = struct.unpack(">4s4x2I", file.read(16))
    if magic != HEADER or entries > MOST_ENTRIES or size > LARGEST_STORE:
        raise InputError(_DAMAGED)
    index, store = file.read(16 * entries), file.read(size)
    if len(index) < 16 * entries or len(store) < size:
        raise InputError(_DAMAGED)
    return index, store


def value(store: bytes, kind: int, offset: int, count: int) -> tuple[str, ...]:
    """The value of an entry as texts; empty for a type that is not read. Raises IndexError if the store is shorter."""
    if kind in (TEXT, TEXTS):
        texts = store[offset:].split(b"\0", min(count, MOST_ENTRIES))
        if len(texts) <= count:
            raise IndexError(offset)
        return tuple(text.decode("utf-8", "replace") for text in texts[:count])
    return (str(struct.unpack_from(">I", store, offset)[0]),) if kind == NUMBER else ()
