"""The name under which this program was called, for messages that recommend a command."""

from __future__ import annotations

FAB = "fab"
"""`fab` or `slurmfab`; `slurmfab` puts its name here before anything else is loaded.

Messages use it: f"Run {FAB} deploy." Files on hosts and beside the cluster file say `fab`, whoever wrote them.
"""
