"""Packages of the distribution, from its mirror or from a bundle."""
