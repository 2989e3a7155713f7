"""Mail from the deployer: by a program, or to a relay that listens here."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import SlurmfabError
from slurmfab.commands.drift import mailing


class Relay(threading.Thread):
    """A relay for one mail, which it keeps."""

    def __init__(self, *, takes: bool) -> None:
        super().__init__(daemon=True)
        self.takes = takes
        self.lines: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self) -> None:
        connection, _ = self.socket.accept()
        with connection, connection.makefile("rwb") as file:
            is_data = False

            def answer(text: str) -> None:
                file.write(f"{text}\r\n".encode())
                file.flush()

            answer("220 relay")
            for line in file:
                text = line.decode().rstrip("\r\n")
                self.lines.append(text)
                if is_data:
                    is_data = text != "."
                    if not is_data:
                        answer("250 taken")
                elif text.upper() == "DATA":
                    is_data = True
                    answer("354 go on")
                elif text.upper().startswith("RCPT") and not self.takes:
                    answer("550 who is that?")
                else:
                    answer("221 bye" if text.upper() == "QUIT" else "250 fine")


def mailer(port: int) -> mailing.Mailer:
    relay = f"mail: {{relay: '127.0.0.1:{port}', from: slurm@example.org, tls: off}}\n"
    return mailing.mailer(cluster(f"{THREE_HOSTS}{relay}"), Path("cluster.yaml"))


def test_a_relay_of_the_cluster_file_when_there_is_one_then_gets_the_mail_with_its_sender() -> None:
    relay = Relay(takes=True)
    mailer(relay.port).send(["ann@example.org"], "two\nlines: ä", "text\n")
    relay.join(10)
    assert any(line.lower().startswith("mail from:<slurm@example.org>") for line in relay.lines)
    assert "From: slurm@example.org" in relay.lines
    assert not any(line.startswith("lines") for line in relay.lines)
    assert "text" in relay.lines


def test_a_mail_whose_texts_are_no_utf_8_or_steer_a_terminal_then_is_sent_with_these_written_out() -> None:
    relay = Relay(takes=True)
    mailer(relay.port).send(["ann@example.org"], "n1: \udcff\nBcc: x", "file \udce4\udcff \x1b[2J\n")
    relay.join(10)
    assert "file \\udce4\\udcff \\x1b[2J" in relay.lines
    assert "Subject: n1: \\udcff\\nBcc: x" in relay.lines


def test_a_relay_when_it_refuses_the_mail_then_says_why() -> None:
    relay = Relay(takes=False)
    with pytest.raises(SlurmfabError, match=r"127.0.0.1:\d+ did not take the mail: .*who is that"):
        mailer(relay.port).send(["ann@example.org"], "subject", "text\n")


def test_a_machine_when_it_has_no_mail_program_then_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(mailing, "SYSTEM", str(tmp_path))
    with pytest.raises(SlurmfabError, match="msmtp-mta"):
        mailing.mailer(cluster(), Path("cluster.yaml"))
    program = tmp_path / "msmtp"
    program.touch(mode=0o755)
    assert mailing.mailer(cluster(), Path("cluster.yaml")).command == (str(program), "--read-recipients")
