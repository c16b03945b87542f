"""Whole reports: every file, links, text that is dangerous in a page, and the command."""

import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree

import pandas as pd
import pytest
from matplotlib import image

from discipline_jax import report
from discipline_jax.comparison.verdict import show
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.report.__main__ import main
from discipline_jax.report.collect import collect_tree
from discipline_jax.report.curves import read_all
from discipline_jax.report.tree import read
from tests.report import run_folders

FILES = {
  *("index.html", "runs.csv", "comparisons.csv", "over_tasks.csv", "table.md", "table.tex"),
  *(f"{name}.{form}" for name in ("bars", "curves", "steps") for form in ("png", "svg")),
}
HOSTILE = "<img src=x onerror=alert(1)> & $x_{1 | `*"


class Page(html.parser.HTMLParser):
  """Collects the tags of a page, and checks that they are closed in order."""

  def __init__(self, text):
    super().__init__()
    self.tags, self._open = [], []
    self.feed(text)
    assert self._open == []

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))
    if tag not in ("meta", "link", "br", "input"):
      self._open.append(tag)

  def handle_startendtag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_endtag(self, tag):
    assert self._open.pop() == tag

  def all(self, tag, name):
    return [attrs[name] for one, attrs in self.tags if one == tag and name in attrs]


@pytest.fixture
def small(tmp_path):
  """Returns two runs."""
  run_folders.finetuned(tmp_path / "small" / "bert")
  run_folders.finetuned(tmp_path / "small" / "scratch", init="scratch")
  return tmp_path / "small"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
  """Returns three kinds of networks on two tasks, a pre-training, and a cell with a dangerous name that failed."""
  folder = tmp_path_factory.mktemp("studies") / "study"
  run_folders.pretrained(folder / "before")
  labels = {}
  for task in ("dna_splice", "dna_h3"):
    for name, right, fields in (
      ("scratch", (0.6, 0.62, 0.66), {"init": "scratch"}),
      ("bert", (0.9, 0.84, 0.72), {}),
      ("first", (0.6, 0.7, 0.62), {"model": "before@0"}),
      ("last", (0.8, 0.7, 0.9), {"model": "before"}),
    ):
      run_folders.finetuned(folder / f"{task} {name}", task=task, right=right, **fields)
  name = HOSTILE.replace("/", "")
  run_folders.finetuned(folder / name, task="custom", right=(0.9, 0.8))
  labels[name] = {"model": HOSTILE}
  labels["gone"] = {}
  run_folders.study(folder, labels, gone=HOSTILE)
  assert report.write(folder).page == folder / "report" / "index.html"
  return folder


def test_all_files_are_there(study):
  assert {path.name for path in (study / "report").iterdir()} == FILES
  for name in ("bars", "curves", "steps"):
    assert image.imread(study / "report" / f"{name}.png").std() > 0.05  # something is drawn
    xml.etree.ElementTree.parse(study / "report" / f"{name}.svg")
  table = pd.read_csv(study / "report" / "runs.csv")
  assert len(table) == 9 * 2 + 1
  row = table[(table["run"] == "dna_splice bert") & (table["part"] == "test")].iloc[0]
  assert row["mean"] == pytest.approx(82)
  assert json.loads(row["runs"]) == pytest.approx([90, 84, 72])


def test_the_page_is_whole_and_alone(study):
  text = (study / "report" / "index.html").read_text()
  page = Page(text)
  identifiers = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
  assert len(identifiers) == len(set(identifiers))
  for address in [*page.all("a", "href"), *page.all("use", "xlink:href")]:
    if address.startswith("#"):
      assert address[1:] in identifiers
    else:
      assert (study / "report" / urllib.parse.unquote(address)).exists(), address
  assert not page.all("script", "src")
  assert not page.all("img", "src")
  assert page.all("link", "href") == ["data:,"]
  assert "@import" not in text
  assert not re.search(r"url\((?!#)", text)
  assert page.all("svg", "viewbox")  # the parser makes names small


def test_every_number_has_its_run(study):
  page = Page((study / "report" / "index.html").read_text())
  links = {urllib.parse.unquote(address) for address in page.all("a", "href")}
  for path in study.glob("*/result.json"):
    assert f"../{path.parent.name}/result.json" in links
    assert f"../{path.parent.name}/config.json" in links


