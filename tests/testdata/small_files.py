"""Writes small generated files in the published formats of the tasks, and a model's directory to read them with."""

import csv
import json
import pathlib
import shutil
import string
import zipfile

import numpy as np
import symusic
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_WORDS = [
  *("the", "a", "cat", "dog", "man", "sat", "ran", "saw", "on", "under", "mat"),
  *("tree", "is", "was", "not", "very", "old", "new", "red", "fast"),
]
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_COMPOSERS = ("Frédéric Chopin", "Franz Liszt", "Joseph Haydn")


def write_data(folder: pathlib.Path, samples: int = 40) -> None:
  """Writes the files of all tasks below `folder`, with `samples` samples for each part."""
  rng = np.random.default_rng(0)

  def letters(alphabet: str, length: int) -> str:
    return "".join(rng.choice(list(alphabet), length))

  def sentence() -> str:
    return " ".join(rng.choice(_WORDS, rng.integers(3, 12)))

  def write(name: str, lines: list[str], start: str = "") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(start + "".join(line + "\n" for line in lines), encoding="utf-8")

  for name in ("H3", "H4", "H3K9ac"):
    write(f"dna/{name}.txt", [f">s{i}\n{letters('ACGT', 60)}\n{i % 2}" for i in range(samples)])
  classes = ("EI", "IE", "N")
  write(
    "dna/splice.txt",
    [f"{classes[i % 3]:>2},  GENE-{i},   {letters('ACGTN', 60)}" for i in range(samples)],
  )
  for part in ("train", "dev", "test"):
    for kind in ("stability", "fluorescence"):
      write(
        f"protein/{kind}_{part}.fa",
        [
          f">p{i} {rng.normal():.4f}\n{letters('ACDEFGHIKLMNPQRSTVWY*', 45)}"
          for i in range(samples)
        ],
      )
    places = ("Nucleus-S", "Cytoplasm-U", "Lysosome/Vacuole-M")
    write(
      f"protein/localization_{part}.fa",
      [
        f">Q{i} {places[i % 3]} {'test' * (part == 'test')}\n{letters('ACDEFGHIKLMNPQRSTVWY', 40)}\n{letters('MKV', 9)}"
        for i in range(samples)
      ],
    )
  for part in ("train", "dev", "dev_matched", "dev_mismatched"):
    rows = [(i, sentence(), sentence()) for i in range(samples)]
    yes = ("not_entailment", "entailment")
    files = {
      "CoLA": ("", [f"gj04\t{i % 2}\t{'*' * (i % 2)}\t{a}" for i, a, _ in rows]),
      "SST-2": ("sentence\tlabel\n", [f"{a}\t{i % 2}" for i, a, _ in rows]),
      "MRPC": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n",
        [f"{i % 2}\t{i}\t{i}\t{a}\t{b}" for i, a, b in rows],
      ),
      "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
        [f"{i}\t{i}\t{i}\t{a}\t{b}\t{i % 2}" for i, a, b in rows],
      ),
      "STS-B": (
        "index\tgenre\tsentence1\tsentence2\tscore\n",
        [f"{i}\tnews\t{a}\t{b}\t{i % 6}.000" for i, a, b in rows],
      ),
      "MNLI": (
        "index\tsentence1\tsentence2\tgold_label\n",
        [f"{i}\t{a}\t{b}\t{('neutral', *yes, 'contradiction')[i % 2 * 2]}" for i, a, b in rows],
      ),
      "QNLI": (
        "index\tquestion\tsentence\tlabel\n",
        [f"{i}\t{a}\t{b}\t{yes[i % 2]}" for i, a, b in rows],
      ),
      "RTE": (
        "index\tsentence1\tsentence2\tlabel\n",
        [f"{i}\t{a}\t{b}\t{yes[i % 2]}" for i, a, b in rows],
      ),
    }
    for name, (header, lines) in files.items():
      parts = ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev")
      if part in parts:
        write(f"glue_data/{name}/{part}.tsv", lines, header)
  write_structures(folder, samples)
  write_introns(folder, samples)
  pieces = []
  for i in range(samples // 2):
    part = ("train", "train", "validation", "test")[i % 4]
    name = f"2004/piece_{i}.midi"
    path = folder / "music" / "maestro-v1.0.0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_midi(path, rng.integers(21, 109, 300))
    pieces.append(
      {
        "canonical_composer": _COMPOSERS[i % 3],
        "canonical_title": f"Op. {i}, a",
        "split": part,
        "midi_filename": name,
      }
    )
  with (folder / "music" / "maestro-v1.0.0.csv").open("w", encoding="utf-8", newline="") as file:
    writer = csv.DictWriter(file, pieces[0])
    writer.writeheader()
    writer.writerows(pieces)
  write(
    "mine.csv",
    [f"{letters('XYZ+', 12)},{'yes' if i % 2 else 'no'}" for i in range(samples)],
    "sequence,label\n",
  )


def write_structures(folder: pathlib.Path, samples: int = 40) -> None:
  """Writes the files of secondary structure; a few proteins of FLIP's are also in CB513, which has two rows of each."""
  rng = np.random.default_rng(1)
  folder = folder / "secondary_structure"
  folder.mkdir(parents=True, exist_ok=True)
  parts = ("SET=train VALIDATION=False", "SET=train VALIDATION=True", "SET=test VALIDATION=False")
  texts = {"sequences": "", "sampled": "", "mask": ""}
  rows = ["input, dssp3, dssp8, disorder, cb513_mask"]
  for i in range(3 * samples):
    length = int(rng.integers(20, 40))
    sequence, eight, mask, chosen = (
      "".join(rng.choice(list(letters), length))
      for letters in ("ACDEFGHIKLMNPQRSTVWYX", "GHIBETSC", "0111", "0011")
    )
    three = eight.translate(str.maketrans("GHIBETSC", "HHHEECCC"))
    texts["sequences"] += f">p{i}\n{sequence}\n"
    texts["sampled"] += f">p{i} {parts[i % 3]}\n{three}\n"
    texts["mask"] += f">p{i}\n{mask}\n"
    if i % 10 < 3:
      fields = [" ".join(one) for one in (sequence, three, eight)]
      masks = [" ".join(f"{value}.0" for value in one) for one in (mask, chosen)]
      rows += 2 * [",".join([*fields, *masks])]
  with zipfile.ZipFile(folder / "splits.zip", "w") as archive:
    for name, text in texts.items():
      archive.writestr(f"splits/{name}.fasta", text)
  (folder / "CB513_HHblits.csv").write_text("\n".join(rows) + "\n")


def write_introns(folder: pathlib.Path, samples: int = 40) -> None:
  """Writes yeast's genes, of which the last third of the bases is an intron, on chromosomes of all parts."""
  rng = np.random.default_rng(2)
  genes, introns = "", ""
  for i in range(samples):
    sequence = "".join(rng.choice(list("ACGT"), 60))
    genes += (
      f">Y{i} GeneID:{i} Chromosome:NC_0011{33 + i % 16}.9 Start:1 Stop:60 Strand:+\n{sequence}\n"
    )
    introns += f"{i}\tY{i}\t41\t60\n"
  folder = folder / "dna"
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "GCF_000146045.2_R64_genes_with_introns.fsa").write_text(genes)
  (folder / "GCF_000146045.2_R64_introns.txt").write_text(introns)


