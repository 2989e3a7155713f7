"""Bundles: packages for hosts that have no way to a mirror, collected once and pushed over SSH."""
