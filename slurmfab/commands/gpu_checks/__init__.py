"""GPU checks on demand: the task `check-gpus`."""
