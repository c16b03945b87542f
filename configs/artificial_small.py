"""Compares pre-training without meaning with none, on one task: Chiang and Lee (2022), for a machine with two cores.

  python -m discipline_jax.main --config=configs/artificial_small.py --config.data_dir=DATA
  python -m discipline_jax.main --config=configs/artificial_small.py:dna_splice --config.data_dir=DATA

Pre-trains two BERTs of 4 layers x 128: one on nesting brackets, one on symbols that are all equally likely and in no
order. Both, and the same network from scratch, are then fine-tuned on a task whose files are below DATA (by default on
a fifth of the training samples of protein stability). The task must have at most 128 tokens, because later positions
are not pre-trained here. Expected: a table of three rows (RESULTS.md has one). The networks of the study are 8 x 512
after 100,000 updates: `pretrain_nesting`, `pretrain_uniform`.
"""

from discipline_jax import defaults


def get_config(task: str = "protein_stability"):
  return defaults.study(
    {
      "pretrain_nesting": _pretrain("nesting"),
      "pretrain_uniform": _pretrain("uniform"),
      "scratch": _finetune(task, "pretrain_nesting@0", "scratch"),  # takes the sizes of that step
      "uniform": _finetune(task, "pretrain_uniform", "pretrained"),
      "nesting": _finetune(task, "pretrain_nesting", "pretrained"),
    },
    labels={name: {"corpus": name} for name in ("uniform", "nesting")},
  )


def _pretrain(name):
  config = defaults.pretrain()
  config.corpus.update(name=name, lines=60_000, length=(128,), validation=0.02)
  config.objective.kind = "mlm"
  config.model.config.update(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=512,
  )
  config.train.update(
    batch_size=32, steps=2500, phases=(1.0,), learning_rate=1e-3, warmup_steps=250
  )
  config.eval.update(every_steps=500, batch_size=64, max_examples=512)
  config.checkpoint.update(every_steps=500, keep_steps=(0,))
  return config


def _finetune(task, checkpoint, init):
  config = defaults.finetune()
  config.task.update(name=task, train_fraction=0.2 if task == "protein_stability" else 1.0)
  config.model.update(checkpoint=checkpoint, init=init)
  config.token_map.kind = "random"
  config.replicas = 2
  config.train.update(epochs=3, learning_rate=3e-4, grad_accumulation=1, warmup_steps=50)
  config.eval.every_steps = 167
  config.checkpoint.every_steps = 167
  return config
