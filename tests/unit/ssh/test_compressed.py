"""What is sent to hosts: compressed once, kept beside Python's modules, and never believed for other data."""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

import pytest

from slurmfab.hosts import compressed as subject
from slurmfab.hosts.compressed import compressed

DATA = b"import os\n" * 4000


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which Python keeps modules."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    return tmp_path


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every compression fail."""

    def refuse(*_: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr(zlib, "compress", refuse)


def test_data_when_it_was_compressed_before_then_is_not_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compressed(DATA)
    assert zlib.decompress(first) == DATA
    forbid(monkeypatch)
    assert compressed(DATA) == first


def test_data_when_other_data_is_kept_then_is_compressed_itself() -> None:
    assert zlib.decompress(compressed(DATA)) == DATA
    assert zlib.decompress(compressed(DATA + b"#")) == DATA + b"#"


@pytest.mark.parametrize(
    "found",
    [b"", b"no zlib", zlib.compress(b"import evil"), zlib.compress(DATA * 9), zlib.compress(DATA)[:-1],
     zlib.compress(DATA) + b"#"],
    ids=["empty", "no zlib", "other data", "more data", "cut off", "more behind it"],
)  # fmt: skip
def test_a_kept_file_when_it_is_not_what_was_to_be_compressed_then_is_replaced(kept: Path, found: bytes) -> None:
    right = compressed(DATA)
    (file,) = kept.rglob("sent-*")
    file.write_bytes(found)
    assert compressed(DATA) == right == file.read_bytes()


def test_data_when_python_may_keep_no_modules_then_is_compressed_and_not_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert zlib.decompress(compressed(DATA)) == DATA
    assert not list(kept.rglob("sent-*"))


def test_kept_files_when_there_are_too_many_then_the_oldest_go(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST", 2)
    for number in range(4):
        compressed(b"%d" % number)
        for age, file in enumerate(kept.rglob("sent-*")):
            assert age < 2
            os.utime(file, ns=(file.stat().st_mtime_ns - 10**9,) * 2)
    packed = compressed(b"3")
    assert packed in [file.read_bytes() for file in kept.rglob("sent-*")]
