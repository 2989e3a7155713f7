// Search without a server: a page opened from a file may not fetch others for its summaries.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Narrow screens show rows of wide tables as blocks, in which each cell has the heading of its column.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const headings = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
    if (headings.length < 3) continue;
    table.classList.add("wide");
    table.classList.toggle("many", headings.length > 4);
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, column) => {
        cell.dataset.heading = headings[column];
        cell.classList.toggle("empty", !cell.textContent.trim());
      });
  }
});
