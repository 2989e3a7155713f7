"""Sentences about hosts whose Slurm is of another series than slurmctld: what is legal, and the repair of what is not.

What a slurmd or a command that is newer than slurmctld does was seen with 26.05 and 24.11: slurmctld refuses all that
it sends (“Incompatible versions of client and server code”), but goes on to send it jobs, which neither run nor end.
Jobs that ran before go on. With the former packages again, slurmd registers, its jobs go on, and those that were sent
meanwhile are requeued.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.platform import APT, Manager
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.cluster.slurm.window import reached, reaches

Way = Callable[[Literal["newer", "too old"]], str]  # tells how a host that is newer or too old gets slurmctld's version


def notice(others: Mapping[str, str], controller: str, version: str) -> str:
    """The notice about hosts, with their versions, that have another Slurm than the controller where that is legal."""
    alike = grouped((found, host) for host, found in others.items())
    having = ", ".join(
        f"{fold(hosts)} {'has' if len(hosts) == 1 else 'have'} Slurm {found}" for found, hosts in alike.items()
    )
    return f"{having}, {controller} has {version}: {legal((*others.values(), version))}"


def legal(versions: Iterable[str]) -> str:
    """The end of a notice about hosts with another version of Slurm than slurmctld. `versions`: all that there are."""
    newest = max(map(SlurmVersion.parse, versions))
    return (
        "that works: all of them are within Slurm's window, and Slurm's files are made for the oldest. To bring all "
        f"hosts to one version: {FAB} upgrade --to {newest}."
    )


def wrong(host: str, roles: Collection[str], versions: tuple[str, str], controller: str, way: Way) -> str:
    """Why a host's Slurm does not work with slurmctld, with `way`, asked when needed, as repair; empty if it does."""
    found, expected = versions
    has, ours = SlurmVersion.parse(found), SlurmVersion.parse(expected)
    if "controller" in roles:
        return other_controller(*versions, controller) if has != ours else ""
    if "database" in roles and has < ours:
        return older_database(*versions, controller, host)
    if "database" in roles and has > ours:
        return "" if reaches(has, ours) else too_new_database(*versions, controller, host)
    if has > ours:
        return newer(*versions, controller, way("newer"))
    return "" if reaches(ours, has) else outside(f"its Slurm is {found}", expected, controller, way("too old"))


def newer(found: str, expected: str, controller: str, repair: str) -> str:
    """Why a host whose Slurm is newer than slurmctld's cannot be used, with both ways out."""
    series = SlurmVersion.parse(found)
    return (
        f"its Slurm is {found}, and slurmctld on {controller} is {expected}, which refuses what a newer slurmd or "
        "command sends: jobs that slurmctld sends there neither run nor end. Jobs that run there go on; do not reboot "
        f"it. Repair: {repair}. Or, for {series} on all hosts: {FAB} upgrade --to {series}."
    )


def outside(having: str, expected: str, controller: str, repair: str) -> str:
    """Why a host whose Slurm is not within slurmctld's window cannot be used, with the way out.

    Args:
        having: what the host has or would install, such as `its Slurm is 22.05.8`.
        repair: how the host gets a fitting version, as the end of a sentence without its full stop.
    """
    talks = ", ".join(map(str, reached(SlurmVersion.parse(expected))))
    return (
        f"{having}, and slurmctld on {controller} is {expected}, which talks to {talks or 'no older ones'} and its own "
        f"series alone. Repair: {repair}."
    )


def other_controller(found: str, expected: str, controller: str) -> str:
    """Why a second controller of another series than the primary cannot be used, with the way out."""
    newest = max(SlurmVersion.parse(found), SlurmVersion.parse(expected))
    reads = "could not read the state that the primary writes" if found < expected else "would convert the state"
    return (
        f"its slurmctld is {found}, and that on {controller} is {expected}: all controllers have one version, because "
        f"it {reads} when it takes over. Repair: {FAB} upgrade --to {newest}, which brings all controllers to it."
    )


def older_database(found: str, expected: str, controller: str, database: str) -> str:
    """Why slurmdbd that is older than slurmctld cannot be used, with the way out."""
    series = SlurmVersion.parse(expected)
    return (
        f"slurmdbd on {database} is {found}, and slurmctld on {controller} is {expected}: slurmdbd refuses all that a "
        "newer slurmctld sends, which keeps its records for a while (MaxDBDMsgs). Jobs go on. Repair: "
        f"{FAB} upgrade --to {series}, which brings slurmdbd to that version first."
    )


def too_new_database(found: str, expected: str, controller: str, database: str) -> str:
    """Why slurmdbd whose window does not reach slurmctld cannot be used, with the way out; arguments as before."""
    series = SlurmVersion.parse(found)
    talks = ", ".join(map(str, reached(series)))
    return (
        f"slurmdbd on {database} is {found}, which talks to {talks} and its own series alone, and slurmctld on "
        f"{controller} is {expected}. Repair: {FAB} upgrade --to {series}."
    )


def back_to(packages: Iterable[str], host: str, *, libraries: bool, manager: Manager = APT) -> str:
    """How a host gets former packages (`NAME=VERSION`), as the end of a sentence; `libraries`: perhaps others too."""
    more = ", with the libraries of the same run of apt (/var/log/apt/history.log) as NAME=VERSION, too"
    more = more if libraries and manager == APT else ""
    return f"{manager.older} {' '.join(packages)} there{more}; then {FAB} deploy --hosts {host}"


def chosen(version: str) -> str:
    """How hosts get the cluster's Slurm where their distribution has another, as the end of a sentence."""
    return (
        f"name a source of Slurm {SlurmVersion.parse(version)} for them in the cluster file, as in "
        f'slurm: {{version: "{SlurmVersion.parse(version)}.*", source: …}}, or use the distribution that the other '
        "hosts have"
    )
