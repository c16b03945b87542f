"""Converts the published checkpoint of PLUS-TFM (Min et al. 2019, "Pre-training of deep bidirectional protein sequence
representations with structural information") to a directory that `models.load` reads.

  python -m discipline_jax.models.plus_tfm PLUS-TFM.pt DIRECTORY
"""

import json
import pathlib
import re
import sys

import numpy as np
from safetensors.numpy import save as serialize

from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.torch_file import read_torch_file

# X is an unknown amino acid. There is no token for symbols that are not amino acids.
TOKENS = ("[PAD]", *"ARNDCQEGHILKMFPSTWYVX", "[MASK]", "[CLS]", "[SEP]")
_NUM_HEADS = 12  # cannot be derived from the shapes of the tensors
_RENAMES = (
  (r"^module\.", ""),
  (r"^transformer\.embed\.tok_embed\.", "embeddings.word_embeddings."),
  (r"^transformer\.embed\.seg_embed\.", "embeddings.token_type_embeddings."),
  (r"^transformer\.embed\.norm\.", "embeddings.LayerNorm."),
  (r"^transformer\.blocks\.(\d+)\.", r"encoder.layer.\1."),
  (r"\.attn\.proj_q\.", ".attention.self.query."),
  (r"\.attn\.proj_k\.", ".attention.self.key."),
  (r"\.attn\.proj_v\.", ".attention.self.value."),
  (r"\.proj\.", ".attention.output.dense."),
  (r"\.norm1\.", ".attention.output.LayerNorm."),
  (r"\.pwff\.fc1\.", ".intermediate.dense."),
  (r"\.pwff\.fc2\.", ".output.dense."),
  (r"\.norm2\.", ".output.LayerNorm."),
  (r"^fc_lm\.", "cls.predictions.transform.dense."),
  (r"^norm_lm\.", "cls.predictions.transform.LayerNorm."),
  (r"^decoder_bias$", "cls.predictions.bias"),
  (r"^cls\.(weight|bias)$", r"cls.seq_relationship.\1"),
  (r"\.gamma$", ".weight"),
  (r"\.beta$", ".bias"),
)
# Not needed: the sinusoids, and a second copy of the word-embedding table.
_DERIVED = ("transformer.embed.pos_embed.pe", "decoder.weight")


def convert(
  source: pathlib.Path, directory: pathlib.Path, *, num_attention_heads: int = _NUM_HEADS
) -> None:
  """Writes `config.json`, `vocab.txt` and `model.safetensors`.

  Args:
    source: the authors' state dict, a file of `torch.save`.
    directory: where to write; it is made if it does not exist.
    num_attention_heads: number of attention heads of the model.

  Raises:
    UserError: the file does not exist, or does not hold a whole PLUS-TFM.
  """
  if not source.is_file():
    raise UserError(f"no file {source}; give the authors' PLUS-TFM.pt")
  state = read_torch_file(source)
  tensors = {}
  for name, array in state.items():
    if name.removeprefix("module.") not in _DERIVED:
      tensors[_name(name)] = np.ascontiguousarray(array.astype(np.float32))
  try:
    vocab_size, hidden_size = tensors["embeddings.word_embeddings.weight"].shape
    intermediate_size = len(tensors["encoder.layer.0.intermediate.dense.bias"])
  except (KeyError, ValueError):
    raise UserError(f"not the state dict of PLUS-TFM, {source}; give the authors' file") from None
  if vocab_size != len(TOKENS):
    raise UserError(
      f"{vocab_size} tokens, but PLUS-TFM has {len(TOKENS)}, {source}; give the authors' file"
    )
  layers = {
    int(match[1]) for name in tensors if (match := re.match(r"encoder\.layer\.(\d+)\.", name))
  }
  config = ModelConfig.from_dict(
    {
      "model_type": "plus_tfm",
      "hidden_size": hidden_size,
      "intermediate_size": intermediate_size,
      "num_hidden_layers": len(layers),
      "num_attention_heads": num_attention_heads,
    },
    str(source),
  )
  directory.mkdir(parents=True, exist_ok=True)
  with whole_file(directory / "model.safetensors") as file:
    file.write(serialize(tensors))
  with whole_file(directory / "vocab.txt", text=True) as file:
    file.write("".join(f"{token}\n" for token in TOKENS))
  with whole_file(directory / "config.json", text=True) as file:
    file.write(json.dumps(config.to_dict(), indent=2, sort_keys=True) + "\n")


def _name(name: str) -> str:
  """Returns the name of a parameter in this package."""
  for pattern, replacement in _RENAMES:
    name = re.sub(pattern, replacement, name)
  return name


if __name__ == "__main__":
  if len(sys.argv) != 3:
    sys.exit("usage: python -m discipline_jax.models.plus_tfm PLUS-TFM.pt DIRECTORY")
  try:
    convert(*map(pathlib.Path, sys.argv[1:]))
  except (UserError, OSError) as error:
    sys.exit(f"error: {error}")
