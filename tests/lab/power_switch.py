"""A STAND-IN for the IPMI controllers of lab hosts: an ipmitool that asks the test to switch hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab_cluster import DeployedLab

from slurmfab import lab

PLACE = "/var/tmp/lab-power"
PASSWORD = "open-sesame"
STAND_IN = f"""#!/bin/sh
# STAND-IN for ipmitool in a lab: hosts have no IPMI controllers. It asks the test that runs the lab to switch hosts.
# It knows: -I lanplus -H NODE-ipmi -U USER -f FILE chassis power status|soft|off|on|cycle
node=${{4%-ipmi}}
if [ "$(cat "$8")" != {PASSWORD} ] || [ "$6" != lab ]; then
    echo "Error: Unable to establish IPMI v2 / RMCP+ session" >&2
    exit 1
fi
case "${{11}}" in
    status) echo "Chassis Power is $(cat {PLACE}/$node 2>/dev/null || echo on)" ;;
    *) echo "${{11}} $node" >>{PLACE}/requests ;;
esac
"""
INSTALL = (
    f"mkdir -p {PLACE} && chmod 777 {PLACE} && : >{PLACE}/requests && chmod 666 {PLACE}/requests && "
    "cat >/usr/local/sbin/ipmitool && chmod 755 /usr/local/sbin/ipmitool"
)
POLL_SECONDS = 0.3
BOOT_SECONDS = 2.0
"""Seconds before a host starts: slurmctld compares its boot with the order to boot, in whole seconds, and a machine's
firmware takes longer than that."""


class PowerSwitch:
    """Carries out what the stand-in is asked for on the controller.

    Args:
        cluster: the lab.
    """

    def __init__(self, cluster: DeployedLab) -> None:
        self.cluster = cluster
        self.done: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        """Switch hosts until the end."""
        while not self.ended.wait(POLL_SECONDS):
            asked = self.cluster.on("ctl", f"cat {PLACE}/requests", check=False).splitlines()
            for line in asked[len(self.done) :]:
                word, node = line.split()
                if word != "on":
                    lab.kill_host(self.cluster.lab, node)
                    self.cluster.on("ctl", f"echo off >{PLACE}/{node}")
                if word in ("on", "cycle"):
                    self.cluster.on("ctl", f"echo on >{PLACE}/{node}")
                    time.sleep(BOOT_SECONDS)
                    lab.start_host(self.cluster.lab, node)
                self.done.append(line)


@contextmanager
def switched(cluster: DeployedLab) -> Iterator[PowerSwitch]:
    """The stand-in on the controller, and what carries out its requests."""
    done = lab.run(cluster.lab, "ctl", ["sh", "-c", INSTALL], STAND_IN)
    assert done.returncode == 0, done.stderr
    switch = PowerSwitch(cluster)
    thread = threading.Thread(target=switch.run, daemon=True)
    thread.start()
    try:
        yield switch
    finally:
        switch.ended.set()
        thread.join()
