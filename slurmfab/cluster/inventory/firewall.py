"""The model of what hosts let in on the cluster's ports (key `firewall`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.logins import Networks
from slurmfab.cluster.inventory.values import Model

MANAGED, CHECKED, NONE = "managed", "checked", "none"


class Firewall(Model):
    """Whether slurmfab closes the cluster's ports to strangers, or only looks whether hosts reach each other."""

    mode: Annotated[
        Literal["managed", "checked"],
        Field(description="managed: hosts have rules of slurmfab's; checked: an existing firewall is only looked at."),
    ] = "managed"
    trusted: Annotated[
        Networks, Field(description="Further networks that use the cluster's ports, such as those of file clients.")
    ] = ()
    admins: Annotated[
        Networks, Field(description="Networks that reach SSH on every host; without any, SSH is open to all.")
    ] = ()
    users: Annotated[
        Networks, Field(description="Networks that reach SSH where users log in; without any, these are open to all.")
    ] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Firewall:
        named = [name for name in ("trusted", "admins", "users") if getattr(self, name)]
        if self.mode == CHECKED and named:
            raise ValueError(f"{named[0]} is for managed; with checked, slurmfab lets in and keeps out nobody")
        if self.users and not self.admins:
            raise ValueError("users needs admins: name the networks, this machine's too, that reach SSH on every host")
        return self


def _of_mode(value: Any) -> Any:
    """Read a mode as a mapping with nothing else; `none` as no firewall."""
    if value == NONE:
        return None
    return {"mode": value} if isinstance(value, str) else value


FirewallOrNot = Annotated[
    Firewall | None,
    BeforeValidator(_of_mode, json_schema_input_type=Literal["managed", "checked", "none"] | Firewall | None),
    Field(description="Who reaches the cluster's ports: managed, checked or none; or a mapping."),
]
