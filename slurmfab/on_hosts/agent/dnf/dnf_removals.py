"""Packages that dnf(8) removes: those that slurmfab installed for a former key, and those that a host needs no more."""

from __future__ import annotations

from typing import ClassVar, List, Sequence

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.dnf import dnf, dnf_errors, rpm_database
from slurmfab.on_hosts.agent.packages import added_packages
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages, RemovedPackages

ALONE = "--setopt=clean_requirements_on_remove=False"  # what they needed stays


class DnfRemovedPackages(RemovedPackages):
    """Packages that are removed; their settings that somebody has changed stay, as `.rpmsave`."""

    kind: ClassVar[str] = "dnf-packages-gone"

    def actual(self, context: Context) -> State:
        """The version of each that is there."""
        return {**dict(rpm_database.rows(dnf.printed(context, self.names)))} if self.names else {}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove them and what depends on them; ResourceFailed if another daemon of Slurm would go."""
        present = [package for package in self.names if package in differing]
        kept = ",".join(package for package in self.protected if package not in present)
        code, output = dnf.dnf(context, [ALONE, "--setopt=protected_packages=" + kept, "remove", *present])
        if code != 0:
            raise ResourceFailed(dnf_errors.explain(output))


class DnfFormerPackages(FormerPackages):
    """Packages in the record of slurmfab's, removed unless something needs them; what they need stays."""

    kind: ClassVar[str] = "dnf-packages-former"

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Remove those that nothing else needs, and forget all of them. Raises ResourceFailed if dnf failed."""
        there = dict(rpm_database.rows(dnf.printed(context, self.names)))
        present = [package for package in self.names if package in differing and package in there]
        needed = [] if is_free(context, present) else [one for one in present if not is_free(context, [one])]
        leaving: List[str] = [package for package in present if package not in needed]
        if leaving:
            code, output = dnf.dnf(context, [ALONE, "remove", *leaving])
            if code != 0:
                raise ResourceFailed(dnf_errors.explain(output))
        if needed:
            context.remark = "%s stays, because other packages need it" % ", ".join(needed)
        added_packages.forget(context, self.names)


def is_free(context: Context, packages: Sequence[str]) -> bool:
    """Whether no other package needs these."""
    below = ["--root", context.root] if context.root != "/" else []
    return not packages or context.run(["rpm", *below, "--erase", "--test", *packages]).returncode == 0
