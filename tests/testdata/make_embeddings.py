"""Makes embeddings.npz with PyTorch and transformers, which the tests themselves do not need.

  pip install -e ".[torch]" && PYTHONPATH=. python tests/testdata/make_embeddings.py [DIR of minilm-l6-uncased/]

For the checkpoint of `small_files.write_weights`: the mean of each layer's hidden states over the tokens of each of
ROWS, `small.mean` [layers + 1, rows, hidden], the pooled output, `small.pooled`, and the last hidden states of all
symbols, row after row, `small.tokens`. For MiniLM, if its folder is given, `minilm.mean` [rows, hidden] of the last
layer, and the same of SENTENCES as its tokenizer reads them, `minilm.text`. Each row is computed alone, so nothing is
padded.
"""

import pathlib
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoTokenizer, BertModel

from tests.testdata.small_files import write_weights

HERE = pathlib.Path(__file__).parent
ROWS = ("MKVLAAGIVG", "A", "DEADDEER", "W" * 30, "ACDEFGHIKLMNPQRSTVWY" * 2)
SENTENCES = ("The film was great, and unpretentious.", "Nobody watched it twice!")


def outputs_of(directory: pathlib.Path, name: str) -> dict[str, np.ndarray]:
  tokenizer = AutoTokenizer.from_pretrained(directory)
  model = BertModel.from_pretrained(directory).eval()
  means, pooled, tokens = [], [], []
  for row in ROWS:
    inputs = tokenizer(" ".join(row), return_tensors="pt")
    assert inputs["input_ids"].shape[1] == len(row) + 2
    with torch.no_grad():
      output = model(**inputs, output_hidden_states=True)
    means.append(torch.stack([states[0].mean(0) for states in output.hidden_states]).numpy())
    pooled.append(output.pooler_output[0].numpy())
    tokens.append(output.last_hidden_state[0, 1:-1].numpy())
  return {
    f"{name}.mean": np.stack(means, 1),
    f"{name}.pooled": np.stack(pooled),
    f"{name}.tokens": np.concatenate(tokens),
  }


def means_of_texts(directory: pathlib.Path) -> np.ndarray:
  tokenizer = AutoTokenizer.from_pretrained(directory)
  model = BertModel.from_pretrained(directory).eval()
  with torch.no_grad():
    states = [model(**tokenizer(one, return_tensors="pt")).last_hidden_state for one in SENTENCES]
  return np.stack([one[0].mean(0).numpy() for one in states])


if __name__ == "__main__":
  torch.set_num_threads(1)
  with tempfile.TemporaryDirectory() as folder:
    arrays = outputs_of(write_weights(pathlib.Path(folder) / "small"), "small")
  for folder in sys.argv[1:]:
    minilm = pathlib.Path(folder) / "minilm-l6-uncased"
    arrays["minilm.mean"] = outputs_of(minilm, "minilm")["minilm.mean"][-1]
    arrays["minilm.text"] = means_of_texts(minilm)
  rows, sentences = np.array(ROWS), np.array(SENTENCES)
  np.savez_compressed(HERE / "embeddings.npz", rows=rows, sentences=sentences, **arrays)
