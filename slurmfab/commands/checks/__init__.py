"""What `fab check-cluster` checks: pytest-testinfra tests that ship with the product and test the user's cluster.

They compare the hosts with the cluster file and its lock, never with a plan, and use SSH connections of their own. So
they verify a deployment independently of the code that deployed.

A new check is one function in a `test_*.py` of this package. The first line of its docstring is its title in the
results. Its arguments name the hosts and objects that it needs (see `slurmfab.commands.checks.plugin`). Its assertions
have messages of the form `CAUSE. Repair: COMMAND OR ADVICE`, without the host's name in front.
"""
