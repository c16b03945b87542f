"use strict";

// A click on a header sorts its table: numbers from the highest, text from A; empty cells come last.
function valueOf(row, column) {
  const cell = row.cells[column];
  const text = (cell.dataset.value ?? cell.textContent).trim();
  if (text === "" || text === "-") return null;
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const header = button.closest("th");
    const body = header.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, header.cellIndex) }));
    const first = rows.some(({ value }) => typeof value === "number") ? "descending" : "ascending";
    const turned = { ascending: "descending", descending: "ascending" };
    const order = turned[header.getAttribute("aria-sort")] ?? first;
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    rows.sort(({ value: a }, { value: b }) =>
      a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b),
    );
    body.append(...rows.map(({ row }) => row));
  });
}

// A switch shows or hides the curves of one variant in all figures.
const switches = [...document.querySelectorAll("input[data-curve]")];

function show(box) {
  for (const part of document.querySelectorAll(`[id^="curve-${box.dataset.curve}-"]`)) {
    part.style.display = box.checked ? "" : "none";
  }
}

for (const box of switches) box.addEventListener("change", () => show(box));

for (const button of document.querySelectorAll("button[data-all]")) {
  button.addEventListener("click", () => {
    for (const box of switches) {
      box.checked = button.dataset.all === "on";
      show(box);
    }
  });
}

for (const box of switches) show(box); // a browser may remember how they stood
