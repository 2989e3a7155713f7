"""The munge key: making, comparing and rotating it."""
