"""Counts the transposes of activations in an update of BERT-base that is compiled for an H100, which need not be here.

  pip install -e ".[gpu_compiler]"
  python benchmarks/transposes.py --vocabulary=CHECKPOINT --layers=2 [--fused]

`--vocabulary` is a model in Hugging Face's format, whose vocabulary is used. Prints each shape that a transpose
makes, with the order of its axes in memory, and how often; the dtypes of the operands of products; and the peak of
temporary memory. With `--fused` attention has no dropout, so that cuDNN's kernel computes it: the program calls it,
but the kernel is not built here, where cuDNN is not.
"""

import argparse
import collections
import re
from unittest import mock

from discipline_jax.configs import pretrain_bert_base
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from ml_collections import ConfigDict

from discipline_jax.inspect import program_of
from discipline_jax.programs import chips

_ROWS, _LENGTH = 32, 128


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--vocabulary", required=True)
  parser.add_argument("--layers", type=int, default=12)
  parser.add_argument("--gpus", type=int, default=1)
  parser.add_argument("--fused", action="store_true")
  given = parser.parse_args()
  _, devices = chips.devices(f"h100:{given.gpus}")
  # JAX asks for cuDNN on this machine before it writes a call of the kernel.
  with (
    mock.patch.object(cudnn, "check_cudnn_version", return_value=91000),
    mock.patch.object(cudnn, "check_compute_capability", return_value=True),
    mock.patch.object(cudnn, "is_cuda_compute_capability_equal", return_value=False),
  ):
    compiled = program_of(_config(given), devices).lower()[_LENGTH].compile()
  text = compiled.as_text() or ""
  found = collections.Counter(re.findall(r"= (\w+\[[\d,]+\]\{[\d,]+)[^ ]* transpose\(", text))
  for shape, count in found.most_common():
    print(f"{count:3} x {shape}}}")
  print(f"{found.total()} transposes")
  print(f"{text.count('__cudnn$fmha')} calls of cuDNN's attention")
  for operands, count in _products(text).most_common():
    print(f"{count:3} products of {' and '.join(operands)}")
  print(f"{compiled.memory_analysis().temp_size_in_bytes / 1e6:.1f} MB of temporary memory")


def _config(given: argparse.Namespace) -> ConfigDict:
  config = pretrain_bert_base.get_config()
  config.mode = "inspect"
  config.corpus.update(vocabulary=given.vocabulary, length=(_LENGTH,))
  config.model.config.num_hidden_layers = given.layers
  config.model.dtype = "bfloat16"
  if given.fused:
    config.model.attention_dropout = 0.0
  config.train.update(batch_size=_ROWS * given.gpus, grad_accumulation=1, phases=(1.0,))
  return config


def _products(text: str) -> collections.Counter:
  """Returns how often the products of a program have operands of each pair of dtypes."""
  found: collections.Counter = collections.Counter()
  for computation in text.split("\n\n"):
    dtypes = dict(re.findall(r"(%[\w.\-]+) = (\w+)\[", computation))
    for operands in re.findall(r" dot\((%[\w.\-]+), (%[\w.\-]+)\)", computation):
      found[tuple(dtypes[name] for name in operands)] += 1
  return found


if __name__ == "__main__":
  main()
