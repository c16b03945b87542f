"""Makes a small corpus whose words name their document, and a config that prepares it."""

import pathlib

from ml_collections import ConfigDict

from discipline_jax import defaults


def write_text(path: pathlib.Path, num_documents: int = 30, sentences: int = 6) -> pathlib.Path:
  """Writes plain text with blank lines between documents; the word `d7` occurs in document 7 alone."""
  documents = [
    " ".join(
      f"The {word} of d{number} is number {i}." for i, word in enumerate(["one", "two"] * sentences)
    )
    for number in range(num_documents)
  ]
  path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
  return path


def small_config(folder: pathlib.Path) -> ConfigDict:
  """Writes `text.txt` in the folder, and returns a config that prepares it in `cache`: pairs of two lengths."""
  config = defaults.pretrain()
  config.cache_dir = str(folder / "cache")
  config.corpus.update(
    path=str(write_text(folder / "text.txt")), length=(24, 48), validation=0.1, draws=2
  )
  config.model.config.vocab_size = 130
  return config
