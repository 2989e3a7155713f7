"""What a cluster is, as values: its file and lock, Slurm by version, what hosts and Slurm said."""

from slurmfab.base.callable_package import callable_as_function

callable_as_function(__name__)  # `from slurmfab import cluster` is `slurmfab.connections.cluster`
