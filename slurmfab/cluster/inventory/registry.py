"""The model of the cluster's own image registry (key `registry`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.base.ip_addresses import parsed
from slurmfab.cluster.inventory.values import Model, check_directory, short_for, written_as

PORT, PULL_PORT = 5000, 5001
DIRECTORY = "/var/lib/docker-registry"  # where Debian's package has the images

PASSWORDS = "registry.htpasswd"
"""The file beside the cluster file that says who may log in, unless the cluster file names another one."""

_SCOPE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_LOWEST_PORT = 1024


def check_ip_address(address: str | None) -> str | None:
    """An IP address in its usual spelling. Raises ValueError for other texts."""
    if address is not None:
        try:
            return str(parsed(address))
        except ValueError:
            raise ValueError(f'"{address}" is not an IP address, such as 10.0.0.1') from None
    return None


@written_as(_SCOPE)
def _check_scope(scope: str) -> str:
    if not _SCOPE.fullmatch(scope) or not ({".", ":"} & set(scope.partition("/")[0])):
        raise ValueError(
            f'"{scope}" is not a registry, nor a part of one, such as docker.io/library or ghcr.io/example/tool'
        )
    return scope


_Port = Annotated[int, Field(ge=_LOWEST_PORT, le=HIGHEST_PORT)]


class Registry(Model):
    """A host of the cluster that has container images for the others."""

    host: Annotated[str, Field(min_length=1, description="The host of the cluster that has the images.")]
    # `None` for the one by which the other hosts reach it
    address: Annotated[
        str | None, AfterValidator(check_ip_address), Field(description="Its IP address to listen on.")
    ] = None
    port: Annotated[_Port, Field(description="TCP port for those who log in.")] = PORT
    anonymous_pull: Annotated[bool, Field(description="Whether images are fetched without a login, too.")] = False
    pull_port: Annotated[_Port, Field(description="TCP port without a login, for fetching alone.")] = PULL_PORT
    directory: Annotated[
        str, AfterValidator(check_directory("/srv/images")), Field(description="Directory of the images.")
    ] = DIRECTORY
    password_file: Annotated[
        str, Field(min_length=1, description="File with users and hashes of passwords (htpasswd -B), mode 0600.")
    ] = PASSWORDS
    only: Annotated[bool, Field(description="Whether podman and skopeo take images from here alone.")] = False
    allowed: Annotated[
        tuple[Annotated[str, AfterValidator(_check_scope)], ...],
        Field(description="Registries that they may take images from all the same, such as docker.io/library."),
    ] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Registry:
        if self.allowed and not self.only:
            raise ValueError("allowed is for only: true; without it, images come from everywhere")
        if self.anonymous_pull and self.port == self.pull_port:
            raise ValueError(f"port and pull_port are both {self.port}; each needs its own")
        if not self.anonymous_pull and "pull_port" in self.model_fields_set:
            raise ValueError("pull_port is for anonymous_pull: true")
        return self

    @property
    def place(self) -> str:
        """Host and port, as the names of its images begin."""
        return f"{self.host}:{self.port}"

    @property
    def pull_place(self) -> str:
        """The same of the port without a login."""
        return f"{self.host}:{self.pull_port}"

    @property
    def places(self) -> tuple[str, ...]:
        """Both, or only the first if there is no other."""
        return (self.place, self.pull_place) if self.anonymous_pull else (self.place,)


RegistryOrNot = Annotated[
    Annotated[Registry, BeforeValidator(short_for("host"), json_schema_input_type=str | Registry)] | None,
    Field(description="The host with the cluster's own container images, or a mapping."),
]
