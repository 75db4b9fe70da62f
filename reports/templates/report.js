"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  // Light and dark: what the system says, until the reader chooses.
  const themeButton = document.getElementById("theme");
  const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("specledger-theme", value);
      return localStorage.getItem("specledger-theme");
    } catch {
      return null; // A page opened from a file may have no storage; the choice then lasts as long as the page.
    }
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);
  if (themeButton) {
    const nameTheme = () => { themeButton.textContent = isDark() ? "Light" : "Dark"; };
    const chosen = stored();
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
    themeButton.hidden = false;
    themeButton.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      stored(root.dataset.theme);
      nameTheme();
    });
    systemDark.addEventListener("change", nameTheme);
    nameTheme();
  }

  // Definitions on demand; without a popover the link leads to the same text further down.
  const popover = document.getElementById("popover");
  if (popover && popover.showPopover) {
    for (const link of all("a.definition")) {
      link.setAttribute("aria-haspopup", "true");
      link.addEventListener("click", (event) => {
        const term = document.getElementById(`term-${link.dataset.term}`);
        event.preventDefault();
        const copy = term.cloneNode(true);
        copy.removeAttribute("id");
        popover.replaceChildren(copy);
        popover.showPopover();
        const at = link.getBoundingClientRect(), box = popover.getBoundingClientRect();
        const left = Math.max(16, Math.min(at.left, window.innerWidth - box.width - 16));
        const below = at.bottom + 6 + box.height < window.innerHeight;
        popover.style.left = `${left}px`;
        popover.style.top = `${Math.max(8, below ? at.bottom + 6 : at.top - box.height - 6)}px`;
      });
    }
  }
  const openTerm = () => {
    const target = location.hash.startsWith("#term-") && document.getElementById(location.hash.slice(1));
    if (target) { target.closest("details").open = true; target.scrollIntoView(); }
  };
  window.addEventListener("hashchange", openTerm);
  openTerm();

  // Sorting: numbers by value, text by the reader's language, what is not known always last.
  const value = (row, index) => {
    const cell = row.cells[index];
    if (cell.dataset.value !== undefined) {
      const number = Number(cell.dataset.value);
      return Number.isNaN(number) ? cell.dataset.value : number;
    }
    const text = cell.innerText.trim();
    return text === "" || text === "–" ? null : text;
  };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));
  const sort = (header) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = header.closest("table").tBodies[0];
    const rows = Array.from(body.rows).map((row) => [value(row, header.cellIndex), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return descending ? compare(b, a) : compare(a, b);
    });
    body.append(...rows.map(([, row]) => row));
  };
  for (const span of all("th .sort")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = span.textContent;
    button.addEventListener("click", () => sort(span.closest("th")));
    span.replaceChildren(button);
  }

  // Copying: tab-separated text; nothing that a spreadsheet would take for a formula.
  const plain = (cell) => {
    const source = cell.querySelector(".verdict, bdi, button") || cell;
    const text = source.textContent.trim().replace(/\s+/g, " ");
    return /^[=@]|^[+\-](?![\d.])/.test(text) ? `'${text}` : text;
  };
  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      try { await navigator.clipboard.writeText(text); return; } catch { /* not allowed here: the old way below */ }
    }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  for (const table of all(".table table")) {
    const head = table.closest(".table").querySelector(".table-head");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy the table “${head.textContent.trim()}”`);
    button.addEventListener("click", async () => {
      const lines = Array.from(table.rows).map((row) => Array.from(row.cells).map(plain).join("\t"));
      await copy(lines.join("\n"));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    head.append(button);
  }

  // Charts: drawn here, from the data in this file; expressions are interpreted, so nothing is evaluated as code.
  const views = new Map();
  const draw = async (plot) => {
    const spec = JSON.parse(document.getElementById(`spec-${plot.dataset.chart}`).textContent);
    try {
      const { view } = await window.vegaEmbed(plot, spec, {
        actions: false, ast: true, defaultStyle: false, mode: "vega-lite", renderer: "svg",
        tooltip: { disableDefaultStyle: true },
      });
      views.set(plot, view);
    } catch (error) {
      plot.textContent = "This browser cannot draw the chart; the numbers below are the same.";
      console.error(error);
    }
  };
  // On paper two charts share a line, one alone has it all: they are drawn at that width, so that text keeps its size.
  const PAPER_WIDTH = 330;
  const onPaper = (plot) => (plot.closest(".charts")?.childElementCount > 1 ? PAPER_WIDTH : 2 * PAPER_WIDTH);
  const fit = (width) => views.forEach((view, plot) => view.width(width(plot)).run());
  window.addEventListener("beforeprint", () => fit(onPaper));
  window.addEventListener("afterprint", () => fit((plot) => plot.clientWidth));
  const breath = () => new Promise((resolve) => { setTimeout(resolve); });
  (async () => {
    for (const plot of all("[data-chart]")) {
      await breath(); // The page can be read and scrolled while its charts appear, from the top.
      await draw(plot);
    }
    root.dataset.charts = "drawn";
  })();
})();
