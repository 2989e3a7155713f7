"""Thousands of endpoints in one process that speak real SSH and answer as agents: stand-ins for hosts far too many.

    python -m benchmarks.endpoints PORT DIRECTORY

Each is an address of the loopback network with one port. Key exchange (curve25519-sha256, ssh-ed25519), encryption
(aes128-ctr, hmac-sha2-256) and messages are those of RFC 4253, 4252 and 4254, so that the client has all its work; any
login is accepted, and nothing is run. `answers.json` in the directory has the facts of the controller and of a node.
At the end of its input the process prints the seconds of a processor that it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from slurmfab.hosts.payload import GREETING
from slurmfab.on_hosts.agent.kinds import build
from slurmfab.on_hosts.agent.main import MODULES

FIRST = int(IPv4Address("127.1.0.0"))
"""The address of the controller; nodes have the next ones."""

VERSION = b"SSH-2.0-StandIn"
KEX, HOST_KEY, CIPHER, MAC = b"curve25519-sha256@libssh.org", b"ssh-ed25519", b"aes128-ctr", b"hmac-sha2-256"
MAC_BYTES, BLOCK, LARGEST, WINDOW = 32, 16, 32768, 2**31 - 1
KEXINIT, NEWKEYS, KEX_INIT, KEX_REPLY = 20, 21, 30, 31
SERVICE_REQUEST, SERVICE_ACCEPT, AUTH_REQUEST, AUTH_SUCCESS = 5, 6, 50, 52
GLOBAL_REQUEST, REQUEST_FAILURE, OPEN, CONFIRMED, DATA = 80, 82, 90, 91, 94
EOF, CLOSE, REQUEST, SUCCESS = 96, 97, 98, 99
EVERYWHERE = str(IPv4Address(0))  # every address of the loopback network has a port of it


def text(data: bytes) -> bytes:
    """A string of SSH: its length, and itself."""
    return struct.pack(">I", len(data)) + data


def number(value: bytes) -> bytes:
    """A positive number of SSH (mpint), from its bytes."""
    plain = value.lstrip(b"\0")
    return text(b"\0" + plain if plain[:1] >= b"\x80" else plain)


def strings(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the strings from a place in a message on."""
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


