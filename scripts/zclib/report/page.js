/* SPDX-License-Identifier: MIT */
/* Builds the page from its parts, and draws it anew where the theme or the width changes. */
"use strict";

function notes() {
  if (data.notes.length)
    main.append(make("section", {}, make("h2", {}, "Notes"),
                make("ul", {id: "notes"}, ...data.notes.map(note => make("li", {}, note)))));
}

const root = document.documentElement;
const systemTheme = matchMedia("(prefers-color-scheme: dark)");

document.getElementById("theme").addEventListener("click", () => {
  const system = systemTheme.matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  drawPlots();
});
systemTheme.addEventListener("change", drawPlots);
addEventListener("resize", fitPlots);
/* Paper is white. */
let asked;
addEventListener("beforeprint", () => {
  asked = root.dataset.theme;
  root.dataset.theme = "light";
  drawPlots();
});
addEventListener("afterprint", () => {
  if (asked) root.dataset.theme = asked; else delete root.dataset.theme;
  drawPlots();
});

main.replaceChildren();
if (data.zc_diff) diff(); else { report(); notes(); }
explainWords();
drawPlots();
