"""The plan: which resources each host should have, phase by phase; made without contact to any host."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.core.plan.phases import (
    accounts,
    backups,
    configless,
    containers,
    daemons,
    database,
    directory,
    exports,
    files,
    firewall,
    former,
    gpu_checks,
    hosts_file,
    idle_gpus,
    jupyter,
    logins,
    mail,
    mig,
    modules,
    monitoring,
    mounts,
    munge,
    people,
    power,
    quotas,
    recovery,
    registry,
    rest,
    restarts,
    rpcbind,
    scripts,
    slurm_conf,
    ssh,
    user_ssh,
    user_tools,
    users,
)
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource

ALL, CONTROLLERS, DATABASE, SERVERS = "all", "controllers", "database", "servers"
"""What a phase may need: the earlier phases of all hosts, of the controllers, of slurmdbd's, or of `exports`' hosts."""

OWN: tuple[str, ...] = ()  # the needs of a phase that depends on the earlier phases of its own host alone


@dataclass(frozen=True)
class Phase:
    """One part of a deployment."""

    name: str
    # a pure function of plan input and host name; returns the host's resources, empty for none
    resources: Callable[[PlanInput, str], tuple[Resource, ...]]
    # whether it changes facts that other phases are planned from, such as installed versions and new keys; the facts
    # of the hosts are then read again
    prepares: bool = False
    controller_first: bool = False  # whether the other hosts wait until the primary controller has finished it
    # the hosts that have to be through with all earlier phases before any host begins this one
    needs: tuple[str, ...] = (ALL,)
    installs: bool = False  # whether it installs packages, which are sent to the hosts before
    # whether it changes who may log in, which another login proves, or else the host takes it back
    guards_logins: bool = False
    # whether a host that leaves the cluster gets it too, planned for a cluster file without optional keys: then each
    # of its resources is the removal of something
    taken_back: bool = False
    about: str = ""  # what it brings about, in a line
    # the earlier phases without which its result would not work: what it names, starts or reads (`ALL`: all of them)
    rests_on: tuple[str, ...] = ()
    # the later phases without which a change of it would not count, or would leave hosts worse off than before
    followed_by: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Its name, as it is typed."""
        return as_word(self.name)


RESTART = (
    "local files", "slurmctld", "slurmd", "slurmctld start", "new nodes", "new slurmd", "nodes", "carried files",
    "lost jobs",
)  # fmt: skip
"""What follows new files of Slurm: these phases are planned for the wanted files, never for others that stay."""

