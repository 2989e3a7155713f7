"""Packages installed by dnf(8). Their daemons do not start then: presets of Enterprise Linux keep them from that."""

from __future__ import annotations

from typing import ClassVar, Dict, Iterable, List, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, ResourceFailed, State
from slurmfab.on_hosts.agent.dnf import dnf, dnf_errors, example_files, rpm_database, slurm_repository
from slurmfab.on_hosts.agent.packages import added_packages, bundle_place
from slurmfab.on_hosts.agent.packages.packages import (
    INSTALLED,
    MISSING_FILES,
    InstalledPackages,
    missing_files_text,
    restart_daemons,
)


class DnfPackages(InstalledPackages):
    """Installed packages of Enterprise Linux, of any version where none is wanted."""

    kind: ClassVar[str] = "dnf-packages"
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished", "bundle", "examples", MISSING_FILES)

    def actual(self, context: Context) -> State:
        """The same; ResourceFailed where a source has other packages under Slurm's names."""
        why = slurm_repository.clashing(context, self.slurm) if self.slurm else ""
        if why:
            raise ResourceFailed(why)
        return super().actual(context)

    def states(self, context: Context) -> Dict[str, str]:
        """`installed` for each that rpm has."""
        return dict.fromkeys(self.versions_of(context, self.names), INSTALLED)

    def versions_of(self, context: Context, names: Iterable[str]) -> Dict[str, str]:
        """The versions of packages that rpm has."""
        asked = tuple(names)
        return dict(rpm_database.rows(dnf.printed(context, asked))) if asked else {}

    def left(self, context: Context, *, is_whole: bool) -> Dict[str, Optional[str]]:
        """The packages that a killed dnf has left without their scripts, and files that somebody has removed."""
        missing = dnf.missing_files(context, self.whole_ones) if is_whole else ()
        return {
            "unfinished": ", ".join(dnf.killed(context).packages) or None,
            # Packages that were just copied here for this installation; converging removes them.
            "bundle": None if self.files or self.bundle else bundle_place.leftover(context),
            "examples": ", ".join(example_files.examples(context, self.whole_ones)) or None,
            MISSING_FILES: missing_files_text(missing),
        }

    @property
    def whole_ones(self) -> Tuple[str, ...]:
        """The packages whose files have to be there: Slurm's and MUNGE's."""
        return tuple(name for name in self.names if name in self.slurm or name == "munge")

    def texts(self, context: Context, some: Sequence[str]) -> List[str]:
        """Packages for dnf: paths of files that were sent here, `NAME`, or `NAME-VERSION`.

        Slurm's own get the version that is there, or the wanted one.
        """
        versions = dict(text.split("=") for text in self.versions)
        there = {*self.versions_of(context, self.slurm).values()} if self.slurm else set()
        for_slurm = min(there) if there else self.slurm_version
        versions = {**dict.fromkeys(self.slurm if for_slurm else (), for_slurm), **versions}
        paths = bundle_place.as_files(context, self.files, list(some))
        return [
            path if path != name or name not in versions else "%s-%s" % (name, versions[name])
            for name, path in zip(some, paths)  # noqa: B905 - as Python 3.9 has it
        ]

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Complete what was killed, and install; ResourceFailed of dnf, LeftAsItWas for inessential packages."""
        left = dnf.killed(context)
        if left.packages:
            texts = bundle_place.as_files(context, self.files, list(left.packages))
            code, output = dnf.complete(context, left, texts, source=dnf.of_bundle(context, self.bundle))
            if code != 0:
                self.tell_unfinished(left.packages, dnf_errors.explain(output))
        missing = tuple(name for name in self.names if name in differing)
        if missing:
            self.install(context, missing)
        else:
            self.bring_back(context)
        example_files.remove(context, self.whole_ones)
        bundle_place.remove(context)

    def install(self, context: Context, missing: Tuple[str, ...]) -> None:
        """Install packages; ResourceFailed of dnf."""
        # Noted before, so that an interrupted run forgets none.
        there = self.versions_of(context, missing)
        added_packages.note(context, (name for name in missing if name not in there))
        code, output = dnf.install(context, self.texts(context, missing), dnf.of_bundle(context, self.bundle))
        if code != 0:
            raise ResourceFailed(dnf_errors.explain(output))

    def bring_back(self, context: Context) -> None:
        """Install packages with missing files anew, in their versions; ResourceFailed if dnf has none."""
        found = dnf.missing_files(context, self.whole_ones)
        if not found:
            return
        lacking = sorted({package for package, _ in found})
        code, output = dnf.dnf(context, [*dnf.of_bundle(context, self.bundle), "reinstall", *lacking])
        if code != 0 or dnf.missing_files(context, lacking):
            advice = "%s missing. Install these anew: dnf reinstall %s; %s"
            raise ResourceFailed(advice % (missing_files_text(found), " ".join(lacking), dnf_errors.explain(output)))
        restart_daemons(context, lacking)

    def tell_unfinished(self, packages: Tuple[str, ...], why: str) -> None:
        """Raise ResourceFailed, or LeftAsItWas where no job needs the packages."""
        text = "dnf was killed, and cannot finish %s: %s" % (", ".join(packages), why)
        raise ResourceFailed(text) if {*self.names} & {*packages} else LeftAsItWas(text)
