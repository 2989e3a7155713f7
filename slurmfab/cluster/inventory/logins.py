"""The models of the keys about logins of users: who may log in where, and with which limits."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import Model, check_amount, one_or_more, short_for

Logins = Literal["from_controllers", "both", "none"]


def check_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Check addresses and networks; host bits, as in 10.0.0.1/24, are a mistake, as for sshd."""
    for source in sources:
        try:
            network = ipaddress.ip_network(source)
        except ValueError:
            raise ValueError(f'"{source}" is neither an IP address nor a network such as 192.0.2.0/24') from None
        if "%" in source or not network.prefixlen:
            raise ValueError(f'"{source}" does not tell hosts from others; name addresses or smaller networks')
    return sources


Networks = Annotated[
    tuple[str, ...],
    BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
    AfterValidator(check_sources),
]


class SlurmSsh(Model):
    """SSH logins of the slurm user without a password, between controllers and other hosts."""

    # to every other host, as programs of slurmctld need it that work on nodes; with `both`, root of any node is slurm
    # on the controllers
    logins: Annotated[Logins, Field(description="from_controllers, both or none.")] = "from_controllers"
    # all keys are accepted from there
    also_from: Annotated[Networks, Field(description="Addresses of hosts behind NAT, as others see them.")] = ()


SlurmSshOrLogins = Annotated[
    SlurmSsh,
    BeforeValidator(short_for("logins"), json_schema_input_type=Logins | SlurmSsh),
    Field(description="SSH logins of the slurm user: from_controllers, both or none; or a mapping."),
]


LEAST_TASKS = 64  # a login with a shell, an editor and a transfer of files needs some tens of processes and threads
MOST_TASKS = 4194304  # the most processes and threads that Linux can have (proc(5), pid_max)

MOST_CPUS = 4096

NodeLogins = Annotated[
    Literal["all", "with_job"],
    Field(description="Who may log in to compute nodes by SSH: all, or only users with_job there."),
]


UserSsh = Annotated[
    Literal["own", "hostbased"],
    Field(description="How users log in from host to host by SSH: with their own keys, or hostbased without any."),
]


PrivateData = Annotated[
    tuple[Literal["accounts", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users"], ...],
    Field(description="What users see only their own of: accounts, events, jobs, nodes, partitions, …"),
]
"""The key `private_data`: values of PrivateData (slurm.conf(5))."""


class LoginLimits(Model):
    """What the processes of each user together may use on a login host; root has no such limits."""

    memory: Annotated[
        str | None, AfterValidator(check_amount("8G")), Field(description="Memory of each user: 20% or 8G.")
    ] = None
    # `None` for systemd's own limit
    tasks: Annotated[
        int | None, Field(ge=LEAST_TASKS, le=MOST_TASKS, description="Processes and threads of each user.")
    ] = None
    cpus: Annotated[int | None, Field(ge=1, le=MOST_CPUS, description="CPUs of each user.")] = None


BESIDE_SLURMCTLD = LoginLimits(memory="25%", tasks=1024)
"""The limits on a login host that is a controller, where the cluster file has none: slurmctld needs room.

systemd shares CPUs equally between its services and all users together, whatever these run (CPUWeight).
"""


def _check_motd(value: bool | str) -> bool | str:
    """Plain lines: a terminal would obey control characters."""
    if isinstance(value, str) and not all(line.isprintable() for line in value.splitlines()):
        raise ValueError("it has control characters; write plain text")
    return value


Motd = Annotated[
    bool | Annotated[str, Field(min_length=1, max_length=4000)],
    AfterValidator(_check_motd),
    Field(description="Message of the day on login hosts: true, or a text that ends it."),
]
