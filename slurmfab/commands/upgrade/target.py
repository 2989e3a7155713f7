"""Where an upgrade is to lead: the key `slurm` of the cluster file, with what `--to` and `--suite` say instead."""

from __future__ import annotations

import difflib
import re
from typing import Any

from pydantic import ValidationError

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_packages import PackageDirectory, SlurmPackages, series_of
from slurmfab.cluster.slurm.platform import SOURCE
from slurmfab.cluster.slurm.versions import NEWEST
from slurmfab.on_hosts.agent.slurm.state_versions import SERIES

_SERIES = re.compile(r"\d\d\.\d\d")


def wanted_version(given: str) -> str:
    """The cluster file's `26.05.*` for `26.05` of `--to`; InputError for unknown Slurm."""
    text = given.strip()
    version = f"{text}.*" if _SERIES.fullmatch(text) else text
    try:
        SlurmPackages.model_validate({"version": version})
    except ValidationError as error:
        known = [series for series in SERIES if series_of(series)]
        close = difflib.get_close_matches(text, known, n=1, cutoff=0.6)
        guess = f" Did you mean {close[0]}?" if close and not text.startswith(close[0]) else ""
        raise InputError(
            f"--to {given}: {reason_of(error)}.{guess} Series that slurmfab knows: {', '.join(known)}."
        ) from None
    return version


def reason_of(error: ValidationError) -> str:
    """The reason of a refused value, without pydantic's words around it."""
    return str(error.errors()[0]["msg"]).removeprefix("Value error, ").rstrip(".")


def target_of(cluster: Cluster, to: str, suite: str) -> SlurmPackages:
    """The key `slurm` as the upgrade leaves it; without a version where the suite's own is wanted.

    `to`, `suite`: of the options, or empty. Raises InputError if nothing says where to, a value is wrong, or no source
    on the hosts has the packages.
    """
    present = cluster.slurm
    refuse_source(present)
    refuse_other_sources(cluster, suite)
    wanted = with_options(present, to, suite)
    refuse_directory(cluster, wanted)
    return wanted


def refuse_directory(cluster: Cluster, wanted: SlurmPackages) -> None:
    """Refuse packages that come from no package source of hosts, by InputError."""
    if isinstance(wanted.source, PackageDirectory) or cluster.bundle:
        raise InputError(
            f"{FAB} upgrade gets packages from the hosts' package sources; it sends none from a directory or a bundle. "
            "Make a repository of them (slurm: {source: {uris: …}}). Nothing was changed."
        )


def with_options(present: SlurmPackages, to: str, suite: str) -> SlurmPackages:
    """The key `slurm` with what the options say instead; see `target_of`. Raises InputError as that does."""
    if not to and not suite:
        if present.version is None:
            raise InputError(
                f"Say where to: {FAB} upgrade --to {NEWEST} for a version, or {FAB} upgrade --suite NAME for the Slurm "
                "of another suite of the hosts' own mirrors. The cluster file names no version (slurm: {version: …})."
            )
        return present
    values: dict[str, Any] = present.model_dump(by_alias=True, exclude_defaults=True)
    values.pop("given", None)
    if present.given and not suite:
        values["source"] = present.given.model_dump(exclude_defaults=True)
    if to:
        values["version"] = wanted_version(to)
    if suite:
        values["source"] = {"suite": suite}
        # A suite has one version; which one is seen when the hosts have asked for it.
        values.setdefault("version", f"{NEWEST}.*")
    try:
        return SlurmPackages.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{f'--suite {suite}' if suite else f'--to {to}'}: {reason_of(error)}.") from None


def refuse_source(present: SlurmPackages) -> None:
    """Refuse Slurm of no package by InputError, with the order by hand and the way to packages."""
    if present.packages == SOURCE.word:
        raise InputError(
            f"Slurm is of no package here (slurm: {{packages: none}}), and {FAB} upgrade exchanges packages. By hand: "
            f"{FAB} backup; then build and start the new one in this order: slurmdbd, which converts its database; "
            "slurmctld on all controllers; slurmd, some nodes at a time. Then write the new version into the cluster "
            f"file, and {FAB} deploy. Or move to packages: stop the daemons, take away the links in {SOURCE.programs} "
            f"and {SOURCE.commands} and the units, install slurmctld and slurmd of the same version, and take away the "
            "key slurm. Nothing was changed."
        )


def refuse_other_sources(cluster: Cluster, suite: str) -> None:
    """Refuse, by InputError, a suite for hosts of several kinds, and packages of theirs that no source has."""
    others = [host for host in cluster.hosts if cluster.slurm_of(host) != cluster.slurm]
    if others and suite:
        raise InputError(
            f"--suite {suite}: {fold(others)} would not get its Slurm, since the cluster file names other packages for "
            f"these hosts. Name a version that all sources have: {FAB} upgrade --to {NEWEST}. Nothing was changed."
        )
    for host in others:
        refuse_source(cluster.slurm_of(host))
        refuse_directory(cluster, cluster.slurm_of(host))


def asked_version(target: SlurmPackages, to: str, suite: str) -> str:
    """The version that hosts are asked for: none in particular where only a suite was named."""
    return "" if suite and not to else target.version or ""