class Answers:
    """What agents answer: facts that were made beforehand, and that every resource is as it should be.

    `directory`: with `answers.json` and the host key.
    """

    def __init__(self, directory: Path) -> None:
        made = json.loads((directory / "answers.json").read_text())
        self.controller, self.node = (json.dumps({"facts": made[role]}) for role in ("controller", "node"))
        key = load_ssh_private_key((directory / "host_key").read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        self.key = key
        self.blob = text(HOST_KEY) + text(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def to(self, request: dict[str, Any], place: int) -> bytes:
        """The lines of an answer. `place`: of the host, 0 for the controller."""
        lines = []
        if request["op"] == "facts":
            name = f"n{place}" if place else "ctl"
            facts = (self.node if place else self.controller).replace("@HOST@", name)
            lines.append(f'{facts[:-2]}, "clock": {time.time()}}}}}')
        elif request["op"] == "apply":
            outcome = {"status": "ok", "changes": [], "message": "", "seconds": 0.0}
            lines += [json.dumps({"outcome": {"id": build(one).id, **outcome}}) for one in request["resources"]]
        else:
            lines.append(json.dumps({"error": f"a stand-in does not know {request['op']}", "traceback": ""}))
        return "\n".join([*lines, '{"done": true}', ""]).encode()


class Endpoint(asyncio.Protocol):
    """One connection: SSH's transport, login and session, and the agent's protocol in it."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.buffer, self.inbox = bytearray(), bytearray()
        self.version = b""
        self.has_code = False
        self.size = 0
        self.keys: tuple[Any, ...] = ()
        self.sent = self.received = 0
        self.encrypt: Any = None
        self.decrypt: Any = None
        self.channel = 0

    def connection_made(self, transport: Any) -> None:
        """Begin, with the name lists of all algorithms."""
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.place = int(IPv4Address(transport.get_extra_info("sockname")[0])) - FIRST
        lists = (KEX, HOST_KEY, CIPHER, CIPHER, MAC, MAC, b"none", b"none", b"", b"")
        self.offer = bytes([KEXINIT]) + os.urandom(16) + b"".join(map(text, lists)) + bytes(5)
        transport.write(VERSION + b"\r\n")
        self.send(self.offer)

    def send(self, payload: bytes) -> None:
        """Send a message."""
        block = BLOCK if self.encrypt else 8
        padding = block - (5 + len(payload)) % block
        padding += block if padding < 4 else 0  # noqa: PLR2004 - the least padding (RFC 4253, section 6)
        packet = struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)
        if self.encrypt:
            mac = hmac.digest(self.keys[3], struct.pack(">I", self.sent) + packet, "sha256")
            packet = self.encrypt.update(packet) + mac
        self.sent = (self.sent + 1) & 0xFFFFFFFF
        self.transport.write(packet)

    def data_received(self, data: bytes) -> None:
        """Take what came, message by message."""
        self.buffer += data
        if not self.version:
            line, end, rest = self.buffer.partition(b"\n")
            if not end:
                return
            self.version, self.buffer = bytes(line.rstrip(b"\r")), rest
        for payload in self.messages():
            self.take(payload)

    def messages(self) -> Iterator[bytes]:
        """Yield the messages that have come whole."""
        while True:
            block = BLOCK if self.decrypt else 8
            if not self.size:
                if len(self.buffer) < block:
                    return
                if self.decrypt:
                    self.buffer[:BLOCK] = self.decrypt.update(bytes(self.buffer[:BLOCK]))
                self.size = 4 + int.from_bytes(self.buffer[:4], "big")
            whole = self.size + (MAC_BYTES if self.decrypt else 0)
            if len(self.buffer) < whole:
                return
            packet = bytes(self.buffer[: self.size])
            if self.decrypt:
                packet = packet[:BLOCK] + self.decrypt.update(packet[BLOCK:])
                mac = hmac.digest(self.keys[2], struct.pack(">I", self.received) + packet, "sha256")
                if mac != self.buffer[self.size : whole]:
                    self.transport.abort()
                    return
            del self.buffer[:whole]
            self.size = 0
            self.received = (self.received + 1) & 0xFFFFFFFF
            yield packet[5 : len(packet) - packet[4]]

    def take(self, message: bytes) -> None:
        """Answer a message."""
        kind = message[0]
        if kind == KEXINIT:
            self.offered = message
        elif kind == KEX_INIT:
            self.exchange(next(strings(message, 1)))
        elif kind == NEWKEYS:
            self.decrypt = self.cipher(self.keys[0], self.keys[4])
        elif kind == SERVICE_REQUEST:
            self.send(bytes([SERVICE_ACCEPT]) + message[1:])
        elif kind == AUTH_REQUEST:
            self.send(bytes([AUTH_SUCCESS]))
        else:
            self.take_of_session(kind, message)

    def take_of_session(self, kind: int, message: bytes) -> None:
        """Answer a message of the login's one session, or one that keeps the connection alive."""
        after = 5 + int.from_bytes(message[1:5], "big")
        if kind == OPEN:
            self.channel = int.from_bytes(message[after : after + 4], "big")
            self.send(struct.pack(">BIIII", CONFIRMED, self.channel, 0, WINDOW, LARGEST))
        elif kind == REQUEST:
            self.send(struct.pack(">BI", SUCCESS, self.channel))
            self.say(f"{GREETING}\n".encode())
        elif kind == DATA:
            self.inbox += next(strings(message, 5))
            self.work()
        elif kind in (EOF, CLOSE):
            self.send(struct.pack(">BI", CLOSE, self.channel))
        elif kind == GLOBAL_REQUEST and message[after]:
            self.send(bytes([REQUEST_FAILURE]))

    def cipher(self, key: bytes, start: bytes) -> Any:
        """A cipher of one direction; in counter mode both directions of it are the same."""
        return Cipher(AES(key), CTR(start)).encryptor()

    def exchange(self, theirs: bytes) -> None:
        """Complete the key exchange (RFC 8731), and send by the new keys from then on."""
        mine = X25519PrivateKey.generate()
        ours = mine.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        secret = number(mine.exchange(X25519PublicKey.from_public_bytes(theirs)))
        parts = (self.version, VERSION, self.offered, self.offer, self.answers.blob, theirs, ours)
        session = hashlib.sha256(b"".join(map(text, parts)) + secret).digest()
        signature = text(HOST_KEY) + text(self.answers.key.sign(session))
        self.send(bytes([KEX_REPLY]) + text(self.answers.blob) + text(ours) + text(signature))
        self.send(bytes([NEWKEYS]))
        a, b, c, d, e, f = (hashlib.sha256(secret + session + bytes([one]) + session).digest() for one in b"ABCDEF")
        self.keys = (c[:16], d[:16], e, f, a[:16])
        self.encrypt = self.cipher(d[:16], b[:16])

    def say(self, data: bytes) -> None:
        """Send output of the agent."""
        for at in range(0, len(data), LARGEST):
            self.send(struct.pack(">BI", DATA, self.channel) + text(data[at : at + LARGEST]))

    def work(self) -> None:
        """Take the agent's code and its frames, and answer the requests among them."""
        while True:
            line, end, _ = self.inbox.partition(b"\n")
            if not end or len(self.inbox) < len(line) + 1 + int(line):
                return
            frame = bytes(self.inbox[len(line) + 1 : len(line) + 1 + int(line)])
            del self.inbox[: len(line) + 1 + int(line)]
            if not self.has_code:
                self.has_code = True
            elif frame and not frame.startswith(MODULES):
                self.say(self.answers.to(json.loads(frame), self.place))


def dead(port: int) -> tuple[socket.socket, socket.socket]:
    """A port at which nobody answers, as that of a host that is switched off: its one place in the queue is taken."""
    listening = socket.socket()
    listening.bind((EVERYWHERE, port))
    listening.listen(0)
    waiting = socket.create_connection(("127.0.0.1", port))
    return listening, waiting


async def serve(port: int, directory: Path) -> None:
    """Serve until the input ends."""
    answers, loop = Answers(directory), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Endpoint(answers), EVERYWHERE, port, backlog=4096)
    held = dead(port + 1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.strip() == "cost":
            used = resource.getrusage(resource.RUSAGE_SELF)
            sys.stdout.write(f"{used.ru_utime + used.ru_stime:.3f}\n")
            sys.stdout.flush()
    server.close()
    for one in held:
        one.close()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
