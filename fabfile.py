"""The tasks of slurmfab, for `fab`."""

from slurmfab.tasks import namespace

__all__ = ["namespace"]
