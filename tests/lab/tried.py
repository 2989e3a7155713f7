"""On which machines the two commands of the README have passed: what deployed, and what started the lab's hosts.

Each `make demo` and each `make test` that passes leaves a small file below build/tried, and one that fails removes
those of its kind. `make tried` plays both twice and puts the result into tried.json, and into followed.json which pages
`test_clean_machines.py` has typed on new machines. `python -m reference` makes tables of docs/supported.md of these.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from slurmfab.lab.ubuntu_like import LIKES

REPOSITORY = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("tried.json")
PASSED = REPOSITORY / "build" / "tried"
"""A directory for each kind, with one file for each run that has passed since one of that kind failed."""

KINDS = ("demo", "test")

FOLLOWED = RECORD.with_name("followed.json")
"""Pages, and on new machines of which releases all their commands were typed."""


@dataclass(frozen=True, order=True)
class Machine:
    """A machine that deployed and had the hosts of labs, and what passed there in a row.

    Args:
        release: codename of its distribution's release.
        architecture: Debian's name for it.
        root: type of its root file system, as stat(1) calls it; `overlayfs` in a container.
        systemd: version of its systemd-nspawn.
        python: series of the Python that ran slurmfab.
        demo: how often `make demo` has passed.
        test: how often `make test` has passed.
    """

    release: str
    architecture: str
    root: str
    systemd: str
    python: str
    demo: int = 0
    test: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells machines apart."""
        return self.release, self.architecture, self.root


def this_machine() -> Machine:
    """The machine that this runs on, with what has passed since the last failure."""
    return Machine(
        platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown"),
        _said("dpkg", "--print-architecture"),
        _said("stat", "--file-system", "--format=%T", "/"),
        _said("systemd-nspawn", "--version").split()[1],
        ".".join(platform.python_version_tuple()[:2]),
        *(len([*(PASSED / kind).glob("*")]) for kind in KINDS),
    )


def _said(*words: str) -> str:
    """What a program prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def note(kind: str, passed: bool = True) -> None:
    """Note that a command of the README has passed, or forget earlier runs of it, as it has not."""
    if passed:
        place = PASSED / kind
        place.mkdir(parents=True, exist_ok=True)
        (place / str(time.time_ns())).touch()
    else:
        shutil.rmtree(PASSED / kind, ignore_errors=True)


def note_followed(page: str, release: str) -> None:
    """Note that all commands of a page were typed on a new machine with a release, and did what it says."""
    place = PASSED / "followed" / page
    place.mkdir(parents=True, exist_ok=True)
    (place / release).touch()


def renew_followed() -> None:
    """Put the pages that were followed since the last `make tried` began into the record, in place of all others.

    Look-alikes of Ubuntu are typed on by another run than releases: what the record has of the others stays.
    """
    place = PASSED / "followed"
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    found = {
        str(page): [file.name for file in files if file.parent == page] for page in {file.parent for file in files}
    }
    typed_on = {name in LIKES for names in found.values() for name in names}
    for page, releases in json.loads(FOLLOWED.read_text()).items() if FOLLOWED.exists() else ():
        found[page] = found.get(page, []) + [name for name in releases if (name in LIKES) not in typed_on]
    kept = {page: sorted(releases) for page, releases in sorted(found.items()) if releases}
    FOLLOWED.write_text(json.dumps(kept, indent=2) + "\n")


def recorded() -> tuple[Machine, ...]:
    """The record that is in the repository."""
    return tuple(Machine(**row) for row in json.loads(RECORD.read_text())) if RECORD.exists() else ()


def renew() -> None:
    """Put this machine into the record, in place of what the record has of it."""
    here = this_machine()
    rows = sorted({**{one.key: one for one in recorded()}, here.key: here}.values())
    lines = ",\n".join(f"  {json.dumps(asdict(row))}" for row in rows)
    RECORD.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words == ["record"]:
        renew()
        renew_followed()
    elif words == ["followed"]:
        renew_followed()
    else:
        note(words[0], words[1:] != ["failed"])
