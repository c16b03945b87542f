"""Describes a corpus from what was counted while its blocks were written, and checks that it can be trained on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import PARTS, Block, LinesBlock
from discipline_jax.corpora.known import check_statistics
from discipline_jax.corpora.records import LARGE, ORDER
from discipline_jax.corpora.source import Source, vocabulary_source
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary


def describe(
  source: Source, counts: Mapping[str, np.ndarray], vocabulary: Vocabulary, first: Block | None
) -> dict[str, Any]:
  """Returns the content of `corpus.json`.

  Args:
    source: the source of the corpus.
    counts: the sums of what `write_block` returned for all blocks.
    vocabulary: the vocabulary of the corpus.
    first: the first block of an artificial corpus, on which some statistics are measured; None for a text.

  Raises:
    UserError: a part has no instance, or the vocabulary does not know the corpus.
  """
  _check_instances(counts)
  settings = source.instances
  statistics = _statistics(counts, vocabulary)
  if isinstance(first, LinesBlock):
    statistics["mean_distance"] = artificial.statistics(first.lines())["mean_distance"]
  check_statistics(statistics, vocabulary_source(source.config))
  most = max(int(counts[f"train_{length}"][0]) for length in settings.lengths)
  fields = symbol_fields(source.config)
  return {
    "name": source.config.corpus.name,
    "pairing": settings.pairing,
    "lengths": list(settings.lengths),
    "draws": settings.draws,
    **{name: value for name, value in fields.items() if value is not None},
    **({"order": ORDER} if most > LARGE * settings.draws else {}),
    "statistics": statistics,
  }


def symbol_fields(config: ConfigDict) -> dict[str, object]:
  """Returns the fields of a corpus of sequences that its description has, too; all None for other corpora."""
  corpus = config.corpus
  case = None if corpus.symbols is None else corpus.case
  return {"symbols": corpus.symbols, "k": corpus.k, "case": case}


def _check_instances(counts: Mapping[str, np.ndarray]) -> None:
  """Raises UserError if a part has no instance, as with the pairing `order` and documents of a single token."""
  for name, value in counts.items():
    if name.startswith(PARTS) and value[0] == 0:
      part, _, length = name.partition("_")
      raise UserError(
        f"the corpus has no instance of {part} at {length} tokens, because a document of one token cannot be cut into"
        " two segments; give longer documents, or set --config.objective.kind=mlm"
      )


def _statistics(counts: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict:
  """Returns the statistics of a corpus, ready for JSON; `entropy` is the entropy of its token frequencies, in nats."""
  tokens = counts["tokens"]
  shares = tokens[tokens > 0] / tokens.sum()
  parts: dict[str, object] = {}
  for name, value in counts.items():
    if name.startswith(PARTS):
      parts[name] = {"instances": int(value[0]), "tokens": int(value[1])}
    elif name.startswith("long_"):
      parts[name] = int(value)
  return {
    "documents": int(counts["documents"]),
    "sentences": int(counts["sentences"]),
    "tokens": int(tokens.sum()),
    "types": len(shares),
    "entropy": float(-(shares * np.log(shares)).sum()),
    "unknown": float(tokens[vocabulary.unk_id] / tokens.sum()),
    "parts": parts,
    **({"repeated": float(counts["repeated"] / tokens.sum())} if "repeated" in counts else {}),
    **({"copies": counts["copies"].tolist()} if "copies" in counts else {}),
  }
