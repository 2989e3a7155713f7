"""The model of notebooks in the browser (key `jupyter`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.base.ip_addresses import in_url
from slurmfab.cluster.inventory.power import Seconds
from slurmfab.cluster.inventory.registry import check_ip_address
from slurmfab.cluster.inventory.values import Model, check_directory, short_for

PORT, HUB_PORT, PROXY_PORT = 8000, 8081, 8001
"""Where browsers reach the proxy, where servers on nodes reach the hub, and where the hub reaches the proxy on its own
host; JupyterHub's defaults."""

SERVER_PORTS = (28000, 28999)
"""The first and the last port of servers on nodes: below those that Linux gives away, so that a firewall can name
them."""

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared

_MINUTE, _DAY = 60, 86400

_Path = Annotated[str | None, AfterValidator(lambda path: path and check_directory("/etc/ssl/hub.pem")(path))]


class Jupyter(Model):
    """JupyterHub on a host of the cluster, whose servers are jobs of their users."""

    host: Annotated[str, Field(min_length=1, description="Controller or login host with JupyterHub.")]
    port: Annotated[int, Field(ge=1, le=HIGHEST_PORT, description="TCP port for browsers, with TLS.")] = PORT
    # `None` for the one by which the other hosts reach it
    address: Annotated[
        str | None, AfterValidator(check_ip_address), Field(description="IP address for browsers; 0.0.0.0 for all.")
    ] = None
    certificate: Annotated[
        _Path, Field(description="File with the site's certificate and its chain, on the host; PEM.")
    ] = None
    key: Annotated[_Path, Field(description="File with the key of that certificate, on the host.")] = None
    # seconds
    idle: Annotated[
        Seconds, Field(ge=_MINUTE, le=30 * _DAY, description="Time without use after which a server ends: 1h.")
    ] = 3600

    @model_validator(mode="after")
    def _fits_together(self) -> Jupyter:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together; without both, slurmfab makes a certificate")
        if self.port in (HUB_PORT, PROXY_PORT):
            raise ValueError(f"port {self.port} is the hub's own; choose another one for browsers, such as {PORT}")
        return self

    @property
    def own_address(self) -> str:
        """The address that the cluster file gives it alone; empty for none, or for all."""
        return "" if self.address in EVERYWHERE else self.address or ""

    @property
    def reached_at(self) -> str:
        """The name or address by which its own host reaches it, as in a URL."""
        return in_url(self.own_address) if self.own_address else self.host


JupyterOrNot = Annotated[
    Annotated[Jupyter, BeforeValidator(short_for("host"), json_schema_input_type=str | Jupyter)] | None,
    Field(description="The host with JupyterHub for notebooks in jobs, or a mapping."),
]
