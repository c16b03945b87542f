"""Makes a small corpus whose words name their document, and a config that prepares it."""

import pathlib

from ml_collections import ConfigDict

from discipline_jax import defaults
from discipline_jax.corpora.text import Document


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


def plain_blocks(documents: list[Document], characters: int, least: int) -> list[list[Document]]:
  """Cuts documents into blocks, one document after the other: the definition of `ranges.cut`.

  Args:
    documents: all documents of a corpus.
    characters: the least number of letters in a block.
    least: the least number of documents in a block.
  """
  found: list[list[Document]] = []
  rest: list[Document] = []
  for document in documents:
    rest.append(document)
    letters = sum(len(text) for one in rest for text in one.paragraphs)
    if letters >= characters and len(rest) >= least:
      found.append(rest)
      rest = []
  if not found:
    return [rest]
  return [*found[:-1], found[-1] + rest]


def content(directory: pathlib.Path) -> dict[str, bytes]:
  """Returns the content of each file of a folder, by its name."""
  return {path.name: path.read_bytes() for path in directory.iterdir()}
