"""Lists parameters under their dotted names, as Hugging Face does."""

import numpy as np
from flax import nnx

QUERY = "encoder.layer.0.attention.self.query.weight"


def flat(model) -> dict[str, np.ndarray]:
  """Returns the parameters under their dotted names."""
  return {
    ".".join(map(str, path)): np.asarray(leaf.get_value())
    for path, leaf in nnx.to_flat_state(nnx.state(model))
  }
