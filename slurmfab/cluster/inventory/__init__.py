"""The cluster file and its lock as values: models, rules, reading, writing and edits. It contacts no hosts."""
