"""The agent: the only code of slurmfab that runs on hosts. Standard library only, Python 3.9 or later.

It is sent over SSH into the memory of a `python3` process on the host; no source file stays on the disk. The plan makes
resources on the deployer as records (`slurmfab.on_hosts.agent.core.record`); the agent compares and converges them on
the host.
"""
