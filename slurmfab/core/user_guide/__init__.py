"""Pages for the users of a cluster, from its file: a guide, and a form that writes submit scripts."""
