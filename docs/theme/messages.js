// A message pasted into the search as it was printed, with names and numbers: the rows of tables that explain it.
const SHOWN = 5, ENOUGH = 0.6, A_MESSAGE = 6;

const wordsOf = (text) => new Set(text.toLowerCase().match(/[a-z]{2,}/g) || []);

const spans = MESSAGE_ROWS.flatMap((row) => row.messages.map((text) => ({ row, text, words: wordsOf(text) })));
const rarity = (word) => Math.log(1 + spans.length / spans.filter((one) => one.words.has(word)).length);
const weights = new Map([...new Set(spans.flatMap((one) => [...one.words]))].map((word) => [word, rarity(word)]));
const weigh = (words) => words.reduce((sum, word) => sum + weights.get(word), 0);

// How well a message of a table is what was pasted: by the share of its words that are there, rare words first.
const likeness = (span, pasted) => {
  const there = [...span.words].filter((word) => pasted.has(word));
  const share = weigh(there) / weigh([...span.words]);
  return there.length > 1 && share >= ENOUGH ? share * weigh(there) : 0;
};

const rowsAbout = (text) => {
  const pasted = wordsOf(text);
  if (pasted.size < 3) return [];
  const found = spans.map((span) => [likeness(span, pasted), span.row]).filter(([much]) => much);
  return [...new Set(found.sort(([one], [other]) => other - one).map(([, row]) => row))].slice(0, SHOWN);
};

document.addEventListener("DOMContentLoaded", () => {
  const text = new URLSearchParams(location.search).get("q") || "", rows = rowsAbout(text);
  if (!rows.length && wordsOf(text).size < A_MESSAGE) return;
  const list = document.createElement("ul");
  list.id = "messages";
  if (!rows.length) {
    const link = list.appendChild(document.createElement("li")).appendChild(document.createElement("a"));
    link.href = "docs/troubleshooting.html";
    link.textContent = "None. The message says itself what to try; Troubleshooting says what else tells the cause.";
  }
  for (const row of rows) {
    const item = list.appendChild(document.createElement("li"));
    const link = item.appendChild(document.createElement("a"));
    link.href = row.page;
    link.textContent = row.cells[0];
    for (const cell of row.cells.slice(1)) item.appendChild(document.createElement("p")).textContent = cell;
  }
  const heading = document.createElement("h2");
  heading.textContent = "Explained messages like this";
  document.getElementById("search-results").before(heading, list);
});