def test_curves_have_switches(study):
  page = Page((study / "report" / "index.html").read_text())
  curves = {one.split("-")[1] for one in page.all("g", "id") if one.startswith("curve-")}
  assert curves == set(page.all("input", "data-curve"))
  assert len(curves) == 6  # four variants of DNA, the other one, and the pre-training


def test_text_from_files_is_escaped(study):
  files = {
    name: (study / "report" / name).read_text() for name in ("index.html", "table.md", "table.tex")
  }
  assert "<img" not in files["index.html"]
  assert "onerror" in files["index.html"]
  assert "\n" not in re.search(r".*onerror.*", files["table.md"])[0]
  row = next(line for line in files["table.md"].splitlines() if line.startswith(r"| \<img"))
  # As many unescaped bars as the header has.
  assert len(re.findall(r"(?<!\\)\|", row)) == 3
  assert r"\& \$x\_\{1" in files["table.tex"]


def test_the_tables(study):
  markdown = (study / "report" / "table.md").read_text()
  lines = markdown[markdown.index("## DNA, test") :].splitlines()
  assert lines[2] == "| model | H3, accuracy | splice, accuracy | average, of 2 |"
  assert (
    "| bert | **82.0 ± 9.2 (3)**, paper 83.6, -1.6 | **82.0 ± 9.2 (3)**, paper 96.4, -14.4 |"
    in markdown
  )
  latex = (study / "report" / "table.tex").read_text()
  assert r"bert & \textbf{82.0 $\pm$ 9.2 (3)} & \textbf{82.0 $\pm$ 9.2 (3)}" in latex
  assert r"\quad paper, difference & \textit{83.6, $-$1.6} & \textit{96.4, $-$14.4} &  \\" in latex
  assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 4


def test_the_same_runs_give_the_same_files(study, tmp_path):
  before = {path.name: path.read_bytes() for path in (study / "report").iterdir()}
  moved = tmp_path / study.name
  study.rename(moved)
  try:
    report.write(moved)
    after = {path.name: path.read_bytes() for path in (moved / "report").iterdir()}
  finally:
    moved.rename(study)
  assert {name for name in before if before[name] != after[name]} == set()


def test_the_script_is_short():
  script = pathlib.Path(report.__file__).parent / "templates" / "page.js"
  assert len(script.read_text().splitlines()) <= 100


def test_jax_is_not_imported(small):
  code = (
    "import pathlib, sys; from discipline_jax import report; report.write(pathlib.Path(sys.argv[1]));"
    " print(*sorted(sys.modules))"
  )
  result = subprocess.run(
    [sys.executable, "-c", code, small], capture_output=True, text=True, check=True
  )
  loaded = set(result.stdout.split())
  assert "discipline_jax.report.page" in loaded
  assert not loaded & {"jax", "flax", "transformers", "tensorboardX"}


