"""A small corpus whose words say which document they are of."""

import pathlib


def write_text(path: pathlib.Path, num_documents: int = 30, sentences: int = 6) -> pathlib.Path:
  """Writes plain text with blank lines between documents; `d7` is a word of the document 7 alone."""
  documents = [
    " ".join(
      f"The {word} of d{number} is number {i}." for i, word in enumerate(["one", "two"] * sentences)
    )
    for number in range(num_documents)
  ]
  path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
  return path
