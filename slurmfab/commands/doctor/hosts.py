"""The way to each host: can we log in, do we deploy to its system, do the clocks agree, are there package mirrors?"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError, SlurmfabError, Unreachable
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.platform import APT, named, unsupported
from slurmfab.cluster.slurm.versions import SlurmVersion, distribution_version
from slurmfab.commands.checks.shell import SshShell
from slurmfab.commands.doctor.finding import Finding, failure, ok, warning
from slurmfab.hosts.fan_out import on_each

if TYPE_CHECKING:
    from slurmfab.hosts.transport import SshTransport


SYSTEM = """\
. /etc/os-release; echo "${VERSION_CODENAME:-${PLATFORM_ID#platform:}}"; echo "$ID $ID_LIKE"
/usr/sbin/slurmctld -V 2>/dev/null || /usr/sbin/slurmd -V 2>/dev/null || scontrol -V 2>/dev/null
"""
"""Prints the release's codename, what it is or is made from, and the version of the Slurm that is installed."""

WORD = re.compile(r"[\w .+~-]{1,80}")  # what is shown of a host's answer; anything else is left out

SlurmOf = Callable[[str], SlurmPackages]  # the key `slurm` that holds for a host


@dataclass(frozen=True)
class System:
    """What a host runs."""

    codename: str  # `VERSION_CODENAME` of os-release(5), or else its `PLATFORM_ID`, such as `el9`
    kinds: tuple[str, ...]  # its `ID` and `ID_LIKE`, such as `ubuntu` and `debian`
    slurm: str = ""  # what the installed Slurm says of its version; empty for none


def parsed_system(output: bytes) -> System:
    """What `SYSTEM` has printed."""
    lines = output.decode(errors="replace").splitlines()[:3]
    codename, kinds, slurm = (line if WORD.fullmatch(line) else "" for line in (*lines, "", "", "")[:3])
    return System(codename, tuple(kinds.split()), slurm)


def judged_system(systems: Mapping[str, System], slurm_of: SlurmOf) -> Iterator[Finding]:
    """Yield which hosts slurmfab does not deploy to. `systems`: what each host runs."""
    reasons: dict[str, list[str]] = {}
    for host, system in systems.items():
        reason = refusal(system, slurm_of(host))
        if reason:
            reasons.setdefault(reason, []).append(host)
    for reason, hosts in sorted(reasons.items()):
        yield failure("hosts' systems", f"{fold(sorted(hosts))}: {reason}", is_host=True)
    if not reasons:
        releases = ", ".join(sorted({one.codename for one in systems.values()}))
        yield ok("hosts' systems", f"{fold(sorted(systems))}: {releases}")


def refusal(system: System, slurm: SlurmPackages) -> str:
    """Why slurmfab does not deploy packages of Slurm to a system; empty if it does."""
    reason = unsupported(system.kinds, system.codename, named(slurm))
    if reason:
        return reason
    try:
        if system.slurm:
            SlurmVersion.parse(system.slurm)
        elif slurm.version is None:
            distribution_version(system.codename)
    except SlurmfabError as error:
        return str(error)
    return ""


SECONDS = 60.0  # time limit of the commands on a host
CLOCK_BOUND = 5.0  # seconds that clocks may differ; slurmfab.commands.checks.test_clock has the reasons

MOST_MIRRORS = 8
LONGEST_REASON = 200

CLOCK = "date +%s.%N"
MIRRORS = f"""\
place=$(mktemp -d) || exit 0
apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | grep '^https\\?:' |
sort -u | head -n {MOST_MIRRORS} | while read -r uri release; do
  case $release in */) ;; *) release=dists/$release/ ;; esac
  if said=$(cd "$place" && timeout 15 /usr/lib/apt/apt-helper -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 \\
    -o Acquire::https::Timeout=10 download-file "$uri${{release}}InRelease" InRelease 2>&1 >/dev/null)
  then echo "yes $uri"; else echo "no $uri $(printf %s "$said" | grep '^E:' | head -n 1)"; fi
  rm -f "$place/InRelease"
done
rm -rf "$place"
"""
"""Fetches the list of lists of each package source, as apt does, with its proxies; it needs no root."""


@dataclass(frozen=True)
class Answer:
    """What a host answered."""

    offset: float  # its clock minus ours, in seconds
    blur: float  # the largest error of that
    mirrors: Mapping[str, str]  # for each package source an empty text, or why it could not be fetched from
    system: System


def ask_all(
    transport: SshTransport, hosts: Iterable[str], fetching: Collection[str]
) -> dict[str, Answer | SlurmfabError]:
    """Log in to all hosts at once and ask them; those that are `fetching` packages themselves about mirrors, too."""
    return dict(
        on_each(hosts, lambda host: ask(SshShell(host, transport.connection(host)), with_mirrors=host in fetching))
    )