# fmt: off
PHASES = (
    Phase("users", users.resources, prepares=True, needs=OWN,
        about="the users slurm and munge, with the same UIDs and GIDs on all hosts"),
    Phase("people", people.resources, prepares=True, needs=OWN,
        about="the users of the cluster file, with the same UIDs and GIDs, and the removal of former ones",
        followed_by=("homes on servers", "homes", "sudo", "user ssh", "accounts", "former people", "container users")),
    Phase("packages", files.with_packages, prepares=True, needs=OWN, installs=True,
        about="room on the disks, package sources, and the packages that the host needs", rests_on=("users",)),
    Phase("directory", directory.resources, prepares=True, needs=OWN, guards_logins=True, taken_back=True,
        about="users and groups from a directory: SSSD's settings, PAM and NSS", rests_on=("packages",),
        followed_by=("directory service",)),
    Phase("directory service", directory.service, prepares=True, needs=OWN, taken_back=True,
        about="SSSD, running", rests_on=("directory",)),
    Phase("ssh keys", ssh.keys, prepares=True, needs=OWN,
        about="the slurm user's SSH key pair, made on each host", rests_on=("users", "packages"), followed_by=("ssh",)),
    Phase("munge key", munge.key, prepares=True, needs=OWN,
        about="the munge key of the primary controller, and its munged's directories", rests_on=("users", "packages"),
        followed_by=("munge",)),
    Phase("drain for mig", mig.drained, prepares=True, needs=OWN,
        about="nodes drained whose GPUs are divided anew", followed_by=("mig",)),
    Phase("mig", mig.resources, prepares=True, needs=(CONTROLLERS,), taken_back=True,
        about="GPUs divided into MIG instances", rests_on=("packages", "drain for mig"), followed_by=("slurm.conf",)),
    Phase("token key", rest.key, prepares=True, needs=OWN,
        about="the key of tokens (JWT) on the primary controller", rests_on=("users", "packages"),
        followed_by=("token keys",)),
    Phase("registry certificate", registry.certificate, prepares=True, needs=OWN,
        about="the certificate of the image registry", rests_on=("packages",), followed_by=("registry",)),
    Phase("firewall", firewall.resources, needs=OWN, guards_logins=True, taken_back=True,
        about="the rules for who reaches the cluster's ports", rests_on=("packages",), followed_by=("connections",)),
    Phase("firewall zone", firewall.zone, needs=OWN, taken_back=True,
        about="the same as a zone of firewalld", rests_on=("packages",), followed_by=("connections",)),
    Phase("hosts file", hosts_file.resources, needs=OWN,
        about="names and addresses of all hosts in /etc/hosts"),
    Phase("files", files.resources, needs=OWN, taken_back=True,
        about="the site's own files, and restarts of the units that read them", rests_on=("packages",)),
    Phase("connections", firewall.connections,
        about="that hosts reach each other's ports (nothing is changed)", rests_on=("firewall", "firewall zone")),
    Phase("rpcbind", rpcbind.resources, needs=OWN, taken_back=True,
        about="no rpcbind where only NFS version 4 is used", rests_on=("packages",)),
    Phase("ports", firewall.freed, needs=OWN,
        # Before the first daemon that may wait for a port, as a daemon of a later phase may have it.
        about="no daemon on a port that another one of its host gets; a later phase starts it again",
        rests_on=("packages",), followed_by=("registry", "database", "slurm.conf", "notebooks", "monitoring")),
    Phase("exports", exports.resources, needs=OWN,
        about="the directories that hosts serve by NFS", rests_on=("packages", "hosts file", "ports")),
    Phase("mounts", mounts.resources, needs=(SERVERS,), taken_back=True,
        about="the file systems that hosts mount, and the end of former mounts",
        rests_on=("packages", "hosts file", "exports"), followed_by=("homes on servers", "homes", "former exports")),
    Phase("homes on servers", people.served_homes, needs=OWN,
        about="homes on the hosts that serve them", rests_on=("people", "exports"), followed_by=("homes",)),
    Phase("homes", people.homes, needs=(SERVERS,),
        about="homes on what other hosts mount", rests_on=("people", "mounts", "homes on servers")),
    Phase("registry", registry.resources, needs=OWN, taken_back=True,
        about="the image registry, and what all hosts know of it",
        rests_on=("packages", "hosts file", "registry certificate", "ports")),
    Phase("quotas", quotas.resources, needs=OWN,
        about="limits to what users may store", rests_on=("packages", "people")),
    Phase("sudo", people.sudo, needs=OWN, taken_back=True,
        about="sudo rules of users", rests_on=("packages", "people")),
    Phase("login hosts", logins.login_hosts, needs=OWN, taken_back=True,
        about="limits of users and the message of the day on login hosts", rests_on=("packages",)),
    Phase("ssh", ssh.trust, needs=OWN,
        about="passwordless SSH of the slurm user, and known host keys", rests_on=("users", "ssh keys")),
    Phase("user ssh", user_ssh.resources, needs=OWN, taken_back=True,
        about="users' SSH between hosts without keys of their own", rests_on=("packages",)),
    Phase("daemon units", restarts.resources, needs=OWN,
        about="what systemd does when a daemon crashes", rests_on=("packages",), followed_by=("slurmd",)),
    Phase("recovery", recovery.resources, needs=OWN, taken_back=True,
        about="what makes the cluster whole after a loss of power", rests_on=("packages",)),
    Phase("munge", munge.resources, needs=OWN,
        about="munged, running with the primary controller's key", rests_on=("users", "packages", "munge key")),
    Phase("token keys", rest.keys, needs=OWN,
        about="the key of tokens on the other hosts that prove them", rests_on=("token key",),
        followed_by=("database", "slurmctld")),
    Phase("database", database.resources, needs=OWN,
        about="slurmdbd and its database", rests_on=("users", "packages", "hosts file", "ports", "munge")),
    Phase("accounts", accounts.resources, needs=(DATABASE,),
        about="accounts, users and QOS in slurmdbd", rests_on=("database",), followed_by=("limits",)),
    Phase("former people", people.forgotten, needs=(CONTROLLERS,),
        about="former users out of slurmdbd", rests_on=("people", "accounts")),
    Phase("scripts", scripts.resources, needs=OWN,
        about="prolog, epilog, health check and variables of jobs", rests_on=("packages",)),
    Phase("power programs", power.resources, needs=OWN,
        about="programs that switch nodes off and on", rests_on=("packages",)),
    Phase("mail", mail.resources, needs=OWN,
        about="the program that sends mail about jobs", rests_on=("packages",)),
    Phase("modules", modules.resources, needs=OWN, taken_back=True,
        about="the command module", rests_on=("packages",)),
    Phase("container users", containers.of_users, needs=OWN, taken_back=True,
        about="subordinate IDs and image directories of users", rests_on=("people",)),
    Phase("containers", containers.resources, needs=OWN, taken_back=True,
        # It removes what the present slurm.conf and oci.conf may name until they are replaced.
        about="what containers in jobs need, and the removal of other ways", rests_on=("packages",),
        followed_by=("slurm.conf",)),
    Phase("user tools", user_tools.resources, needs=OWN, taken_back=True,
        about="commands for users, such as sstatus"),
    Phase("directories", slurm_conf.directories, needs=OWN,
        about="the directories of Slurm's daemons, and the rotation of their logs",
        rests_on=("users", "packages", "mounts")),
    Phase("slurmctld stop", daemons.stop,
        about="slurmctld stopped, where new files need that", followed_by=("slurm.conf",)),
    Phase("slurm.conf", slurm_conf.resources, controller_first=True, needs=(CONTROLLERS, DATABASE),
        about="slurm.conf, gres.conf, cgroup.conf and Slurm's other files, equal on all hosts",
        rests_on=("users", "packages", "munge", "mig", "hosts file", "connections", "ports", "mounts", "daemon units",
        "token keys", "database", "accounts", "scripts", "power programs", "mail", "containers", "directories",
        "slurmctld stop"), followed_by=RESTART),
    Phase("local files", configless.given_up, needs=OWN,
        about="no local files where slurmd fetches them, and the reverse", rests_on=("slurm.conf",)),
    Phase("slurmctld", daemons.slurmctld, controller_first=True,
        about="slurmctld, running with the present files", rests_on=("slurm.conf",)),
    Phase("slurmd", daemons.slurmd, needs=(CONTROLLERS,),
        about="slurmd, running with the present files", rests_on=("slurm.conf",)),
    Phase("slurmctld start", daemons.start, controller_first=True,
        about="slurmctld started again, where it was stopped", rests_on=("slurm.conf",)),
    Phase("limits", accounts.rest,
        about="limits that slurmctld has to report first, and removals from slurmdbd (--prune)",
        rests_on=("accounts",)),
    Phase("new nodes", daemons.gate,
        about="new nodes drained until a test job has run", rests_on=("slurm.conf",)),
    Phase("new slurmd", daemons.new_slurmd,
        about="slurmd on new nodes", rests_on=("slurm.conf",)),
    Phase("nodes", daemons.nodes,
        about="that slurmctld has all nodes ready for jobs", rests_on=("slurm.conf",)),
    Phase("node logins", logins.node_logins, guards_logins=True, taken_back=True,
        about="logins on compute nodes for users with a job there alone", rests_on=("packages", "slurm.conf")),
    Phase("former scripts", scripts.gone, taken_back=True,
        about="scripts gone that slurm.conf no longer names", rests_on=("slurm.conf",)),
    Phase("former exports", exports.gone,
        about="directories no longer served that nobody mounts", rests_on=("mounts",)),
    Phase("rest", rest.resources, taken_back=True,
        about="slurmrestd, and keys of tokens gone that no daemon reads", rests_on=("packages", "slurm.conf")),
    Phase("notebooks", jupyter.resources, taken_back=True,
        about="JupyterHub, and what starts notebooks in jobs", rests_on=("packages", "ports")),
    Phase("monitoring", monitoring.resources, taken_back=True,
        about="exporters, Slurm's figures and Prometheus", rests_on=("packages", "ports")),
    Phase("former software", former.resources, taken_back=True,
        about="packages and files gone that nothing needs any more", rests_on=(ALL,)),
    Phase("backups", backups.resources,
        about="scheduled backups", rests_on=("packages",)),
    Phase("gpu checks", gpu_checks.resources,
        about="scheduled checks of GPUs and network", rests_on=("packages",)),
    Phase("idle gpus", idle_gpus.resources, taken_back=True,
        about="the watch for jobs whose GPUs are idle", rests_on=("packages", "scripts")),
    Phase("power", power.timer, taken_back=True,
        about="the timer that switches idle nodes off, and the removal of former programs",
        rests_on=("power programs", "slurm.conf")),
    Phase("carried files", configless.carried,
        about="files that slurmctld sends to configless nodes", rests_on=("slurm.conf",)),
    Phase("lost jobs", daemons.lost_jobs,
        about="no job called running that has no process", rests_on=("slurm.conf",)),
)
# fmt: on
"""All phases of a deployment, in the order in which each host has them.

A host waits only where a phase needs others, so one that is silent holds up none whose work is its own. slurmctld stops
only when all else is done everywhere, so that it is away for as short as possible. What comes after slurmd waits for
all hosts: if slurmd starts on none with the new files, the earlier ones are put back, and with them what they name.
"""

