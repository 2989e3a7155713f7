"""The way to a host: route, pinned keys, connection, and the conversation with the agent over it."""
