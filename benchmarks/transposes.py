"""Counts the transposes of activations in an update of BERT-base that is compiled for an H100, which need not be here.

  pip install -e ".[gpu_compiler]"
  python benchmarks/transposes.py --vocabulary=CHECKPOINT --layers=2

`--vocabulary` is a model in Hugging Face's format, whose vocabulary is used. Prints each shape that a transpose
makes, with the order of its axes in memory, and how often; then the peak of memory. With `--fused`, attention has no
dropout, and is cuDNN's kernel, which is not compiled: its call stands for it.
"""

import argparse
import collections
import re

from discipline_jax.configs import pretrain_bert_base

from discipline_jax.inspect import program_of
from discipline_jax.programs import chips

_ROWS, _LENGTH = 32, 128


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--vocabulary", required=True)
  parser.add_argument("--layers", type=int, default=12)
  parser.add_argument("--gpus", type=int, default=1)
  given = parser.parse_args()
  config = pretrain_bert_base.get_config()
  config.mode = "inspect"
  config.corpus.update(vocabulary=given.vocabulary, length=(_LENGTH,))
  config.model.config.num_hidden_layers = given.layers
  config.model.dtype = "bfloat16"
  config.train.update(batch_size=_ROWS * given.gpus, grad_accumulation=1, phases=(1.0,))
  _, devices = chips.devices(f"h100:{given.gpus}")
  text = program_of(config, devices).lower()[_LENGTH].compile().as_text() or ""
  found = collections.Counter(re.findall(r"= (\w+\[[\d,]+\]\{[\d,]+)[^ ]* transpose\(", text))
  for shape, count in found.most_common():
    print(f"{count:3} x {shape}}}")
  print(f"{found.total()} transposes")


if __name__ == "__main__":
  main()