BY_NAME = {phase.name: phase for phase in PHASES}

FILES_TOGETHER = "in slurm-conf, which writes Slurm's files together: they have to fit"
PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "passwordless-ssh": ("ssh-keys and ssh", ("ssh keys", "ssh")),
    "gres-conf": (FILES_TOGETHER, ("slurm.conf",)),
    "cgroup-conf": (FILES_TOGETHER, ("slurm.conf",)),
    "daemons": ("munge, database, slurmctld and slurmd", ("munge", "database", "slurmctld", "slurmd")),
}
"""Further words for phases: what each means, and which phases these are."""

PRUNING = ("people", "accounts", "limits")  # the phases that `--prune` is about


@dataclass(frozen=True)
class Choice:
    """The phases that `--only` names, and those that they cannot be without."""

    words: tuple[str, ...]  # as they are typed, each once
    named: frozenset[str]  # the names of the phases that the words mean
    phases: frozenset[str]  # the names of all of them

    def widened(self, differing: Iterable[str]) -> Choice:
        """The same with what has to follow those of its phases that differ on a host."""
        return replace(self, phases=self.phases | with_needs(self.named, differing))


def as_word(name: str) -> str:
    """A name as it is typed.

    >>> as_word("munge key"), as_word("slurm.conf")
    ('munge-key', 'slurm-conf')
    """
    return name.strip().lower().translate(str.maketrans(" ._", "---"))


