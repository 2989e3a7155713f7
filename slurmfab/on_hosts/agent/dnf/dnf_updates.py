"""Newer versions that dnf has of this host's packages: read, and installed.

The words are those of `slurmfab.on_hosts.agent.packages.updates`. Slurm's own packages stay as they are, no package is
removed, and no script of a package restarts a daemon.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, ClassVar, Dict, FrozenSet, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names as names_in
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.dnf import dnf, dnf_errors, rpm_database
from slurmfab.on_hosts.agent.dnf.dnf_offer import ask
from slurmfab.on_hosts.agent.dnf.slurm_repository import NAME
from slurmfab.on_hosts.agent.packages.updates import CONTAINER, IMAGE, SLURM, Updates
from slurmfab.on_hosts.agent.services import replaced_files

METADATA = "/var/cache/dnf/*/repodata"
_RELEASE = re.compile(r"\d[\d.]*-\d.*\.el\d.*")  # of a kernel, such as `5.14.0-427.13.1.el9_4.x86_64`
VERCMP = "%%{lua: print(rpm.vercmp('%s', '%s'))}"
_VERSION = re.compile(r"[A-Za-z0-9._+~^-]{1,200}")

PROGRAM = r"""
base.conf.disable_excludes = [asked["own"]]
try:
    base.read_all_repos()
    base.fill_sack()
    query = base.sack.query()
    installed = {one.name: version(one) for one in query.installed()}
    safe = {(one.name, version(one)) for one in query.upgrades().filter(advisory_type="security")}
    own = query.filter(name__glob=asked["slurm"])
    answer["kept"] = [[one.name, installed[one.name], version(one)] for one in own.upgrades().latest()]
    base.sack.add_excludes(own.available())
    if asked["security"]:
        others = [one for one in query.upgrades() if (one.name, version(one)) not in safe]
        base.sack.add_excludes(query.filter(pkg=others))
    base.upgrade_all()
    base.resolve(allow_erasing=False)
    new = [one for one in base.transaction or () if one.action in dnf.transaction.FORWARD_ACTIONS]
    answer["due"] = [
        [one.name, installed.get(one.name, ""), version(one), (one.name, version(one)) in safe] for one in new
    ]
except dnf.exceptions.Error as error:
    answer["trouble"] = str(error)
print(json.dumps(answer))
"""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What an update would do here; request and answer as `slurmfab.on_hosts.agent.packages.updates` has them."""
    trouble = ""
    if request.get("fetch"):
        code, output = dnf.dnf(context, [*dnf.FRESH, "makecache"])
        trouble = dnf_errors.explain(output) if code != 0 else ""
    asked = {"own": NAME, "slurm": list(request["slurm"]), "security": bool(request.get("security"))}
    told = ask(context, PROGRAM, asked)
    return {
        "packages": sorted(told["due"]),
        "kept": [[*one, SLURM] for one in sorted(told["kept"])],
        "removed": [],
        "reboot": reboot_reasons(context.root),
        "stale": replaced_files.users(context),
        "age": metadata_age(context, time.time()),
        "unfinished": ", ".join(dnf.killed(context).packages),
        "trouble": trouble,
    }


def metadata_age(context: Context, now: float) -> float:
    """Seconds since the sources' metadata were fetched; -1 if there are none."""
    times = [os.stat(path).st_mtime for path in glob.glob(context.path(METADATA))]
    return max(0.0, now - max(times)) if times else -1.0


def reboot_reasons(root: str, release: str = "") -> List[str]:
    """Why this host needs a reboot: a newer kernel is installed than the one that runs (`release`)."""
    top, running = root.rstrip("/"), release or os.uname().release
    images = [name[len(IMAGE) :] for name in names_in(top + "/boot") if name.startswith(IMAGE)]
    known = [image for image in images if _RELEASE.fullmatch(image)]
    if any(os.path.exists(top + path) for path in CONTAINER) or running not in known:
        return []
    newest = max(known, key=numbers)
    return ["kernel %s runs, %s is installed" % (running, newest)] if numbers(newest) > numbers(running) else []


def numbers(release: str) -> List[int]:
    """The numbers of a kernel's release, by which releases are compared.

    >>> numbers("5.14.0-427.13.1.el9_4.x86_64")
    [5, 14, 0, 427, 13, 1, 9, 4]
    """
    return [int(number) for number in re.findall(r"\d+", release.partition(".x86")[0].partition(".aarch")[0])]


class DnfUpdates(Updates):
    """Packages of rpm in newer versions, and no others."""

    kind: ClassVar[str] = "dnf-updates"

    @property
    def wanted_versions(self) -> Dict[str, str]:
        """The wanted version of each package."""
        return dict(text.split("=", 1) for text in self.versions)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every package in its newer version, and nothing left by a dnf that was killed."""
        return {**self.wanted_versions, "unfinished": None}

    def actual(self, context: Context) -> State:
        """The packages' versions, and what a killed dnf left."""
        there = dict(rpm_database.rows(dnf.printed(context, list(self.wanted_versions)))) if self.versions else {}
        found = {name: self.found(context, there.get(name), version) for name, version in self.wanted_versions.items()}
        return {**found, "unfinished": ", ".join(dnf.killed(context).packages) or None}

    def found(self, context: Context, there: Optional[str], wanted: str) -> Optional[str]:
        """The present version (`None`: not installed) to compare with the wanted one; a newer one is as good."""
        if there is None or not (_VERSION.fullmatch(there) and _VERSION.fullmatch(wanted)):
            return there
        compared = context.run(["rpm", "--eval", VERCMP % (there, wanted)]).stdout.strip()
        return wanted if compared in (b"0", b"1") else there

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Complete what was killed, and update. Raises ResourceFailed if dnf failed."""
        left = dnf.killed(context)
        code, output = dnf.complete(context, left, left.packages, dnf.QUIET) if left.packages else (0, "")
        if code == 0 and self.versions:
            texts: Tuple[str, ...] = tuple(text.replace("=", "-", 1) for text in self.versions)
            out = "--exclude=" + ",".join(self.slurm)
            code, output = dnf.dnf(context, [out, "install", *texts], dnf.QUIET)
            context.run(["systemctl", "daemon-reload"])
        if code != 0:
            raise ResourceFailed(dnf_errors.explain(output))
