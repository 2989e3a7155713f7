"""A stand-in for a mail relay, on a lab host: it wants TLS and a login, and keeps mail instead of sending it.

relay.py CERTIFICATE PORT PORT_OF_STARTTLS NAME PASSWORD DIRECTORY
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
from pathlib import Path


class Relay:
    """One connection after another (RFC 5321), with AUTH PLAIN (RFC 4954) and no other.

    Args:
        context: the relay's certificate.
        login: what AUTH PLAIN has to say: NUL, name, NUL, password.
        directory: where each mail becomes a file: its recipients, and then its text.
    """

    def __init__(self, context: ssl.SSLContext, login: bytes, directory: Path) -> None:
        self.context = context
        self.login = login
        self.directory = directory

    async def encrypt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client until it asks for TLS, and then as with TLS from the start (RFC 3207)."""
        writer.write(b"220 relay\r\n")
        while line := (await reader.readline()).decode(errors="replace").strip():
            verb = line.partition(" ")[0].upper()
            answers = {"EHLO": "250-relay\r\n250 STARTTLS", "STARTTLS": "220 go on", "QUIT": "221 bye"}
            writer.write(f"{answers.get(verb, '530 encrypt first')}\r\n".encode())
            if verb == "STARTTLS":
                await writer.start_tls(self.context)
                await self.talk(reader, writer)
                return
            if verb == "QUIT":
                break
        writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet one client, and talk to it until it quits."""
        writer.write(b"220 relay\r\n")
        await self.talk(reader, writer)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client until it quits."""
        recipients: list[str] = []
        is_known = False
        while line := (await reader.readline()).decode(errors="replace").strip():
            verb, rest = line.partition(" ")[0].upper(), line.partition(" ")[2]
            answer = "250 ok"
            if verb == "EHLO":
                answer = "250-relay\r\n250 AUTH PLAIN"
            elif verb == "AUTH":
                is_known = base64.b64decode(rest.partition(" ")[2]) == self.login
                answer = "235 welcome" if is_known else "535 who are you?"
            elif not is_known and verb != "QUIT":
                answer = "530 log in first"
            elif verb == "RCPT":
                recipients.append(rest)
            elif verb == "DATA":
                writer.write(b"354 go on\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode(errors="replace")
                number = len(list(self.directory.iterdir()))
                (self.directory / f"{number}.mail").write_text("\n".join((*recipients, text)))
            writer.write(f"{answer}\r\n".encode())
            if verb == "QUIT":
                break
        writer.close()


async def main(certificate: str, *words: str) -> None:
    """Serve until this process is stopped."""
    port, starttls, name, password, directory = words
    Path(directory).mkdir(exist_ok=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    relay = Relay(context, f"\0{name}\0{password}".encode(), Path(directory))
    server = await asyncio.start_server(relay.serve, "0.0.0.0", int(port), ssl=context)
    plain = await asyncio.start_server(relay.encrypt, "0.0.0.0", int(starttls))
    await asyncio.gather(server.serve_forever(), plain.serve_forever())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
