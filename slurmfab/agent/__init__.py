"""The only code that runs on hosts: standard library alone, Python 3.9 and later, one resource type per file.

It travels over SSH into the memory of a `python3` on the host and leaves nothing on the disk. The same classes are
built by the plan on the deployer, as records (`slurmfab.agent.record`), and compared and converged on the host.
"""
