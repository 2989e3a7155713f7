"""The tasks of slurmfab, for `fab`."""

from slurmfab.fabfile import namespace

__all__ = ["namespace"]
