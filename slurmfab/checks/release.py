"""The error that a check raises for a host with another release of Slurm."""

from __future__ import annotations


class OtherRelease(AssertionError):
    """A host has another release of Slurm than the controller; no other check of Slurm runs there."""
