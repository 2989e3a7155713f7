"""What `fab check-cluster` checks: pytest-testinfra tests that ship with the product and test the user's cluster.

They are written from the cluster file and its lock, never from a plan, and ask the hosts over connections of their
own: a second witness to what a deployment says of itself.

A new check is one function in a `test_*.py` here. Its docstring's first line is the sentence that people read; its
arguments say what it needs (see `slurmfab.checks.plugin`); and it asserts, with a message of the form
`what is wrong, and why. Repair: what to do`, without the host's name in front.
"""
