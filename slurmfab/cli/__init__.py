"""The door: the program as it starts, the tasks, what shells complete."""