def _write_midi(path: pathlib.Path, pitches: np.ndarray) -> None:
  score = symusic.Score(480)
  track = symusic.Track(name="piano", program=0, is_drum=False)
  for i, pitch in enumerate(pitches):
    track.notes.append(symusic.Note(time=120 * i, duration=100, pitch=int(pitch), velocity=64))
  score.tracks.append(track)
  score.dump_midi(path)


def write_model(folder: pathlib.Path) -> None:
  """Writes config.json and tokenizer.json of a BERT of 1 layer x 32 that knows letters and a few words; no weights."""
  folder.mkdir(parents=True, exist_ok=True)
  tokens = [*_SPECIAL, *string.ascii_lowercase, *string.digits, *"+-*.,'", *_WORDS[2:]]
  tokens += [f"w{i}" for i in range(300 - len(tokens))]
  tokenizer = Tokenizer(
    models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]")
  )
  tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
  tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
  )
  tokenizer.save(str(folder / "tokenizer.json"))
  config = {
    "model_type": "bert",
    "vocab_size": len(tokens),
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
  }
  (folder / "config.json").write_text(json.dumps(config))


def write_weights(folder: pathlib.Path) -> pathlib.Path:
  """Writes a BERT of 3 x 36 with random weights that knows letters; returns its folder."""
  write_model(folder)
  shutil.copytree(pathlib.Path(__file__).parent / "bert_small", folder, dirs_exist_ok=True)
  return folder
