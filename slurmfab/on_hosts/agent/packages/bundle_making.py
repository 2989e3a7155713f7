"""Packages for a bundle: downloaded on this host by its own apt, sent to the deployer, and removed here.

apt works with an empty dpkg status, and with its own package lists and cache, so that it downloads all dependencies
whatever this host has installed. It uses the host's package sources and keys, so that it verifies what it downloads.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import tempfile
from typing import Any, Iterator, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core.lifeline import Answers
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import names, sha256_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import FILE_FLAGS
from slurmfab.on_hosts.agent.packages import apt_errors, bundle_place, slurm_release
from slurmfab.on_hosts.agent.packages.apt import MINIMAL, apt_get

BASE = "/var/cache/slurmfab-fetched"  # not that of labs, which is root's alone
NEW = "bundling-"
PIECE = 192 * 1024  # bytes of a file in one answer: 256 KiB in base64

FIELDS = (
    "Package", "Source", "Version", "Architecture", "Multi-Arch", "Essential", "Protected", "Installed-Size",
    "Depends", "Pre-Depends", "Conflicts", "Breaks", "Replaces", "Provides", "Section", "Priority",
)  # fmt: skip
"""Fields of each package in the index, besides its file: all that apt needs to choose packages (deb-control(5))."""


def send_all(folder: str, index: str, answers: Answers) -> None:
    """Send the packages in a directory, and the index of them; Disconnected without a deployer."""
    for name in names(folder):
        if name.endswith((".deb", ".rpm")):
            answers.check()
            send(os.path.join(folder, bundle_place.checked(name)), answers)
    answers.send(collected={"index": index})


def collected(context: Context, request: Mapping[str, Any], place: str) -> Tuple[str, str]:
    """Download packages with all dependencies; their directory, and the index.

    `request`: as of `host_bundles.stream`. `place`: a directory for all that apt writes. Raises ResourceFailed of apt.
    """
    settings = options(place)
    wanted = request["names"]
    if request.get("slurm"):
        wanted = slurm_release.in_version(context, wanted, request["slurm"], request.get("version", ""))
    fetch(context, settings, wanted)
    folder = os.path.join(place, "archives")
    debs = [bundle_place.checked(name) for name in names(folder) if name.endswith(".deb")]
    return folder, "\n\n".join(paragraph(context, folder, name) for name in debs) + "\n"


@contextlib.contextmanager
def temporary_directory(context: Context) -> Iterator[str]:
    """A context with a directory of its own, which is removed at the end, as are those of interrupted requests."""
    base = context.path(BASE)
    os.makedirs(os.path.dirname(base), exist_ok=True)
    bundle_place.make_readable(base)
    for name in names(base):
        if name.startswith(NEW):
            with contextlib.suppress(OSError), held(os.path.join(base, name)):
                shutil.rmtree(os.path.join(base, name))
    place = tempfile.mkdtemp(prefix=NEW, dir=base)
    try:
        with held(place):
            # apt fetches as the user _apt.
            os.chmod(place, 0o755)  # noqa: S103 - what lies there is on every mirror
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(base)


@contextlib.contextmanager
def held(directory: str) -> Iterator[None]:
    """A context with the lock of a directory: a file, which root alone can open. OSError if another process has it."""
    descriptor = os.open(os.path.join(directory, ".lock"), os.O_WRONLY | os.O_CREAT | FILE_FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def options(place: str) -> Tuple[str, ...]:
    """The options that make apt keep all its state in a directory, with no package installed (apt.conf(5))."""
    bundle_place.make_folders(place)
    with open(os.path.join(place, "status"), "wb"):
        pass
    settings = {
        "Dir::State::status": "status",
        "Dir::State::extended_states": "extended_states",
        "Dir::State::lists": "lists",
        "Dir::Cache::archives": "archives",
    }
    values = ["%s=%s/%s" % (name, place, path) for name, path in settings.items()]
    values += ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache="]
    return tuple(word for value in values for word in ("-o", value))


def fetch(context: Context, settings: Tuple[str, ...], wanted: List[str]) -> None:
    """Download packages with dependencies; ResourceFailed if one, or a source with updates, cannot be had."""
    code, output = apt_get(context, [*settings, "update"])
    if code == 0 and "\nErr:" not in output:
        asked, code, output = slurm_release.solved(context, wanted, settings)
        if code == 0:
            code, output = apt_get(context, [*settings, *MINIMAL, "--download-only", "install", "--", *asked])
    if code != 0 or "\nErr:" in output:
        other = "Any host of this release that reaches them will do: %s bundle --from HOST" % FAB
        raise ResourceFailed(apt_errors.explain(output).replace(apt_errors.OFFLINE, other))


def paragraph(context: Context, folder: str, name: str) -> str:
    """The entry of a package in the index. `name`: the name of the file."""
    path = os.path.join(folder, name)
    lines: List[str] = []
    for line in context.must(["dpkg-deb", "--field", path]).splitlines():
        if line[:1].isspace():
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    own = [line for line in lines if line.partition(":")[0] in FIELDS]
    own += ["Filename: ./%s" % name, "Size: %d" % os.path.getsize(path), "SHA256: %s" % sha256_of(path)]
    return "\n".join(own)


def send(path: str, answers: Answers) -> None:
    """Send a file in pieces; a write blocks until the deployer reads, so that nothing fills the memory."""
    answers.send(file=os.path.basename(path))
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            answers.check()
            answers.send(piece=base64.b64encode(piece).decode("ascii"))
