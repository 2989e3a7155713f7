"""sbundle: makes a bundle for `srun --container` from an image, as an ordinary user, without root anywhere.

skopeo fetches the image, by the host's policy.json and registries.conf; umoci unpacks it. Both work in a hidden
directory beside the bundle, which gets its name when it is complete.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Iterator

from slurmfab.on_hosts.programs.oci.config import NO_HOME

TRANSPORTS = ("docker", "docker-archive", "docker-daemon", "oci", "oci-archive", "containers-storage", "dir")
"""Where skopeo finds images (containers-transports(5)); without one of them, an image is one of a registry."""

FOLDER = "bundles"  # the directory in the user's home for bundles without a path of their own

DESCRIPTION = """\
Makes a bundle from an image, for containers of Slurm's own: srun --container=BUNDLE COMMAND.
"""
EXAMPLES = """\
examples:
  sbundle debian:12                        from Docker Hub, as ~/bundles/debian-12
  sbundle registry.example.org/sim:3 sim   from another registry, as ./sim
  sbundle docker-archive:sim.tar           from a file of `docker save` or `podman save`
  sbundle containers-storage:localhost/sim from the images that you have made with podman
"""


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end an sbundle: Ctrl-C, the end of its job, and the end of its terminal."""


class NotMade(Exception):
    """There is no bundle, and why."""


def main(*words: str) -> int:
    """Make a bundle; its path is printed, and how to run it. Returns the exit code: 1 if there is no bundle."""
    parser = argparse.ArgumentParser(
        "sbundle", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image", metavar="IMAGE", help="NAME:TAG of a registry, or TRANSPORT:… as skopeo has it")
    parser.add_argument("directory", metavar="DIRECTORY", nargs="?", help="the bundle; default: ~/bundles/NAME-TAG")
    parser.add_argument("--force", action="store_true", help="replace a bundle that is there")
    parser.add_argument("--no-home", action="store_true", help="containers do not have your home")
    given = parser.parse_args(words)
    for number in ENDS:
        signal.signal(number, signal.default_int_handler)
    try:
        source = source_of(given.image)
        place = os.path.abspath(given.directory or os.path.join(os.path.expanduser("~"), FOLDER, name_of(given.image)))
        made = make(source, place, force=given.force, has_home=not given.no_home)
    except NotMade as error:
        print("sbundle: %s" % error, file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        print("sbundle: %s: %s" % (error.filename or "bundle", error.strerror), file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130
    print(made)  # noqa: T201
    print("Run it: srun --container=%s COMMAND" % made, file=sys.stderr)  # noqa: T201
    return 0


def source_of(image: str) -> str:
    """An image as skopeo names it."""
    return image if image.partition(":")[0] in TRANSPORTS and ":" in image else "docker://" + image


def name_of(image: str) -> str:
    """The name of a bundle without one: the image's last part with its tag; NotMade if nothing is left."""
    transport, _, rest = image.partition(":")
    last = (rest if transport in TRANSPORTS else image).rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^\w.+-]+", "-", last.replace("sha256:", "")).strip("-.")
    if not name:
        raise NotMade("%s names no image" % image)
    return name


def make(source: str, place: str, *, force: bool, has_home: bool) -> str:
    """Make a bundle.

    Args:
        source: the image as skopeo names it.
        place: absolute path of the bundle.
        force: whether a bundle that is there is replaced.
        has_home: whether its containers have the user's home.

    Returns:
        The path.

    Raises:
        NotMade: skopeo or umoci failed, or something else is there.
        OSError: the directory cannot be written.
    """
    parent = os.path.dirname(place)
    if ":" in parent:
        raise NotMade("%s: skopeo cannot use a path with a colon" % parent)
    if os.path.lexists(place) and not (force and os.path.isfile(os.path.join(place, "config.json"))):
        raise NotMade("%s is there already; %s" % (place, "it is no bundle" if force else "--force replaces it"))
    os.makedirs(parent, exist_ok=True)
    with work_directory(place) as work:
        call(work, "skopeo", "copy", "--remove-signatures", source, "oci:%s/image:latest" % work)
        fresh = os.path.join(work, "bundle")
        call(work, "umoci", "unpack", "--rootless", "--image", "%s/image:latest" % work, fresh)
        if not has_home:
            without_home(os.path.join(fresh, "config.json"))
        if os.path.lexists(place):
            os.rename(place, os.path.join(work, "former"))
        os.rename(fresh, place)
    return place


@contextlib.contextmanager
def work_directory(place: str) -> Iterator[str]:
    """A hidden directory beside a bundle, locked and removed afterwards; before, those of sbundles that were killed."""
    parent, name = os.path.split(place)
    for left in glob.glob(os.path.join(glob.escape(parent), ".%s.*" % glob.escape(name))):
        clear_if_left(left, place)
    work = tempfile.mkdtemp(prefix=".%s." % name, dir=parent)
    held = os.open(work, os.O_RDONLY)
    try:
        lock(held)
        yield work
    finally:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDS}
        clear(work, place)
        os.close(held)
        for number, handler in before.items():
            signal.signal(number, handler)


def clear(work: str, place: str) -> None:
    """Remove what an sbundle has left beside a bundle; one that was to be replaced and was not goes to its place."""
    former = os.path.join(work, "former")
    if os.path.lexists(former) and not os.path.lexists(place):
        os.rename(former, place)
    remove(work)


def lock(descriptor: int) -> bool:
    """Lock a directory for as long as it is open; whether that was possible, which some file servers do not tell."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def clear_if_left(work: str, place: str) -> None:
    """Remove the directory of an sbundle that was killed; one that is at work has it locked."""
    with contextlib.suppress(OSError):
        descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.getuid() and lock(descriptor):
                clear(work, place)
        finally:
            os.close(descriptor)


def call(directory: str, *words: str) -> None:
    """Run skopeo or umoci, output on standard error, in the user's own directory; NotMade if it failed."""
    environment = dict(os.environ)
    if not os.access(environment.get("XDG_RUNTIME_DIR", ""), os.W_OK):
        # A job may have that of the session in which it was submitted, which is not on this host; without any, skopeo
        # looks for logins where only root may.
        environment["XDG_RUNTIME_DIR"] = directory
    try:
        code = subprocess.call(words, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), env=environment)
    except FileNotFoundError:
        raise NotMade("%s is not installed on this host" % words[0]) from None
    if code:
        raise NotMade("%s failed, and left nothing behind; the reason is above" % " ".join(words[:2]))


def without_home(path: str) -> None:
    """Note in a bundle's configuration that its containers do not have the user's home."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    found["annotations"] = {**(found.get("annotations") or {}), NO_HOME: "no"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)


def remove(directory: str) -> None:
    """Remove a directory of the user's, with directories in it that images close to their owner."""
    for folder, names, _ in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(directory, ignore_errors=True)
