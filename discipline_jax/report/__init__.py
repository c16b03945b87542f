"""Turns a tree of finished runs into tables, figures and a page. Reads what runs wrote, and never imports JAX."""
