"""The name of the program that users run, for messages that recommend a command."""

FAB = "fab"
"""`fab`, or the name under which the deployer was called, which sends it in this module (`slurmfab.hosts.payload`)."""
