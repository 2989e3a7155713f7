from slurmfab.connections import cluster as cluster
from slurmfab.connections import hosts as hosts
from slurmfab.fabfile import namespace as namespace

__all__ = ["cluster", "hosts", "namespace"]
__version__: str
