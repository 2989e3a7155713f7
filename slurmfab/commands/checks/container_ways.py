"""How each way of running containers runs a command in a small root directory of a node's own programs."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from slurmfab.cluster.slurm.oci import bundle_config
from slurmfab.commands.checks.hosts import CheckedHost, last_words

PROGRAMS = "sh dd wc ls id cat uname"

MAKE = r"""
set -e
umask 022
place=%s
mkdir "$place" "$place/root"
cd "$place/root"
mkdir -p dev etc proc sys tmp usr
for one in bin sbin lib lib64; do
    if [ -L "/$one" ]; then mkdir -p "usr/$one"; ln -s "usr/$one" "$one"; fi
done
for program in %s; do
    path=$(readlink -f "$(command -v "$program")")
    for file in "$path" $(ldd "$path" | grep -o '/[^ )]*'); do
        mkdir -p ".${file%%/*}"
        [ -e ".$file" ] || cp -L "$file" ".$file"
    done
    [ -e "./usr/bin/$program" ] || ln -s "${path##*/}" "./usr/bin/$program"
done
echo 'root:x:0:0:root:/:/bin/sh' >etc/passwd
echo 'root:x:0:' >etc/group
touch etc/hosts etc/resolv.conf etc/slurmfab-image
printf '%%s' %s >../config.json
if command -v mksquashfs >/dev/null; then mksquashfs . ../image.sqsh -noappend -quiet -no-progress >/dev/null; fi
"""
"""Makes a directory with a root directory, with an image of it, and with what makes it a bundle."""

Call = tuple[tuple[str, ...], str]  # options of srun, and a command


def _pyxis(place: str, command: str) -> Call:
    return (f"--container-image={place}/image.sqsh", "--no-container-mount-home"), command


def _apptainer(place: str, command: str) -> Call:
    return (), f"apptainer exec --nv --no-home --pwd=/ {place}/root sh -c {shlex.quote(command)}"


def _oci(place: str, command: str) -> Call:
    return (f"--container={place}",), command


def _podman(place: str, command: str) -> Call:
    """It needs a copy that belongs to the user; what containers leave in it belongs to subordinate IDs.

    Not in /tmp: one of the job's own (`private_tmp`) lies in a directory that subordinate IDs may not enter.
    """
    run = f'sdocker run --workdir=/ --rootfs "$root" sh -c {shlex.quote(command)}'
    made = f'root=$(mktemp -d -p /var/tmp) && cp -R {place}/root/. "$root" && {run}'
    return (), f'{made}; code=$?; podman unshare rm -rf "$root"; exit $code'


CALLS: Mapping[str, Callable[[str, str], Call]] = {
    "podman": _podman,
    "oci": _oci,
    "enroot": _pyxis,
    "apptainer": _apptainer,
}
"""By way, the call that runs a command of the shell in the root directory at a place."""


def make_script(place: str) -> str:
    """The shell script that makes a root in `place`, a new directory, and an image of it where mksquashfs exists."""
    return MAKE % (shlex.quote(place), PROGRAMS, shlex.quote(bundle_config("root")))


@contextmanager
def small_root(node: CheckedHost) -> Iterator[str]:
    """A place on a node with the root directory, removed afterwards. Raises AssertionError if it could not be made."""
    place = f"/run/slurmfab-image-{secrets.token_hex(6)}"
    try:
        done = node.run(make_script(place))
        assert done.rc == 0, f"a root directory for containers cannot be made in /run: {last_words(done)}"
        yield place
    finally:
        node.run(f"rm -rf {place}")
