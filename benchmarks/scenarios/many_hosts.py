"""Many hosts: a deployment with nothing to change on lightweight hosts, beside one login on every one of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from benchmarks import light_hosts
from benchmarks.clusters import NOTHING_CHANGED
from benchmarks.measuring import Way
from benchmarks.programs import PROGRAM, ProgramFailed, output_of, timed
from benchmarks.results import MEMORY, PROCESSORS, SECONDS, Sample, Target
from benchmarks.scenarios.scenario import SLURMFAB, SSH_CHEAP, SSH_TRUE, Scenario, Setting, floors
from slurmfab import lab
from slurmfab.hosts.fan_out import FAN_OUT
from slurmfab.lab import LabSpec

LAB_UP = "lab-up"
RELAYED = "slurmfab, all through ctl"
RUN, CLUSH, PDSH = "fab run true", "clush true", "pdsh true"
MOST_MEMORY = 300
MOST_PROCESSORS = 12
"""Milliseconds of the deployer's processors for each host."""

PREPARING_SECONDS = 1800
"""The first deployment, which makes the hosts what the cluster file says, is not measured, but bounded."""


class Many:
    """Lightweight hosts for one scenario.

    Args:
        count: how many.
        places: in how many network namespaces.
    """

    def __init__(self, count: int, places: int) -> None:
        self.count, self.places = count, places
        self.stack = ExitStack()

    def ways(self, setting: Setting) -> Iterable[Way]:
        """One login on every host, as many at a time as slurmfab takes, and a deployment with nothing to change."""
        labs = setting.labs
        spec = LabSpec(name=f"{labs.prefix}m", suite=labs.suite, nodes=self.places - 1)
        hosts = self.stack.enter_context(light_hosts.running(spec, self.count, setting.directory, setting.say))
        deploy = (*PROGRAM, "deploy", "--cluster", str(hosts.file))
        setting.say(f"deploying to {self.count} lightweight hosts")
        timed(deploy, patience=PREPARING_SECONDS)
        said = output_of(deploy)
        if NOTHING_CHANGED not in said:
            changed = " | ".join(line for line in said.splitlines() if " changed (" in line)
            raise ProgramFailed(f"The second deployment should have nothing to do, and said: {changed or said[-300:]}")
        yield from floors(hosts.access, FAN_OUT)
        yield Way(SLURMFAB, lambda: timed(deploy))
        relayed = (*PROGRAM, "deploy", "--cluster", str(light_hosts.with_relay(hosts.file)))
        yield Way(RELAYED, lambda: timed(relayed))
        run = (*PROGRAM, "run", "true", "--cluster", str(hosts.file))
        yield Way(RUN, lambda: timed(run))
        names, config = ",".join(hosts.access.names), f"-F {hosts.access.config}"
        clush = ("clush", "-w", names, "-f", str(FAN_OUT), "-q", "-b", "-o", config, "true")
        pdsh = ("env", f"PDSH_SSH_ARGS_APPEND={config}", "pdsh", "-R", "ssh", "-f", str(FAN_OUT), "-w", names, "true")
        for name, words in ((CLUSH, clush), (PDSH, pdsh)):
            if shutil.which(name.split()[0]):
                yield Way(name, partial(timed, words), is_peer=True)

    def end(self, _: Setting) -> None:
        """Take the hosts down."""
        self.stack.close()


def scenario(count: int, places: int, title: str, rounds: int) -> Scenario:
    """The scenario of so many hosts."""
    many = Many(count, places)
    return Scenario(
        f"no-change-{count}",
        title,
        many.ways,
        (
            Target(SLURMFAB, SSH_TRUE, 1.0),
            Target(SLURMFAB, SSH_CHEAP),
            Target(SLURMFAB, at_most=MOST_MEMORY, unit=MEMORY),
            Target(SLURMFAB, at_most=MOST_PROCESSORS, unit=PROCESSORS, hosts=count),
            Target(RELAYED, SLURMFAB),
            Target(RELAYED, unit=PROCESSORS, hosts=count),
            Target(RUN, CLUSH, 1.5),
            Target(RUN, PDSH),
            Target(RUN, unit=MEMORY),
        ),
        tidy=many.end,
        rounds=rounds,
        # They have been deployed to twice by then.
        warm_ups=0,
        minutes=15,
        notes=(
            f"Each host is an sshd with its own root file system, {FAN_OUT} logins at a time for both. The agent, "
            "munge, the packages and all files are real. systemd and Slurm are not started; stand-ins for systemctl "
            "and sinfo answer that all units run and all nodes are idle. “All through ctl”: `ssh: {relays: ctl}`; the "
            "deployer has one connection, to ctl, in place of one to each host.",
        ),
    )


def lab_up(setting: Setting) -> Iterable[Way]:
    """A lab of 16 hosts from a base that is there."""
    name = f"{setting.labs.prefix}u"

    def up() -> Sample:
        begun = time.monotonic()
        lab.up(LabSpec(name=name, suite=setting.labs.suite, nodes=15), setting.directory)
        return Sample(round(time.monotonic() - begun, 3))

    yield Way(LAB_UP, up, lambda: lab.down(name))


LAB_16 = Scenario(
    "lab-up",
    "lab-up of 16 hosts, with a base that is there",
    lab_up,
    (Target(LAB_UP, at_most=10, unit=SECONDS),),
    rounds=3,
    tidy=lambda setting: setting.labs.remove("u"),
)
LIGHT_64 = scenario(64, 64, "no-change run on 64 lightweight hosts (sshd only)", 5)
LIGHT_512 = scenario(512, 8, "no-change run on 512 sshd endpoints", 3)
