"""The switches of nodes: IPMI, wake-on-LAN with SSH, programs of the site; each is tried twice."""

from __future__ import annotations

import binascii
import socket
import time
from typing import Any, Callable, Mapping, Sequence

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

CALL_SECONDS = 25.0  # time limit of one call of ipmitool or ssh, which have shorter ones of their own

BETWEEN_TRIES = 2.0
POLL_SECONDS = 2.0

LEFT_FOR_FORCE = 0.5  # part of SuspendTimeout in which a node may shut down by itself, before its power is cut
PACKETS = 3  # magic packets for one node: nobody confirms one
WAKE_PORT = 9  # the discard port, which wake-on-LAN uses by custom

POWER_OFF = ("sudo", "-n", "/usr/bin/systemctl", "poweroff")
"""What the slurm user runs on a node; its sudo rule allows this alone."""


class Switch:
    """The switch of one node, by its kind's settings, within a deadline of `time.monotonic`."""

    def __init__(self, settings: Mapping[str, Any], node: str, deadline: float) -> None:
        self.settings = settings
        self.node = node
        self.deadline = deadline
        self.context = Context()

    def off(self) -> None:
        """Switch the node off. Raises ResourceFailed: that failed twice, or took too long."""
        raise NotImplementedError

    def on(self) -> None:
        """Switch the node on. Raises ResourceFailed: that failed twice, or took too long."""
        raise NotImplementedError

    def call(self, argv: Sequence[str], seconds: float = CALL_SECONDS) -> str:
        """What a program prints, run again once if it fails; ResourceFailed at the second failure, or without time."""
        return twice(lambda: self.context.must(argv, seconds=max(1.0, min(seconds, self.left))))

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()


def twice(call: Callable[[], str]) -> str:
    """The result of a call, which is made once more if it fails. Raises ResourceFailed if it failed twice."""
    try:
        return call()
    except ResourceFailed:
        time.sleep(BETWEEN_TRIES)
        return call()


class Ipmi(Switch):
    """A node with an IPMI controller; settings: `address` by node, `user` and `password` (path of the file)."""

    def off(self) -> None:
        """Ask the node to shut down, and cut its power if it has not done so by half of SuspendTimeout."""
        if self.is_off():
            return
        patient = time.monotonic() + LEFT_FOR_FORCE * self.left
        self.chassis("soft")
        while not self.is_off():
            if time.monotonic() > patient:
                self.chassis("off")
                return
            time.sleep(min(POLL_SECONDS, max(0.1, patient - time.monotonic())))

    def on(self) -> None:
        """Switch the node on; one that is on is started anew, because slurmctld waits for a boot."""
        self.chassis("on" if self.is_off() else "cycle")

    def is_off(self) -> bool:
        """Whether the power is off."""
        return self.chassis("status").strip().lower().endswith("off")

    def chassis(self, word: str) -> str:
        """Run `ipmitool chassis power`."""
        return self.call(
            ["ipmitool", "-I", "lanplus", "-H", self.settings["address"][self.node], "-U", self.settings["user"],
             "-f", self.settings["password"], "chassis", "power", word]
        )  # fmt: skip


class WakeOnLan(Switch):
    """A node that magic packets wake; settings: `mac` and `address` by node, and `broadcast`."""

    def off(self) -> None:
        """Shut the node down by SSH; the connection may end before the answer."""
        options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ConnectionAttempts=1")
        argv = ["ssh", *options, "--", self.settings["address"][self.node], *POWER_OFF]

        def ask() -> str:
            done = self.context.run(argv, seconds=max(1.0, min(CALL_SECONDS, self.left)))
            said = done.stderr.decode(errors="replace").strip()
            if done.returncode not in (0, 255) or (done.returncode and "closed by" not in said):
                raise ResourceFailed("ssh ended with exit code %d: %s" % (done.returncode, said[-300:] or "no message"))
            return said

        twice(ask)

    def on(self) -> None:
        """Broadcast magic packets."""
        packet = magic_packet(self.settings["mac"][self.node])
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                for _ in range(PACKETS):
                    sender.sendto(packet, (self.settings["broadcast"], WAKE_PORT))
        except OSError as error:
            raise ResourceFailed("no magic packet: %s" % error.strerror) from error


class OwnCommands(Switch):
    """A node that programs of the site switch; settings: `suspend` and `resume`, their paths."""

    def off(self) -> None:
        """Run the site's program for that."""
        self.call([self.settings["suspend"], self.node], seconds=self.left)

    def on(self) -> None:
        """Run the site's program for that."""
        self.call([self.settings["resume"], self.node], seconds=self.left)


def magic_packet(mac: str) -> bytes:
    """The packet that wakes a network card: six bytes of ones, then its address 16 times.

    >>> len(magic_packet("52:54:00:12:34:56"))
    102
    """
    return b"\xff" * 6 + binascii.unhexlify(mac.replace(":", "")) * 16


KINDS = {"ipmi": Ipmi, "wake_on_lan": WakeOnLan, "command": OwnCommands}


def switch_for(wanted: Mapping[str, Any], node: str, deadline: float) -> Switch:
    """The switch of a node by `how`, and the settings of that name, until a monotonic deadline."""
    return KINDS[wanted["how"]](wanted[wanted["how"]], node, deadline)
