"""A bundle's packages on their way to the deployer: collected on this host by its own apt, and nothing is left here.

{"op": "collect", "names": [...]} -> {"file": "NAME.deb"}, {"piece": "<base64>"} ... for each file, {"collected": {...}}

apt works on an empty dpkg status of its own, with its own package lists and cache, so that it fetches all that the
packages need, whatever this host has; with the host's own sources and keys, so that what it fetches is verified.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from typing import Any, Iterator, List, Mapping, Tuple

from slurmfab.agent import apt_words, bundle_place
from slurmfab.agent.lifeline import Answers
from slurmfab.agent.packages import SPARING, apt_get
from slurmfab.agent.reading import names
from slurmfab.agent.resource import Context, ResourceFailed

BASE = "/var/cache/slurmfab"
NEW = "bundling-"
PIECE = 192 * 1024
"""Bytes of a file that are sent at a time: 256 KiB in base64."""

FIELDS = (
    "Package", "Source", "Version", "Architecture", "Multi-Arch", "Essential", "Protected", "Installed-Size",
    "Depends", "Pre-Depends", "Conflicts", "Breaks", "Replaces", "Provides", "Section", "Priority",
)  # fmt: skip
"""What the index says of each package besides its file: all that apt decides by (deb-control(5))."""


def stream(request: Mapping[str, Any], context: Context, answers: Answers) -> None:
    """Collect packages and all that they need, send them, and remove them here.

    Args:
        request: `names` of the packages.
        context: knows how to run programs.
        answers: where they go.

    Raises:
        ResourceFailed: apt cannot fetch them.
        Gone: the deployer went away meanwhile.
    """
    with private_place(context) as place:
        settings = options(place)
        fetch(context, settings, request["names"])
        folder = os.path.join(place, "archives")
        paragraphs = []
        for name in names(folder):
            if name.endswith(".deb"):
                answers.check()
                paragraphs.append(paragraph(context, folder, bundle_place.checked(name)))
                send(os.path.join(folder, name), answers)
        answers.send(collected={"index": "\n\n".join(paragraphs) + "\n"})


@contextlib.contextmanager
def private_place(context: Context) -> Iterator[str]:
    """A directory of this request's own, which goes with it; what killed ones have left goes as well."""
    base = context.path(BASE)
    os.makedirs(os.path.dirname(base), exist_ok=True)
    bundle_place.make_readable(base)
    for name in names(base):
        if name.startswith(NEW):
            with contextlib.suppress(OSError), held(os.path.join(base, name)):
                shutil.rmtree(os.path.join(base, name))
    place = tempfile.mkdtemp(prefix=NEW, dir=base)
    try:
        # apt fetches as the user _apt.
        os.chmod(place, 0o755)  # noqa: S103 - what lies there is on every mirror
        with held(place):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(base)


@contextlib.contextmanager
def held(directory: str) -> Iterator[None]:
    """A context in which no other process holds this directory (flock(2)).

    Raises:
        OSError: another one does.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def options(place: str) -> Tuple[str, ...]:
    """The options with which apt keeps all its state in a place, where nothing is installed (apt.conf(5))."""
    bundle_place.make_folders(place)
    with open(os.path.join(place, "status"), "wb"):
        pass
    settings = {
        "Dir::State::status": "status",
        "Dir::State::extended_states": "extended_states",
        "Dir::State::lists": "lists",
        "Dir::Cache::archives": "archives",
    }
    words = ["%s=%s/%s" % (name, place, path) for name, path in settings.items()]
    return tuple(word for one in (*words, "Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=") for word in ("-o", one))


def fetch(context: Context, settings: Tuple[str, ...], wanted: List[str]) -> None:
    """Fetch packages and all that they need; with a source that does not answer, a bundle would lack its updates.

    Raises:
        ResourceFailed: not all of it can be had.
    """
    for words in (["update"], [*SPARING, "--download-only", "install", "--", *wanted]):
        code, output = apt_get(context, [*settings, *words])
        if code != 0 or "\nErr:" in output:
            other = "Any host of this release that reaches them will do: fab bundle --from HOST"
            raise ResourceFailed(apt_words.explain(output).replace(apt_words.OFFLINE, other))


def paragraph(context: Context, folder: str, name: str) -> str:
    """What the index says of a package."""
    path, digest = os.path.join(folder, name), hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    lines: List[str] = []
    for line in context.must(["dpkg-deb", "--field", path]).splitlines():
        if line[:1].isspace():
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    own = [line for line in lines if line.partition(":")[0] in FIELDS]
    own += ["Filename: ./%s" % name, "Size: %d" % os.path.getsize(path), "SHA256: %s" % digest.hexdigest()]
    return "\n".join(own)


def send(path: str, answers: Answers) -> None:
    """Send a file in pieces; the line waits for whoever reads it, so nothing piles up."""
    answers.send(file=os.path.basename(path))
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            answers.check()
            answers.send(piece=base64.b64encode(piece).decode("ascii"))
