"""`fab usage`: what jobs used of a cluster over time, and what people's directories hold."""
