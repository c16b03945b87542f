"""Applies each measure of `discipline_jax.analysis` to several networks and one task; a measure a file."""
