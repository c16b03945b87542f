"""Turns the config of a run into compiled programs and their inputs; creates no workdir."""
