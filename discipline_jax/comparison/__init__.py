"""Compares trained networks and simple baselines: what is trained, in which time, and what it shows."""
