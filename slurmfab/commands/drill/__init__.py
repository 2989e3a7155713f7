"""Drills: faults on purpose, one after the other, with the time until they are noticed and until all is well again."""