WORDS: Mapping[str, tuple[str, ...]] = {
    **{phase.word: (phase.name,) for phase in PHASES},
    **{word: names for word, (_, names) in PARTS.items()},
}
"""The phases that each word of `--only` means, by name."""


def choose(words: Iterable[str]) -> Choice:
    """The phases that words mean, with what they rest on and what makes them count; InputError for unknown words."""
    typed = tuple(dict.fromkeys(filter(None, map(as_word, words))))
    complaints = []
    for word in typed:
        if word not in WORDS:
            near = difflib.get_close_matches(word, WORDS, n=1)
            complaints.append(f"--only {word}: there is no such phase.{f' Did you mean {near[0]}?' if near else ''}")
    if complaints or not typed:
        raise InputError("\n".join((*(complaints or ["--only names no phase."]), f"All phases: {FAB} phases.")))
    named = frozenset(name for word in typed for name in WORDS[word])
    return Choice(typed, named, with_needs(named))


def with_needs(named: Iterable[str], differing: Iterable[str] = ()) -> frozenset[str]:
    """Phases, those that make them count, and those that all of these rest on, by name.

    What these last ones need in turn to count comes with them where they differ on a host, and so are changed.
    """

    def followed(phase: Phase) -> Iterable[str]:
        return phase.followed_by

    def resting(phase: Phase) -> Iterable[str]:
        earlier = PHASES[: PHASES.index(phase)] if ALL in phase.rests_on else ()
        return (one.name for one in earlier) if earlier else phase.rests_on

    changed, core = frozenset(differing), reached(named, followed)
    while not (more := reached((found := reached(core, resting)) & changed, followed)) <= core:
        core |= more
    return found


def reached(names: Iterable[str], onward: Callable[[Phase], Iterable[str]]) -> frozenset[str]:
    """Phases by name, with all that the way from one to others leads to."""
    found, left = set[str](), set(names)
    while left:
        name = left.pop()
        found.add(name)
        left |= {*onward(BY_NAME[name])} - found
    return frozenset(found)


@dataclass(frozen=True)
class PlannedPhase:
    """A phase with its planned resources."""

    phase: Phase
    # resources by host, in the cluster's order; a host without resources in this phase is missing
    resources: Mapping[str, tuple[Resource, ...]]


@dataclass(frozen=True)
class Plan:
    """The phases of a deployment with their resources, in the order in which they run."""

    phases: tuple[PlannedPhase, ...]

    def of_host(self, host: str) -> tuple[tuple[Phase, Resource], ...]:
        """The resources of one host in order, each with its phase."""
        return tuple(
            (planned.phase, resource) for planned in self.phases for resource in planned.resources.get(host, ())
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts with resources in any phase, each once."""
        return tuple(dict.fromkeys(host for planned in self.phases for host in planned.resources))


def make_plan(plan_input: PlanInput, hosts: Iterable[str], phases: Iterable[Phase] = PHASES) -> Plan:
    """Make the plan of these phases for these hosts.

    Args:
        hosts: the hosts to plan for, in the order of the plan; each must be in `plan_input.facts`.
        phases: the phases in the order in which they run; by default all phases of a deployment.
    """
    names = tuple(hosts)
    return Plan(
        tuple(
            PlannedPhase(phase, {host: wanted for host in names if (wanted := phase.resources(plan_input, host))})
            for phase in phases
        )
    )
