"""Tests the families other than BERT on a task, from a checkpoint to an exported model."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from discipline_jax.main import main
from tests.testdata.small_files import write_data
from tests.whole_runs import one_device


@pytest.mark.parametrize("init", ["pretrained", "re_emb"])
@pytest.mark.parametrize(
  ("family", "special"),
  [
    ("roberta_gelu", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]),
    ("albert_groups", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
    ("electra_narrow", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
    ("distilbert_gelu", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
  ],
)
def test_other_families_are_fine_tuned(family, special, init, testdata, tmp_path):
  write_data(tmp_path / "data")
  checkpoint = tmp_path / family
  shutil.copytree(testdata / "families" / family, checkpoint)
  size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
  tokens = [*special, *"ACGTNDSR"]
  tokens += [f"other{i}" for i in range(size - len(tokens))]
  (checkpoint / "vocab.txt").write_text("\n".join(tokens) + "\n")
  arguments = [
    "--config=dna_splice",
    f"--config.data_dir={tmp_path / 'data'}",
    f"--config.model.checkpoint={checkpoint}",
    f"--config.model.init={init}",
    "--config.task.max_length=20",
    "--config.train.steps=2",
    "--config.train.batch_size=8",
    "--config.train.grad_accumulation=1",
    "--config.replicas=1",
    f"--workdir={tmp_path / 'run'}",
  ]
  exporting = ["--config.mode=export", f"--config.export.output={tmp_path / 'out'}"]
  with one_device():
    assert main(["main", *arguments]) == 0
    assert main(["main", *arguments, *exporting]) == 0
  fields = [
    json.loads((folder / "config.json").read_text()) for folder in (checkpoint, tmp_path / "out")
  ]
  assert fields[0]["model_type"] == fields[1]["model_type"]
  before, after = (
    load_file(folder / "model.safetensors") for folder in (checkpoint, tmp_path / "out")
  )
  assert after.keys() <= before.keys()
  name = f"{fields[0]['model_type']}.embeddings.position_embeddings.weight"
  # Two steps move what a token reads, and nothing else.
  moved = np.abs(before[name] - after[name]).max(1) > 0
  first = 2 if family == "roberta_gelu" else 0
  np.testing.assert_array_equal(np.flatnonzero(moved), np.arange(first, first + 20))
