"""Mail about jobs on the controllers: the program that slurm.conf names, and the relay to which it hands the mail."""

from __future__ import annotations

from slurmfab.base.paths import MAIL_PROGRAM, MAIL_SETTINGS
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.cluster.slurm import software
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import HEAD, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile

CAPABILITY = "mail"
TIMEOUT = 30  # seconds that a relay may be silent


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The program and its settings on a controller, before slurm.conf names the program."""
    mail = plan_input.cluster.mail
    if mail is None or host not in plan_input.cluster.controllers:
        return ()
    program = fill("job-mail", {"sender": mail.sender, "settings": MAIL_SETTINGS})
    text = settings(mail, plan_input.mail_password)
    user, group = plan_input.slurm_owner(host)
    return owned(
        plan_input,
        host,
        CAPABILITY,
        (
            OwnedFile(MAIL_PROGRAM, program, mode=0o755),
            # msmtp wants a file of its own user that nobody else can read, because of the password.
            OwnedFile(MAIL_SETTINGS, text, mode=0o600, owner=user, group=group, secret=bool(mail.user)),
        ),
    )


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of both where nothing names them any more."""
    if plan_input.cluster.mail is not None and host in plan_input.cluster.controllers:
        return ()
    return owned(plan_input, host, CAPABILITY, ())


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The mailer, and the certificates for a relay with TLS."""
    mail = plan_input.cluster.mail
    if mail is None or host not in plan_input.cluster.controllers:
        return ()
    return (software.MAILER, *(() if mail.tls == "off" else (software.CERTIFICATES,)))


def settings(mail: Mail, password: str) -> str:
    """The settings of msmtp(1). `password`: the password of the login; empty for a relay without one."""
    values = {
        "account": "default",
        "host": mail.host,
        "port": str(mail.port),
        "from": mail.sender,
        "timeout": str(TIMEOUT),
        "syslog": "LOG_MAIL",
        "tls": "off" if mail.tls == "off" else "on",
        "tls_starttls": "on" if mail.tls == "starttls" else "off",
        # msmtp takes the quotes around a value away and leaves all others.
        **({"auth": "on", "user": f'"{mail.user}"', "password": f'"{password}"'} if mail.user else {}),
    }
    lines = "".join(f"{name} {value}\n" for name, value in values.items())
    return HEAD + lines
