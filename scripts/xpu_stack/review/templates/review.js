// Keys, folding and the theme. The pages are whole without it.
"use strict";

const THEME = "xpu-stack-theme";
const root = document.documentElement;

// Storage may be refused to pages from the disk; the theme then lasts a page.
function stored() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
}

function setTheme(theme) {
  root.dataset.theme = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // see stored()
  }
}

function toggleTheme() {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
}

// Before the page is drawn, so that it does not flash.
if (["light", "dark"].includes(stored())) {
  root.dataset.theme = stored();
}

// What j and k go through: the files of a change, the changes of the stack.
function stops() {
  return [...document.querySelectorAll(".file, .row[data-change]")];
}

function current() {
  return document.querySelector(".file.at, .row.at");
}

function step(by) {
  const all = stops();
  const now = all.indexOf(current());
  const to = now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by;
  if (all[to]) {
    choose(all[to]);
    const row = all[to].matches(".row");
    all[to].scrollIntoView({ block: row ? "nearest" : "start" });
    all[to].querySelector("summary, a").focus({ preventScroll: true });
  }
}

function choose(stop) {
  current()?.classList.remove("at");
  stop?.classList.add("at");
}

function open() {
  const now = current();
  if (now?.matches(".file")) {
    now.open = !now.open;
  } else {
    now?.querySelector("a").click();
  }
}

function fold() {
  const files = [...document.querySelectorAll(".file")];
  const any = files.some((file) => file.open);
  files.forEach((file) => (file.open = !any));
}

function follow(selector) {
  document.querySelector(selector)?.click();
}

function help() {
  const dialog = document.getElementById("help");
  if (dialog.open) {
    dialog.close();
  } else {
    dialog.showModal();
  }
}

const nextPage = () => follow('a[rel="next"], .rows .row[data-change] a');
const previousPage = () => follow('a[rel="prev"]');
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  o: open,
  x: fold,
  n: nextPage,
  p: previousPage,
  ArrowRight: nextPage,
  ArrowLeft: previousPage,
  u: () => follow('.top a[href="index.html"]:not([aria-current])'),
  t: toggleTheme,
  "?": help,
};
const ACTIONS = { theme: toggleTheme, help, fold };

document.addEventListener("keydown", (event) => {
  const busy = event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, textarea");
  const action = KEYS[event.key];
  if (busy || !action || (document.getElementById("help").open && event.key !== "?")) {
    return;
  }
  event.preventDefault();
  action();
});

document.addEventListener("click", (event) => {
  ACTIONS[event.target.closest("[data-action]")?.dataset.action]?.();
  choose(event.target.closest(".file") ?? current());
});

// A link to a folded file unfolds it.
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.matches("details")) {
    target.open = true;
    choose(target);
    target.scrollIntoView();
  }
}
addEventListener("hashchange", reveal);
addEventListener("DOMContentLoaded", reveal);

// The arcs of the change under the pointer or the focus.
function point(event) {
  const change = event.target.closest?.("[data-change]")?.dataset.change;
  for (const arc of document.querySelectorAll(".arc")) {
    arc.classList.toggle("of", change === arc.dataset.of || change === arc.dataset.user);
  }
}
addEventListener("pointerover", point);
addEventListener("focusin", point);

// On paper everything is open.
const folded = [];
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    folded.push(details);
  }
});
addEventListener("afterprint", () => {
  while (folded.length) {
    folded.pop().open = false;
  }
});
