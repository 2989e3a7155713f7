"""Bundles: packages for hosts that reach no mirror, collected on one host and sent over SSH."""
