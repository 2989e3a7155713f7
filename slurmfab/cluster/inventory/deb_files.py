"""Debian packages beside the cluster file (entries of `packages` that end in .deb): what each says of itself.

A package is an ar archive with `debian-binary`, `control.tar` and `data.tar` (deb(5)). Only the control file is read,
up to a size; the program needs no dpkg, since it runs on other systems, too.
"""

from __future__ import annotations

import importlib
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from slurmfab.base.errors import InputError, refuse
from slurmfab.cluster.inventory import filed_package
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.named_path import named
from slurmfab.cluster.inventory.site_packages import PACKAGE_NAME

LARGEST_PART = 4 << 20  # bytes of the largest control.tar, compressed
LARGEST_CONTROL = 16 << 20  # bytes of the largest control.tar, unpacked

MAGIC = b"!<arch>\n"
HEADER = 60  # bytes of the header of a member of an ar archive (ar(5))
MOST_DIGITS = 10  # the most digits of a size, as in the header of a member
MOST_MEMORY = 256 << 20  # bytes of memory that the unpacking of xz may take
FIRST_PARTS = 8  # how many members are looked through for the control file

FIELDS = (
    "Package", "Source", "Version", "Architecture", "Multi-Arch", "Essential", "Protected", "Installed-Size",
    "Depends", "Pre-Depends", "Conflicts", "Breaks", "Replaces", "Provides", "Section", "Priority",
)  # fmt: skip
"""Fields of a package in an index: all that apt needs to choose packages (deb-control(5))."""

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:-]{0,199}")
_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_DEPENDENCY = re.compile(r"\s*([a-z0-9][a-z0-9+.-]+)")


@dataclass(frozen=True)
class DebFile(FiledPackage):
    """A package in a file."""

    path: Path
    # the fields of its control file by name; lines of one value have line breaks between them
    fields: Mapping[str, str] = field(repr=False)
    size: int  # of the file in bytes

    @property
    def name(self) -> str:
        """The package's name."""
        return self.fields["Package"]

    @property
    def version(self) -> str:
        """Its version."""
        return self.fields["Version"]

    @property
    def architecture(self) -> str:
        """The architecture that it is for, such as `amd64`, or `all`."""
        return self.fields["Architecture"]

    @property
    def file_name(self) -> str:
        """The name that apt would give the file: `NAME_VERSION_ARCHITECTURE.deb`."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"

    @property
    def installed_bytes(self) -> int:
        """About how much room it takes when it is installed."""
        kib = self.fields.get("Installed-Size", "")
        return int(kib) << 10 if kib.isdecimal() and kib.isascii() and len(kib) < MOST_DIGITS else self.size * 3

    @property
    def depends(self) -> tuple[tuple[str, ...], ...]:
        """The names of the packages that it needs; of each group of alternatives, one."""
        texts = (self.fields.get(key, "") for key in ("Pre-Depends", "Depends"))
        groups = (group.split("|") for text in texts for group in text.split(",") if group.strip())
        found = (tuple(name[1] for name in map(_DEPENDENCY.match, group) if name) for group in groups)
        return tuple(names for names in found if names)

    def is_for(self, architecture: str) -> bool:
        """Whether hosts of an architecture can install it."""
        return self.architecture in ("all", architecture)

    def index_entry(self) -> str:
        """Its entry in the index of a package source, without a line break at the end."""
        own = [f"{key}: {self.fields[key]}" for key in FIELDS if key in self.fields]
        return "\n".join((*own, f"Filename: ./{self.file_name}", f"Size: {self.size}", f"SHA256: {self.digest()}"))


def read(inventory: Inventory) -> dict[str, DebFile]:
    """Read the packages that the cluster file names by their files.

    `inventory`: the cluster; relative paths begin at the directory of its file. Returns the packages by their paths in
    the cluster file. Raises InputError if a file is missing, or no such package; one line for each mistake.
    """
    found, complaints = dict[str, DebFile](), list[str]()
    for one in inventory.cluster.packages.everything:
        if not one.file:
            continue
        try:
            found[one.file] = package_in(named(inventory.path.parent, one.file))
            if found[one.file].name != one.name:
                raise InputError(f'this is the package "{found[one.file].name}"; rename the file: dpkg-name {one.file}')
        except InputError as error:
            complaints.append(f"{place_of(inventory, one.file)}: packages: {one.file}: {error}")
    refuse(complaints)
    return found


def place_of(inventory: Inventory, text: str) -> str:
    """The cluster file, with the line that has a text where that is known."""
    written = (inventory.files.cluster if inventory.files else None) or b""
    at = written.find(text.encode())
    line = written.count(b"\n", 0, at) + 1
    return f"{inventory.path}:{line}" if at >= 0 else str(inventory.path)


def package_in(path: Path) -> DebFile:
    """The package in a file. Raises InputError if the file cannot be read, or is no package, and why."""
    return filed_package.package_in(
        path, lambda file, size: DebFile(path, checked(fields_of(control_text(file))), size)
    )


def control_text(file: BinaryIO) -> str:
    """The text of the control file of a package. Raises InputError if the file is no package."""
    import tarfile  # most cluster files name no such file

    for name, size in members(file):
        if not name.startswith("control.tar"):
            continue
        if size > LARGEST_PART:
            raise InputError("its control.tar is too large")
        unpacked = unpack(name.removeprefix("control.tar"), file.read(size))
        try:
            with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.name in ("control", "./control") else None
                    if content is not None:
                        return content.read().decode()
        except (tarfile.TarError, UnicodeDecodeError, EOFError):
            break
    raise InputError("it is not a Debian package, or it is damaged; see it with dpkg-deb --info, or download it again")


def members(file: BinaryIO) -> Iterator[tuple[str, int]]:
    """Yield name and size of the first members of an ar archive; the file is then at the member's content."""
    if file.read(len(MAGIC)) != MAGIC:
        return
    at = len(MAGIC)
    for _ in range(FIRST_PARTS):
        file.seek(at)
        header = file.read(HEADER)
        size = header[48:58].strip()
        if len(header) < HEADER or not size.isdigit() or len(size) > MOST_DIGITS:
            return
        yield header[:16].decode("ascii", "replace").strip().rstrip("/"), int(size)
        at += HEADER + int(size) + int(size) % 2


