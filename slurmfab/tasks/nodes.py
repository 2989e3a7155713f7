"""Tasks for nodes that come and go, and for a look at how they are."""

from __future__ import annotations
