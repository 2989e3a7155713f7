"""Debian packages to test with, made without dpkg."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

PACK: Mapping[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
"""By the end of the name of a control.tar, how it is packed."""

FIELDS = {"Package": "enroot", "Version": "3.5.0-1", "Architecture": "amd64", "Installed-Size": "7"}


def control(**fields: str) -> str:
    """The text of a control file with these fields, besides the usual ones."""
    return "".join(f"{key}: {value}\n" for key, value in {**FIELDS, **fields}.items())


def tar(text: str, name: str = "./control") -> bytes:
    """A control.tar with a control file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text.encode())
        archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def ar(members: Mapping[str, bytes]) -> bytes:
    """An ar archive."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        parts.append(
            f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return b"".join(parts)


def saved(path: Path, *, suffix: str = ".xz", data: bytes = b"data", **fields: str) -> Path:
    """Write a package, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = PACK[suffix](tar(control(**fields)))
    path.write_bytes(ar({"debian-binary": b"2.0\n", f"control.tar{suffix}": packed, "data.tar.xz": data}))
    return path
