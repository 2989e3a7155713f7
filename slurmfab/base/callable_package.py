"""Packages that can be called, where the public function of that name is another one's."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

PUBLIC = "slurmfab.connections"  # the module with the functions


class CallablePackage(ModuleType):
    """A package whose call is the call of the public function with its name.

    `from slurmfab import hosts` finds the package, as Python binds each to the name that it has in its parent.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the public function returns; its module is loaded now, and not before."""
        function = getattr(importlib.import_module(PUBLIC), self.__name__.rpartition(".")[2])
        return function(*args, **kwargs)


def callable_as_function(package: str) -> None:
    """Have a package called as the public function of its name."""
    sys.modules[package].__class__ = CallablePackage
