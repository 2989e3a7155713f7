"""Configuration: one version of Slurm, and byte for byte the same files everywhere."""

from __future__ import annotations

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.slurm import need_answer
from slurmfab.checks.wanted import CONFIGURATION, FILES, deploy

HASHES = f"cd {CONFIGURATION} && sha256sum {' '.join(FILES)} 2>/dev/null || :"


def test_version_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm has the version that the controller has"""
    theirs, reference = other.ask("scontrol --version"), controller.ask("scontrol --version")
    assert theirs == reference, (
        f"it has {theirs}, but {controller.name} has {reference}. "
        "Repair: install the same version on both; slurmctld may never be older than a slurmd"
    )


def test_files_are_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """Slurm's files are the same as the controller's"""
    theirs, reference = hashes(other), hashes(controller)
    wrong = [
        f"{name} {'differs from' if name in theirs else 'is missing, other than'} {controller.name}'s"
        for name in FILES
        if name in reference and theirs.get(name) != reference[name]
    ]
    wrong += [f"{name} is there, and {controller.name} has none" for name in theirs if name not in reference]
    assert not wrong, f"{'; '.join(wrong)}. Repair: {deploy(other.name)}"


def test_slurmctld_runs_with_this_file(host: CheckedHost) -> None:
    """slurm.conf is the one that slurmctld runs with"""
    need_answer(host)
    shown = host.ask("scontrol show config")
    value = next((line.partition("=")[2] for line in shown.splitlines() if line.startswith("HASH_VAL")), "missing")
    assert value.strip() == "Match", (
        "its slurm.conf is not the one that slurmctld has read: one of them was changed since. "
        f"Repair: fab deploy, or {deploy(host.name)} if only this host's file was changed"
    )


def hashes(host: CheckedHost) -> dict[str, str]:
    """The fingerprints of Slurm's files on a host, by name; of those that exist."""
    return {name: value for value, name in (line.split() for line in host.ask(HASHES).splitlines())}
