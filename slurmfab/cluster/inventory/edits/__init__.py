"""Edits of cluster files: comments, order and layout of the rest stay unchanged."""
