"""The recorded runs of a cluster: listed, and rolled back."""
