"""The recovery program of controllers, run by a timer."""
