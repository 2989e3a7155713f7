"""SSH to the hosts: routes, host keys, connections, and the protocol of the agent."""
