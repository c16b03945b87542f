"""Says what a place is that a user names: a local path, or one in a bucket (`gs://BUCKET/...`)."""

import re

from discipline_jax.errors import UserError

_SCHEME = re.compile(r"(gs|s3|az|abfs|hdfs)://")


def check(field: str, text: str) -> None:
  """Raises UserError if a place is not on a file system.

  Args:
    field: the flag or the field of the config that names it.
    text: what the user gave.
  """
  found = _SCHEME.match(text)
  if found is not None:
    raise UserError(
      f"{field} = {text!r}: nothing is read from or written to {found[1]}://; give a local path, such as one below a"
      " mount of the bucket"
    )
