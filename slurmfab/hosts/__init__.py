"""SSH to the hosts: routes, host keys, connections, and the protocol of the agent."""

from slurmfab.base.callable_package import callable_as_function

callable_as_function(__name__)  # `from slurmfab import hosts` is `slurmfab.connections.hosts`
