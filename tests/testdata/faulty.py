"""A config that cannot be read."""

# The next line is wrong on purpose.
nothing  # noqa: B018, F821
