"""The gradients of mini-batches are those that PyTorch computes, all of them held in memory."""

import jax
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models, modes
from discipline_jax.analysis import gradients
from discipline_jax.measures import gradients as measures
from discipline_jax.measures.networks import batches, plan_networks, read_networks
from discipline_jax.training.sharding import mesh_of

BATCHES, SIZE = 10, 4


def test_products_of_ten_mini_batches_of_a_real_network(shared, tmp_path, monkeypatch):
  torch = pytest.importorskip("torch")
  config = modes.analyze()
  config.data_dir = str(shared / "data")
  config.task.name = "dna_splice"
  config.token_map.kind = "random"
  config.model.checkpoint = str(shared / "models" / "minilm-l6-uncased")
  config.analysis.models = (config.model.checkpoint,)
  config.analysis.batches = BATCHES
  config.train.batch_size = SIZE
  kept = []
  compare = gradients.compare_pairs
  monkeypatch.setattr(gradients, "compare_pairs", lambda own: kept.append(own) or compare(own))
  planned = plan_networks(config, download=False)
  networks = read_networks(config, mesh_of(config), planned)
  measures.measure(config, networks, tmp_path)
  expected = _products(torch, networks[0], config.seed, tmp_path / "model")
  np.testing.assert_allclose(kept[0], expected, atol=1e-5 * np.abs(expected).max())
  ours, theirs = (compare(one) for one in (kept[0], expected))
  np.testing.assert_allclose(ours["cosine"], theirs["cosine"], atol=1e-5)


def _products(torch, network, seed, folder):
  """Returns the dot products of all pairs of PyTorch's gradients, with the weights of the network."""
  transformers = pytest.importorskip("transformers")
  plan = network.plan
  head = plan.task.answer.head
  graph, state = nnx.split(nnx.eval_shape(lambda: head.build(network.config, rngs=nnx.Rngs(0))))
  nnx.replace_by_pure_dict(state, jax.tree.map(jax.numpy.asarray, network.params))
  models.save(nnx.merge(graph, state), folder, labels=plan.task.answer.labels, tokenizer={})
  model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
  train = np.random.default_rng(seed).permutation(plan.splits[0]["train"])[: BATCHES * SIZE]
  vectors = []
  for batch in batches(plan, train, SIZE):
    inputs = network.inputs(batch)
    labels = plan.features.targets["labels"][batch.samples]
    model.zero_grad()
    model(
      input_ids=torch.tensor(np.asarray(inputs["ids"]), dtype=torch.long),
      attention_mask=torch.tensor(batch.mask),
      labels=torch.tensor(labels, dtype=torch.long),
    ).loss.backward()
    vectors.append(
      np.concatenate([one.grad.double().numpy().ravel() for one in model.parameters()])
    )
  return np.stack(vectors) @ np.stack(vectors).T
