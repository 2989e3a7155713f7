"""The OpenPGP key of a repository: read from a file beside the cluster file, and written as apt and dnf read it.

Both of its forms are read: text between lines of dashes, and bytes (RFC 9580). Only what the first packet is, is looked
at: whether the key has signed a repository is apt's question.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.cluster.inventory.deb_files import place_of
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.named_path import named
from slurmfab.cluster.inventory.slurm_packages import AptRepository, DnfRepository

LARGEST_FILE = 256 << 10  # bytes of the largest file with keys
PUBLIC_KEY, SECRET_KEY = 6, 5  # kinds of packets (RFC 9580, section 5)

NO_KEY = "it is no OpenPGP key; write one into it: gpg --armor --export KEY"
_BLOCK = re.compile(
    r"-----BEGIN PGP (?P<what>[A-Z ]+)-----[ \t\r]*\n(?:[A-Za-z]+: [^\n]*\n)*\s*"
    r"(?P<text>[A-Za-z0-9+/=\s]+?)(?:\n=[A-Za-z0-9+/]{4})?\s*\n-----END PGP (?P=what)-----"
)
_WIDTH = 64
_CRC24, _CRC24_START, _CRC24_BITS = 0x1864CFB, 0xB704CE, 1 << 24


def read(inventory: Inventory) -> dict[str, str]:
    """Read the key of each repository that Slurm's packages come from: its text, by the path in the cluster file.

    `inventory`: the cluster; a relative path begins at the directory of its file. Raises InputError if a file is
    missing, or has no public key.
    """
    sources = (one.source for one in inventory.cluster.slurms)
    return {one.key: _read(inventory, one.key) for one in sources if isinstance(one, AptRepository | DnfRepository)}


def _read(inventory: Inventory, name: str) -> str:
    """Read one key."""
    path = inventory.path.parent / Path(name).expanduser()
    try:
        named(inventory.path.parent, name)
        return as_text(public_keys(bounded_file.read(path, LARGEST_FILE)))
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    except BrokenFile as error:
        reason = error.reason
    except InputError as error:
        reason = str(error)
    place = place_of(inventory, name)
    raise InputError(f"{place}: slurm.source.key: {path}: {reason}. Nothing was changed on any host.")


def public_keys(content: bytes) -> bytes:
    """The public keys in a file, as bytes. Raises InputError if it has none, or a secret one."""
    found = b"".join(_blocks(content)) if b"-----BEGIN PGP" in content else content
    first = _kind(found)
    if first == SECRET_KEY:
        raise InputError("it is a secret key, which belongs to those who sign; export the public one: gpg --export KEY")
    if first != PUBLIC_KEY:
        raise InputError(NO_KEY)
    return found


def _blocks(content: bytes) -> Iterator[bytes]:
    """Yield the bytes of each block of text. Raises InputError if one is damaged."""
    for block in _BLOCK.finditer(content.decode("latin-1").replace("\r\n", "\n")):
        try:
            yield base64.b64decode("".join(block["text"].split()), validate=True)
        except binascii.Error:
            raise InputError(NO_KEY) from None


def _kind(packets: bytes) -> int:
    """What the first packet is; 0 for something else than packets."""
    first = packets[0] if packets else 0
    if not first & 0x80:
        return 0
    return first & 0x3F if first & 0x40 else first >> 2 & 0x0F


def as_text(key: bytes) -> str:
    """Keys as text, as apt reads them from a file that ends in .asc. `key`: their bytes."""
    encoded = base64.b64encode(key).decode()
    lines = (encoded[start : start + _WIDTH] for start in range(0, len(encoded), _WIDTH))
    checksum = base64.b64encode(_crc24(key).to_bytes(3, "big")).decode()
    begin, end = (f"-----{word} PGP PUBLIC KEY BLOCK-----" for word in ("BEGIN", "END"))
    return "\n".join((begin, "", *lines, f"={checksum}", end, ""))


def _crc24(data: bytes) -> int:
    """The checksum at the end of a block of text (RFC 9580, section 6.1.1)."""
    crc = _CRC24_START
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & _CRC24_BITS:
                crc ^= _CRC24
    return crc
