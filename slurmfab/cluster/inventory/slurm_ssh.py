"""The model of SSH logins of the slurm user between the hosts (key `slurm_ssh`)."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import Model, one_or_more, short_for

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


class SlurmSsh(Model):
    """SSH logins of the slurm user without a password, between controllers and other hosts."""

    # to every other host, as programs of slurmctld need it that work on nodes; with `both`, root of any node is slurm
    # on the controllers
    logins: Annotated[Logins, Field(description="from_controllers, both or none.")] = "from_controllers"
    # all keys are accepted from there
    also_from: Annotated[
        tuple[str, ...],
        BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
        AfterValidator(check_sources),
        Field(description="Addresses of hosts behind NAT, as others see them."),
    ] = ()


SlurmSshOrLogins = Annotated[
    SlurmSsh,
    BeforeValidator(short_for("logins"), json_schema_input_type=Logins | SlurmSsh),
    Field(description="SSH logins of the slurm user: from_controllers, both or none; or a mapping."),
]
