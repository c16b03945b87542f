"""Fine-tunes BERT to tell exon and intron apart at each base of the yeast genes that have introns.

  python -m discipline_jax.main --config=configs/dna_introns.py
  python -m discipline_jax.main --config=configs/dna_introns.py:bert_tiny --config.model.init=scratch \\
    --workdir=runs/introns_scratch

Needs dna/GCF_000146045.2_R64_genes_with_introns.fsa and dna/GCF_000146045.2_R64_introns.txt below --config.data_dir.
Genes are read in overlapping windows and split by chromosome. The metric is F1 of intron bases; result.json has F1 of
whole introns, too, of which both ends must be right. No published value is known for this split. Measured with
BERT of 2 x 128 and 120 updates: 42.2 pre-trained, 46.3 from scratch, 53.1 a linear model (RESULTS.md).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_introns"
  config.task.long = "windows"
  config.token_map.kind = "random"
  config.train.learning_rate = 1e-4
  config.eval.every_steps = 50
  config.replicas = 3
  return defaults.use_model(config, model)
