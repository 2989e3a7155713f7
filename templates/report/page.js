"use strict";
(() => {
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
  const id = (name) => document.getElementById(name);

  // Filter and sorting need this script, so their controls are hidden without it.
  for (const controls of all(".controls")) controls.hidden = false;

  // One tooltip for all tiles and marks of charts: whatever has an aria-label and a tabindex.
  const tip = id("tip");
  const show = (event) => {
    const mark = event.target.closest && event.target.closest("[aria-label][tabindex], [data-tip]");
    if (!mark || mark.classList.contains("wide")) return hide();
    tip.textContent = mark.dataset.tip || mark.getAttribute("aria-label");
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const width = tip.offsetWidth, height = tip.offsetHeight, room = document.documentElement.clientWidth;
    const left = Math.max(8, Math.min(box.left + box.width / 2 - width / 2, room - width - 8));
    const below = box.bottom + height + 12 < innerHeight || box.top < height + 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - height - 6}px`;
  };
  const hide = () => { tip.hidden = true; };
  document.addEventListener("mouseover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // Tiles are one stop of the Tab key for each group; arrow keys go from tile to tile.
  const next = { ArrowRight: 1, ArrowLeft: -1 };
  for (const group of all(".tiles")) {
    group.addEventListener("keydown", (event) => {
      const tiles = all(".tile", group), at = tiles.indexOf(event.target);
      if (at < 0) return;
      const line = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
      const steps = { ...next, ArrowDown: line, ArrowUp: -line, Home: -at, End: tiles.length - 1 - at };
      const tile = event.key in steps && tiles[at + steps[event.key]];
      if (!tile) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      tile.tabIndex = 0;
      tile.focus();
    });
  }

  // The table of hosts: words that all have to be found, and a state.
  const find = id("nodes-find"), state = id("nodes-state"), table = id("nodes-table");
  const rows = table ? Array.from(table.tBodies[0].rows) : [];
  const texts = new Map();
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      if (words.length && !texts.has(row)) texts.set(row, row.textContent.toLowerCase());
      const fits = (!state.value || row.dataset.state === state.value) &&
        words.every((word) => texts.get(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    id("nodes-count").textContent = shown === rows.length ? `${shown} hosts` : `${shown} of ${rows.length} hosts`;
    id("nodes-empty").hidden = shown > 0;
  };
  if (table) {
    find.addEventListener("input", filter);
    state.addEventListener("change", filter);
    find.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { find.value = ""; filter(); }
    });
  }
  for (const link of all("[data-filter]")) {
    link.addEventListener("click", () => {
      if (!table) return;
      find.value = link.dataset.filter;
      state.value = "";
      filter();
    });
  }
  // A link to a host shows its row, whatever the filter hides.
  const reveal = () => {
    const row = location.hash.startsWith("#node-") && id(decodeURIComponent(location.hash.slice(1)));
    if (row && row.hidden) {
      find.value = state.value = "";
      filter();
      row.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);

  // Sorting: a button in each heading; digits inside of names count as numbers.
  const order = new Intl.Collator("en", { numeric: true });
  for (const heading of all("table.sortable th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const column = heading.cellIndex, body = heading.closest("table").tBodies[0];
      const down = heading.getAttribute("aria-sort") === "ascending";
      const value = (row) => row.cells[column].textContent.trim();
      const number = (text) => { const found = parseFloat(text); return Number.isNaN(found) ? -1 : found; };
      const compare = heading.dataset.sort === "number"
        ? (one, other) => number(one) - number(other)
        : (one, other) => order.compare(one, other);
      const sorted = Array.from(body.rows, (row) => [value(row), row])
        .sort((one, other) => (down ? -1 : 1) * compare(one[0], other[0]));
      body.append(...sorted.map((pair) => pair[1]));
      for (const one of all("th[aria-sort]", heading.parentNode)) one.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  }

  const onlyFailed = id("checks-failed");
  if (onlyFailed) {
    onlyFailed.addEventListener("change", () => id("matrix").classList.toggle("only-failed", onlyFailed.checked));
  }

  // What is folded away on the screen is on paper.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