def unpack(suffix: str, data: bytes) -> bytes:
    """The content of a small control.tar of this suffix (`.xz`); InputError if damaged, large or unreadable."""
    decompress = decompressor(suffix)
    try:
        found = decompress(data, LARGEST_CONTROL + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError):
        raise InputError("its control.tar is damaged") from None
    if len(found) > LARGEST_CONTROL:
        raise InputError("its control.tar is too large")
    return found


def decompressor(suffix: str) -> Callable[[bytes, int], bytes]:
    """The function that unpacks bytes, up to a size, by suffix (`.xz`, empty for none); InputError for others."""
    if suffix == "":
        return lambda data, most: data[:most]
    if suffix == ".gz":
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress
    if suffix == ".xz":
        return lzma.LZMADecompressor(memlimit=MOST_MEMORY).decompress
    if suffix != ".zst":
        raise InputError(f"its control.tar{suffix[:8]} is compressed in an unknown way")
    try:
        zstd: Callable[[bytes, int], bytes] = importlib.import_module("compression.zstd").ZstdDecompressor().decompress
    except ImportError:
        raise InputError(
            "it is compressed with zstd, which Python reads from 3.14 on. Pack it again: dpkg-deb --raw-extract FILE "
            "DIRECTORY; dpkg-deb -Zxz --build DIRECTORY FILE"
        ) from None
    return zstd


def fields_of(control: str) -> dict[str, str]:
    """The fields of a control file by name."""
    found, last = dict[str, str](), ""
    for line in control.splitlines():
        if line[:1].isspace() and last:
            found[last] += f"\n{line}"
        elif ":" in line:
            last, _, value = line.partition(":")
            found[last] = value.strip()
    return found


def checked(fields: dict[str, str]) -> dict[str, str]:
    """These fields, if they name a package. Raises InputError if a field is missing or wrong."""
    patterns = {"Package": PACKAGE_NAME, "Version": _VERSION, "Architecture": _ARCHITECTURE}
    for key, wanted in patterns.items():
        if not wanted.fullmatch(fields.get(key, "")):
            raise InputError(f'its {key} is "{fields.get(key, "")[:80]}"')
    return fields