def ask(shell: SshShell, *, with_mirrors: bool) -> Answer:
    """Ask one host. `shell`: runs commands there, as the user who logs in. Raises HostError if it does not answer."""
    before = time.time()
    said = shell.run(CLOCK, seconds=SECONDS)
    after = time.time()
    mirrors = parsed_mirrors(shell.run(MIRRORS, seconds=SECONDS).output) if with_mirrors else {}
    system = parsed_system(shell.run(SYSTEM, seconds=SECONDS).output)
    return Answer(parsed_clock(shell.host, said.output) - (before + after) / 2, (after - before) / 2, mirrors, system)


def parsed_clock(host: str, output: bytes) -> float:
    """The time that a host told. Raises HostError if it told none."""
    try:
        seconds = float(output.decode(errors="replace").strip())
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise HostError(host, "the login works, but `date` does not tell the time there.")
    return seconds


def parsed_mirrors(output: bytes) -> dict[str, str]:
    """Why each package source could not be fetched from; empty texts where it could."""
    found = {}
    for line in output.decode(errors="replace").splitlines()[:MOST_MIRRORS]:
        word, _, rest = line.partition(" ")
        uri, _, reason = rest.partition(" ")
        if word in ("yes", "no") and uri:
            found[uri] = "" if word == "yes" else (reason or "no answer")[:LONGEST_REASON]
    return found


def judged(
    answers: Mapping[str, Answer | SlurmfabError],
    *,
    has_bundle: bool,
    through: str = "",
    slurm_of: SlurmOf = lambda _: SlurmPackages(),
    sleepers: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield what is to be said of the hosts' answers, or why there is none.

    `through`: the host through which all get packages; empty where each fetches its own. `sleepers`: hosts that Slurm
    may have switched off.
    """
    for host, answer in sorted(answers.items()):
        if type(answer) is Unreachable and host in sleepers:
            yield warning(host, answer.reason, f"Slurm may have switched it off, which {FAB} status shows.")
        elif isinstance(answer, HostError):
            yield failure(host, answer.reason, is_host=True)
    ours = {str(one) for one in answers.values() if isinstance(one, SlurmfabError) and not isinstance(one, HostError)}
    yield from (failure("hosts", text) for text in sorted(ours))
    there = {host: answer for host, answer in answers.items() if isinstance(answer, Answer)}
    if there:
        yield ok("hosts", f"{fold(sorted(there))}: the login works")
        yield from judged_system({host: one.system for host, one in there.items()}, slurm_of)
        yield from judged_clocks(there)
        of_apt = {host: answer for host, answer in there.items() if fetches(host, slurm_of, through)}
        if of_apt:
            yield from judged_mirrors(of_apt, has_bundle=has_bundle)


def fetches(host: str, slurm_of: SlurmOf, through: str) -> bool:
    """Whether a host has apt, and fetches packages itself."""
    return named(slurm_of(host)).manager == APT and through in ("", host)


def judged_clocks(answers: Mapping[str, Answer]) -> Iterator[Finding]:
    """Yield which clocks differ from ours."""
    off = {host: one.offset for host, one in answers.items() if abs(one.offset) > CLOCK_BOUND + one.blur}
    if not off:
        yield ok("hosts' clocks", f"{fold(sorted(answers))}: as this machine's")
        return
    if len(off) == len(answers) > 1 and max(off.values()) - min(off.values()) < CLOCK_BOUND:
        middle = sum(off.values()) / len(off)
        text = f"this machine's is {abs(middle):.0f} s {'behind' if middle > 0 else 'ahead of'} those of all hosts."
        yield warning("hosts' clocks", text, "Run a time service here, for example: apt install chrony")
        return
    told = ", ".join(f"{host} {abs(by):.0f} s {'ahead' if by > 0 else 'behind'}" for host, by in sorted(off.items()))
    text = f"compared with this machine: {told}. munge refuses credentials when clocks differ by 300 s."
    yield warning("hosts' clocks", text, "Run a time service there, for example: apt install chrony")


def judged_mirrors(answers: Mapping[str, Answer], *, has_bundle: bool) -> Iterator[Finding]:
    """Yield which hosts cannot fetch from which package sources."""
    if has_bundle:
        yield ok("package mirrors", "not needed: the cluster file names a bundle")
        return
    failed: dict[tuple[str, str], list[str]] = {}
    for host, answer in answers.items():
        for uri, reason in answer.mirrors.items():
            if reason:
                failed.setdefault((uri, reason), []).append(host)
    for (uri, reason), hosts in sorted(failed.items()):
        text = f"{fold(sorted(hosts))}: cannot fetch from {uri}: {reason.rstrip('.')}."
        repair = f"See /etc/apt there, a proxy included; without any mirror: {FAB} bundle."
        yield warning("package mirrors", text, repair)
    silent = sorted(host for host, answer in answers.items() if not answer.mirrors)
    if silent:
        text = f"{fold(silent)}: no package source on the network is set up."
        yield warning("package mirrors", text, "See /etc/apt there; packages that are missing cannot be installed.")
    if not failed and not silent:
        yield ok("package mirrors", f"{fold(sorted(answers))}: all package sources answer")
