"""STAND-INS for what switches lab hosts: an ipmitool, a network card that wakes its host, and programs of a site."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lab_cluster import DeployedLab

from slurmfab import lab
from slurmfab.base.errors import LabError

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
CARD = f"""# STAND-IN for the network cards of sleeping hosts, on a host of the same network: card.py MAC=NODE ...
import socket, sys
nodes = {{b"\\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16: node
         for mac, node in (word.split("=") for word in sys.argv[1:])}}
card = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
card.bind(("", 9))
while True:
    packet, sender = card.recvfrom(2000)
    if packet in nodes:
        with open("{PLACE}/requests", "a") as requests:
            requests.write("packet %s\\n" % nodes[packet])
"""
LISTEN = f"mkdir -p {PLACE} && cat >{PLACE}/card.py && systemd-run --quiet --unit=lab-card python3 {PLACE}/card.py"
SITES = f"""for word in off on; do
    printf '#!/bin/sh\\necho "site-%s $1" >>{PLACE}/requests\\n' $word >/usr/local/sbin/site-$word
    chmod 755 /usr/local/sbin/site-$word
done"""
"""The site's own programs, which ask the test, too."""

INSTALL = (
    f"mkdir -p {PLACE} && chmod 777 {PLACE} && : >{PLACE}/requests && chmod 666 {PLACE}/requests && "
    "dpkg-divert --quiet --local --rename --add /usr/bin/ipmitool && "
    "cat >/usr/bin/ipmitool && chmod 755 /usr/bin/ipmitool"
)
POLL_SECONDS = 0.3
BOOT_SECONDS = 2.0
"""Seconds before a host starts: slurmctld compares its boot with the order to boot, in whole seconds, and a machine's
firmware takes longer than that."""


class PowerSwitch:
    """Carries out what the stand-ins are asked for, on the controller and in the network.

    Args:
        cluster: the lab.
    """

    def __init__(self, cluster: DeployedLab) -> None:
        self.cluster = cluster
        self.done: list[str] = []
        self.read = {"ctl": 0, "n2": 0}
        self.ended = threading.Event()

    def run(self) -> None:
        """Switch hosts until the end. What a host had asked for when it lost its power is not done after that."""
        off: set[str] = set()
        while not self.ended.wait(POLL_SECONDS):
            for host, count in self.read.items():
                try:
                    asked = self.cluster.on(host, f"cat {PLACE}/requests 2>/dev/null", check=False).splitlines()
                except LabError:  # it is off
                    off.add(host)
                    continue
                self.read[host] = len(asked)
                for line in asked[len(asked) if host in off else count :]:
                    self.carry_out(*line.split())
                off.discard(host)

    def carry_out(self, word: str, node: str) -> None:
        """Switch one host."""
        action = word.removeprefix("site-")
        # As slurmfab's own program does with what is on: slurmctld waits for a boot.
        is_again = word == "site-on" and lab.load(self.cluster.lab.name).host(node).pid is not None
        if action in ("soft", "off", "cycle") or is_again:
            lab.kill_host(self.cluster.lab, node)
            self.tell(node, "off")
        if action in ("on", "cycle") or (action == "packet" and self.done[-1:] != [f"{word} {node}"]):
            self.tell(node, "on")
            time.sleep(BOOT_SECONDS)
            lab.start_host(self.cluster.lab, node)
        self.done.append(f"{word} {node}")

    def tell(self, node: str, state: str) -> None:
        """Have the stand-in know what a host is."""
        with suppress(LabError):  # the controller may have lost its power meanwhile
            self.cluster.on("ctl", f"echo {state} >{PLACE}/{node}")

    def listen(self, nodes: Iterable[str]) -> dict[str, str]:
        """Have n2 hear the magic packets for these hosts; their MAC addresses by host."""
        macs = {self.cluster.on(node, "ip -br link show eth0 | awk '{print $3}'"): node for node in nodes}
        words = " ".join(f"{mac}={node}" for mac, node in macs.items())
        done = lab.run(self.cluster.lab, "n2", ["sh", "-c", f"{LISTEN} {words}"], CARD)
        assert done.returncode == 0, done.stderr
        return {node: mac for mac, node in macs.items()}


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
