"""All code that runs on hosts: the agent during a run, programs that stay."""
