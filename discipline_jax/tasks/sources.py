"""Lists where the tasks' files are published, and downloads the missing ones to their places below `data_dir`.

A file is downloaded only if its checksum is known: from git, from TensorFlow Datasets or from MusPy. The protein files
have no published checksum, so their reader's error says where to get them. A downloaded archive is kept, because
another task may need other files of it.
"""

import collections
import os
import pathlib
from collections.abc import Iterable

from discipline_jax.files.downloads import Source, explained, fetch, unpack
from discipline_jax.files.whole_files import whole_file

_DNA = "https://raw.githubusercontent.com/Doulrs/Hilbert-CNN/master/data"
_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_MRPC = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_MAESTRO = "https://storage.googleapis.com/magentadata/datasets/maestro/v1.0.0"

_DNA_IDS = {
  "H3.txt": "5d92655be8c9c31712f1636a931677824497bbbc",
  "H4.txt": "bf15dee3c20ec1a2910f404b31ad56673c852226",
  "H3K9ac.txt": "7ab727805bbe76db772252af5429677752e3572e",
  "splice.txt": "66ee68cb4acc9e55318d64283a9b6ca7df4b6a5f",
}
_GLUE_SHA256 = {
  "CoLA": ("CoLA.zip", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
  "SST-2": ("SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
  "QQP": ("QQP-clean.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
  "STS-B": ("STS-B.zip", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
  "MNLI": ("MNLI.zip", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
  "QNLI": ("QNLIv2.zip", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
  "RTE": ("RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
}

# Path below `data_dir` -> the source of this file.
FILES = {
  **{f"dna/{name}": Source(f"{_DNA}/{name}", f"git:{blob}") for name, blob in _DNA_IDS.items()},
  "secondary_structure/splits.zip": Source(
    "https://raw.githubusercontent.com/J-SNACKKB/FLIP/main/splits/secondary_structure/splits.zip",
    "git:858054a3ee8a214bbbdccca03e1165f648ee6eb1",
  ),
  "glue_data/MRPC/msr_paraphrase_train.txt": Source(
    f"{_MRPC}/msr_paraphrase_train.txt",
    "sha256:60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
  ),
  "glue_data/MRPC/mrpc_dev_ids.tsv": Source(
    f"{_GLUE}/mrpc_dev_ids.tsv",
    "sha256:971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
  ),
}

# Folder below `data_dir` -> the source of an archive; the archive has the folder's last name as its root.
ARCHIVES = {
  **{
    f"glue_data/{folder}": Source(f"{_GLUE}/{name}", f"sha256:{digest}")
    for folder, (name, digest) in _GLUE_SHA256.items()
  },
  "music/maestro-v1.0.0": Source(
    f"{_MAESTRO}/maestro-v1.0.0-midi.zip",
    "sha256:f620f9e1eceaab8beea10617599add2e9c83234199b550382a2f603098ae7135",
  ),
}

# Path below `data_dir` -> the file's path in its archive, if they differ.
_INSIDE = {"music/maestro-v1.0.0.csv": "music/maestro-v1.0.0/maestro-v1.0.0.csv"}


def ensure(files: Iterable[pathlib.Path], data_dir: pathlib.Path) -> None:
  """Downloads the missing files that this module knows a source for.

  Nothing is downloaded if the environment variable HF_HUB_OFFLINE is set, as for checkpoints.

  Args:
    files: paths of files. Existing files, files outside `data_dir` and files without a source are skipped.
    data_dir: the folder of all data.

  Raises:
    UserError: a download failed. The message has the URL, the reason, and the place to put the file by hand.
    OSError: the disk is full.
  """
  if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
    return
  unpacked: dict[str, dict[str, pathlib.Path]] = collections.defaultdict(dict)
  for path in files:
    if os.path.exists(path) or not path.is_relative_to(data_dir):
      continue
    place = path.relative_to(data_dir).as_posix()
    inside = pathlib.PurePosixPath(_INSIDE.get(place, place))
    if place in FILES:
      fetch(FILES[place], path)
    elif place in ("glue_data/MRPC/train.tsv", "glue_data/MRPC/dev.tsv"):
      _split_mrpc(path)
    else:
      for folder in ARCHIVES:
        if inside.is_relative_to(folder) and ".." not in inside.parts:
          root = pathlib.PurePosixPath(folder).parent
          unpacked[folder][inside.relative_to(root).as_posix()] = path
  for folder, members in unpacked.items():
    source = ARCHIVES[folder]
    archive = (data_dir / folder).with_name(source.url.rpartition("/")[2])
    fetch(source, archive)
    unpack(archive, members)


def _split_mrpc(path: pathlib.Path) -> None:
  """Writes a file of MRPC as GLUE does: `dev.tsv` has the pairs listed in mrpc_dev_ids.tsv, `train.tsv` the others."""
  names = ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv")
  for name in names:
    fetch(FILES[f"glue_data/MRPC/{name}"], path.with_name(name))
  with explained(
    f"cannot make {path} from {' and '.join(names)}", "delete these two files and start again"
  ):
    pairs, ids = (path.with_name(name).read_bytes() for name in names)
    header, *lines = pairs.splitlines(keepends=True)
    held_out = {tuple(line.split()) for line in ids.splitlines()}
    with whole_file(path) as file:
      file.write(header)
      file.writelines(
        line
        for line in lines
        if (tuple(line.split(b"\t")[1:3]) in held_out) == (path.name == "dev.tsv")
      )
