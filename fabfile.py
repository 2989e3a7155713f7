"""The tasks of slurmfab, for `fab`."""

import importlib.util
import sys

here = sys.path.pop(0)  # Fabric puts this directory first, where a file could have the name of any module
if importlib.util.find_spec("slurmfab") is None:  # in a checkout that is not installed
    sys.path.append(here)

from slurmfab.fabfile import namespace  # noqa: E402 - from where the search path leads now

__all__ = ["namespace"]
