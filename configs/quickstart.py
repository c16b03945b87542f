"""Shows everything in small, with nothing to download: pre-trains on brackets, then fine-tunes on a DNA-like task.

  python -m discipline_jax.main --config=configs/quickstart.py

A BERT of 2 layers x 64 is pre-trained on a generated corpus of nesting brackets, which has no meaning. Three networks
of this size are then fine-tuned on generated sequences, in which two of three classes carry a splice-like motif: one
starts from before the pre-training, one from after it, and one from scratch, with three seeds each. They have so few
updates and training samples that it matters where they start. Expected: a table of three rows and a page, in at most
three minutes on two CPU cores; on average over the seeds the network from after the pre-training is best.
"""

from discipline_jax import defaults


def get_config():
  return defaults.study(
    {
      "pretrain": _pretrain(),
      "scratch": _finetune("pretrain@0", "scratch"),  # takes the sizes of that step
      "step_0": _finetune("pretrain@0", "pretrained"),
      "step_last": _finetune("pretrain", "pretrained"),
    }
  )


def _pretrain():
  config = defaults.pretrain()
  config.seed = 1  # with seed 0, step 0 would have the same weights as `scratch`
  # Most rows are short: a small network learns sooner to read neighbours.
  config.corpus.update(name="nesting", lines=20_000, length=(32, 128), validation=0.02)
  config.objective.kind = "mlm"
  config.model.config.update(
    vocab_size=128,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=128,
  )
  config.train.update(
    batch_size=64,
    steps=800,
    phases=(0.8, 0.2),
    learning_rate=2e-3,
    warmup_steps=50,
    log_every_steps=20,
  )
  config.eval.update(every_steps=200, batch_size=64, max_examples=256)
  config.checkpoint.update(every_steps=200, keep_steps=(0,))
  return config


def _finetune(checkpoint, init):
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.token_map.kind = "random"
  config.task.train_fraction = 0.3
  config.model.update(checkpoint=checkpoint, init=init)
  config.replicas = 3
  config.train.update(epochs=5, learning_rate=1e-3, grad_accumulation=1, warmup_steps=20)
  config.eval.every_steps = 20
  config.checkpoint.every_steps = 100
  return config