def test_the_command(small, tmp_path, capsys):
  assert main(["report", str(small)]) == 0
  out = capsys.readouterr().out
  assert out.splitlines()[-1] == str(small / "report" / "index.html")
  assert "## DNA, test" in out
  (tmp_path / "empty").mkdir()
  for arguments in (
    [],
    ["--fast"],
    [str(small), str(small)],
    [str(tmp_path / "empty")],
    ["nowhere"],
  ):
    assert main(["report", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
  assert list((tmp_path / "empty").iterdir()) == []
  assert main(["report", "--help"]) == 0
  for path in (small / "report").iterdir():
    path.unlink()
  (small / "report").rmdir()
  (small / "report").write_text("mine")
  assert main(["report", str(small)]) == 2
  assert str(small / "report") in capsys.readouterr().err


def test_a_study_in_a_bucket(small, storage, capsys):
  """Its report is that of a local one, though only the files that it reads are copied."""
  run_folders.study(small, {"bert": {"table": "3"}, "missing": {}}, missing="no disk")
  for file in small.rglob("*.*"):
    storage.put("bucket", f"small/{file.relative_to(small)}", file.read_bytes())
  storage.put("bucket", "small/bert/checkpoints/7/data", b"many GB")
  storage.put("bucket", "small/broken/result.json", b"{")
  (small / "broken").mkdir()
  (small / "broken" / "result.json").write_text("{")
  assert main(["report", "gs://bucket/small"]) == 0
  assert capsys.readouterr().out.splitlines()[-1] == "gs://bucket/small/report/index.html"
  report.write(small)
  for file in (small / "report").iterdir():
    expected = file.read_bytes().replace(str(small).encode(), b"gs://bucket/small")
    assert storage.buckets["bucket"][f"small/report/{file.name}"].data == expected, file.name
  page = storage.buckets["bucket"]["small/report/index.html"].data
  assert b"gs://bucket/small/broken/result.json" in page
  assert not copies.local(place("gs://bucket/small/bert/checkpoints/7/data")).exists()
  for nowhere in ("gs://bucket/none", "gs://none/small"):
    assert main(["report", nowhere]) == 2
    assert nowhere in capsys.readouterr().err


CLICKS = """
<script>
const found = { errors: [], width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth };
addEventListener("securitypolicyviolation", (event) => found.errors.push(event.violatedDirective));
const table = document.querySelector("table");
const column = (number) => [...table.tBodies[0].rows].map((row) => row.cells[number].textContent.trim());
const header = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.startsWith("splice"));
found.before = column(header);
table.tHead.rows[0].cells[header].querySelector("button").click();
found.falling = column(header);
table.tHead.rows[0].cells[header].querySelector("button").click();
found.rising = column(header);
const box = document.querySelector("input[data-curve]");
const curve = document.querySelector(`[id^="curve-${box.dataset.curve}-"]`);
found.shown = [getComputedStyle(curve).display !== "none"];
box.click();
found.shown.push(getComputedStyle(curve).display !== "none");
document.querySelector("button[data-all=on]").click();
found.shown.push(getComputedStyle(curve).display !== "none");
found.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
parent.postMessage(found, "*");
</script>
"""
# A browser without a window is never narrower than 500 pixels; a frame in it is.
FRAME = """<!doctype html>
<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>
<script>
addEventListener("message", (event) => {{
  document.body.textContent = "FOUND" + JSON.stringify(event.data) + "END";
}});
</script>
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_in_a_browser(study, width, tmp_path):
  text = (study / "report" / "index.html").read_text().replace("</body>", CLICKS + "</body>")
  (tmp_path / "page.html").write_text(text)
  (tmp_path / "frame.html").write_text(FRAME.format(width=width))
  result = subprocess.run(
    [
      *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
      *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr"),
      *("--window-size=1600,1000", (tmp_path / "frame.html").as_uri()),
    ],
    capture_output=True,
    text=True,
    check=True,
    timeout=120,
  )
  assert "CONSOLE" not in result.stderr
  found = json.loads(html.unescape(re.search(r"FOUND(.*)END", result.stdout)[1]))
  assert (found["width"], found["errors"], found["requests"]) == (width, [], [])
  assert found["overflow"] <= 0
  scores = [float(cell.split()[0]) for cell in found["falling"]]
  assert scores == sorted(scores, reverse=True)
  assert scores != [float(cell.split()[0]) for cell in found["before"]]
  assert found["rising"] == found["falling"][::-1]
  assert found["shown"] == [True, False, True]


def test_a_report_on_pre_training_alone(tmp_path):
  run_folders.pretrained(tmp_path / "before")
  page = report.write(tmp_path).page
  assert not (page.parent / "bars.png").exists()
  assert "pre-training on nesting" in page.read_text()
  assert "-without-context" in page.read_text()


def test_the_curve_of_a_pre_training_is_beside_the_loss_without_context(tmp_path):
  run_folders.pretrained(tmp_path / "before")
  found, notes = read_all(collect_tree(read(tmp_path)).tree.runs)
  assert not notes
  curve = found["before"]["validation"].thinned()
  assert (curve.values.tolist(), curve.without_context) == ([[3.0, 2.0]], 2.5), "of tokens alone"
  assert found["before"]["train"].without_context is None


def test_many_runs_take_seconds_and_fit_into_a_page(tmp_path):
  """20 runs; RESULTS.md has the figures for 500."""
  for task in ("dna_splice", "dna_h3"):
    for number in range(10):
      name = f"{task}_{number}"
      init = "scratch" if number == 0 else "pretrained"
      run_folders.finetuned(
        tmp_path / name, task=task, init=init, model=f"model_{number}", samples=160
      )
  started = time.process_time()
  page = report.write(tmp_path).page
  assert time.process_time() - started < 20
  assert page.stat().st_size < 500_000


def test_analyses_stand_beside_runs(tmp_path):
  run_folders.finetuned(tmp_path / "run")
  result = {
    "mode": "analyze",
    "measure": "similarity",
    "task": "dna_splice",
    "dropout": "off",
    "summary": [["networks", "cka"], [HOSTILE, "0.9 (0.1)"]],
    "notes": [HOSTILE],
  }
  for name, changes in (
    ("good", {}),
    ("broken", {"summary": [["a"], [1]]}),
    ("other", {"notes": 3}),
  ):
    (tmp_path / name).mkdir()
    (tmp_path / name / "result.json").write_text(json.dumps(result | changes))
  (tmp_path / "good" / "similarity.png").write_bytes(b"\x89PNG\r\n\x1a\n rest")
  (tmp_path / "good" / "similarity.svg").write_text("<svg><script>steal()</script></svg>")
  page = report.write(tmp_path).page
  text = page.read_text()
  assert text.count("data:image/png;base64,") == 1
  assert "steal()" not in text
  assert HOSTILE not in text
  assert "0.9 (0.1)" in text
  table = page.with_name("table.md").read_text()
  assert "similarity on dna_splice, dropout off (good)" in table
  for name in ("broken", "other"):
    assert f"no result of an analysis, {tmp_path / name / 'result.json'}" in " ".join(table.split())


@pytest.fixture
def comparison():
  """Returns a result of two candidates."""
  scores = {
    part: {"mean": 90.0, "std": 1.5, "runs": [91.5, 88.5]} for part in ("validation", "test")
  }
  return {
    "mode": "compare",
    "task": HOSTILE,
    "metric": "accuracy",
    "best": "linear",
    "candidates": {
      "linear": {"setting": "penalty 1", **scores},
      "scratch": {"setting": "rate 1", **scores},
    },
    "differences": [
      {"first": "linear", "second": "scratch", "mean": 12.0, "by_samples": [5.9, 17.6]}
    ],
    "sentences": [f"Best is {HOSTILE}."],
    "limits": ["other seeds"],
  }


@pytest.mark.parametrize("below", [".", "mine"])
def test_a_comparison_has_the_name_of_its_file(below, comparison, tmp_path):
  folder = tmp_path / "custom" / below
  run_folders.finetuned(folder / "run")
  (folder / "result.json").write_text(json.dumps(comparison | {"task": "custom"}))
  config = {"task": {"name": "custom", "path": "/data/my <b>{split}.csv"}}
  (folder / "config.json").write_text(json.dumps(config))
  shown = show(comparison | {"task": "custom"}, config)
  assert shown.startswith("\nmy <b>{split}.csv (accuracy)\n")
  page = report.write(tmp_path / "custom").page
  name = "my &lt;b&gt;{split}.csv (accuracy)"
  text = page.read_text()
  assert f"<h1>{name if below == '.' else 'custom'}</h1>" in text
  assert text.count(f"<h3>{name}</h3>") == (below == "mine")
  assert "my <b>{split}.csv (accuracy)" in page.with_name("table.md").read_text().replace("\\", "")


def test_what_comparisons_conclude_stands_first(comparison, tmp_path):
  run_folders.finetuned(tmp_path / "good" / "run")
  for name, changes in (
    ("good", {}),
    ("broken", {"candidates": 3}),
    ("without", {"sentences": [1]}),
    ("other", {"differences": [{"first": "linear"}]}),
  ):
    (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / name / "result.json").write_text(json.dumps(comparison | changes))
  page = report.write(tmp_path).page
  text = page.read_text()
  assert HOSTILE not in text
  assert text.count('id="answer"') == 1
  assert text.index('id="answer"') < text.index('id="scores"')
  assert "12.0 (5.9 to 17.6)" in text
  table = page.with_name("table.md").read_text()
  assert table.index("12.0 (5.9 to 17.6)") < table.index("Scores are times 100")
  for name in ("broken", "without", "other"):
    assert f"no result of a comparison, {tmp_path / name / 'result.json'}" in " ".join(
      table.split()
    )
