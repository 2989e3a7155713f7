// Search without a server: a page opened from a file may not fetch others for its summaries.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Messages in tables break, unlike names of keys. Narrow screens show rows of wide tables as blocks, in which each cell has the heading of its column.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("article td code"))
    code.classList.toggle("long", code.textContent.length > 32);
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

// Groups of pages are folded: in the navigation all but the one with this page, on the first page those by subject.
const fold = (heading, parts, open) => {
  const group = document.createElement("details"), summary = group.appendChild(document.createElement("summary"));
  group.open = open;
  heading.replaceWith(group);
  summary.append(heading);
  group.append(...parts);
};
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll(".sidebar-tree > .caption")) {
    const pages = caption.nextElementSibling;
    fold(caption, [pages], Boolean(pages.querySelector(".current-page")));
  }
  if (document.body.querySelector(".sidebar-brand")?.pathname !== location.pathname) return;
  for (const heading of document.querySelectorAll("article section section section > h3"))
    fold(heading, [...heading.parentElement.children].slice(1), heading.parentElement.matches(":target"));
});
