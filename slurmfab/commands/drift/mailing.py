"""Mail from the deployer: to the relay of the cluster file, or to sendmail or msmtp on this machine."""

from __future__ import annotations

import os
import shutil
import smtplib
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.terminal import harmless, in_one_line
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.core.engine import passwords

PROGRAMS = {"sendmail": ("-i", "-t"), "msmtp": ("--read-recipients",)}
"""Programs that take a mail on standard input, with the arguments that make them read its recipients."""

SYSTEM = "/usr/sbin:/usr/lib:/usr/local/sbin"  # where sendmail is, besides PATH
SECONDS = 60  # how long a relay or a program may be silent


@dataclass(frozen=True)
class Mailer:
    """A way of sending mail."""

    command: tuple[str, ...] = ()  # program with its arguments; empty where a relay is used
    relay: Mail | None = None
    password: str = ""  # its password; empty for none

    def send(self, to: Sequence[str], subject: str, text: str) -> None:
        """Send a mail. Raises SlurmfabError if it was not taken."""
        message = EmailMessage()
        message["To"] = ", ".join(to)
        message["Subject"] = in_one_line(subject)
        message["Date"] = formatdate(localtime=True)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(harmless(text))
        if self.relay is None:
            hand_over(self.command, message)
        else:
            message["From"] = self.relay.sender
            message["Message-ID"] = make_msgid(domain=self.relay.domain)
            deliver(self.relay, self.password, message)


def mailer(cluster: Cluster, cluster_file: Path) -> Mailer:
    """How mail is sent: through the relay of the cluster file's `mail`, or else by a program of this machine.

    `cluster_file`: its file, beside which the relay's password is. Raises InputError if the password cannot be read.
    Raises SlurmfabError if there is neither a relay nor a program.
    """
    if cluster.mail is not None:
        return Mailer(relay=cluster.mail, password=passwords.mail_password(cluster.mail, cluster_file.parent))
    places = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}"
    for name, arguments in PROGRAMS.items():
        if program := shutil.which(name, path=places):
            return Mailer((program, *arguments))
    raise SlurmfabError(
        f"drift.mail: this machine has none of {', '.join(PROGRAMS)}, and the cluster file names no relay under mail. "
        "No mail can be sent; install one of them, such as the package msmtp-mta, or add mail to the cluster file."
    )


def hand_over(command: Sequence[str], message: EmailMessage) -> None:
    """Give a mail to a program. Raises SlurmfabError if it did not take it."""
    try:
        subprocess.run(command, input=bytes(message), capture_output=True, timeout=SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        said = in_one_line(error.stderr.decode(errors="replace"))[-300:]
        raise SlurmfabError(f"{command[0]} did not take the mail (exit code {error.returncode}): {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmfabError(f"{command[0]} did not take the mail: {error}") from error


def deliver(relay: Mail, password: str, message: EmailMessage) -> None:
    """Give a mail to a relay, with its login's password, if any; SlurmfabError if it did not take it."""
    context = ssl.create_default_context()
    try:
        with connection(relay, context) as smtp:
            if relay.tls == "starttls":
                smtp.starttls(context=context)
            if relay.user is not None:
                smtp.login(relay.user, password)
            smtp.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise SlurmfabError(f"The relay {relay.relay} did not take the mail: {in_one_line(str(error))[:300]}") from None


def connection(relay: Mail, context: ssl.SSLContext) -> smtplib.SMTP:
    """A connection to a relay, encrypted from the start where it says so."""
    if relay.tls == "on":
        return smtplib.SMTP_SSL(relay.host, relay.port, timeout=SECONDS, context=context)
    return smtplib.SMTP(relay.host, relay.port, timeout=SECONDS)
