// SPDX-License-Identifier: Apache-2.0
//
// The flame graph's script: zoom, search, keys, and a layout that follows the window. It reads all it
// needs from the picture itself. It must never put a share above its base: nested matches count once.
#include "output/flamegraph_assets.h"

namespace pyprof {

const std::string_view kFlamegraphScript = R"js(
(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg", HTML = "http://www.w3.org/1999/xhtml";
const picture = document.currentScript.closest("svg");
const id = name => picture.getElementById(name);
const area = id("frames"), head = id("head"), info = id("info").querySelector("text");
const total = +area.dataset.total, rowHeight = +area.dataset.row, base = area.dataset.base;
const margin = +area.getAttribute("x");
const command = head.querySelector(".command text"), fullCommand = command.textContent;

const frames = Array.from(area.children, (el, index) => {
  const label = el.firstElementChild.textContent.split("\n")[0];
  const file = label.endsWith(")") ? label.lastIndexOf(" (") : -1;
  return {
    el, index, label, name: file > 0 ? label.slice(0, file) : label, file: file > 0 ? label.slice(file) : "",
    row: Math.round(el.getAttribute("y") / rowHeight), begin: +el.dataset.x, samples: +el.dataset.n,
    text: el.querySelector("text"), shown: true, width: 0,
  };
});
const frameOf = new Map(frames.map(frame => [frame.el, frame]));
const root = frames[0];
let zoomed = root, hits = null;

const end = frame => frame.begin + frame.samples;
const contains = (outer, inner) => outer.begin <= inner.begin && end(outer) >= end(inner);
const commas = number => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const share = (part, whole) => whole === 0 ? "0%" : (100 * part / whole).toFixed(2) + "%";

// ---- layout ----

const ruler = document.createElementNS(SVG, "text");
ruler.textContent = "m".repeat(100);
area.append(ruler);
const characterWidth = ruler.getComputedTextLength() / 100 || 7;
ruler.remove();

// A zoom keeps what stands above the frame (all of it, full width) and what lies below it.
function layOut() {
  const width = Math.max(picture.clientWidth || window.innerWidth, 200) - 2 * margin;
  area.setAttribute("width", width);
  const whole = zoomed.samples || 1;
  for (const frame of frames) {
    const isAbove = frame.row < zoomed.row && contains(frame, zoomed);
    const isBelow = frame.row >= zoomed.row && contains(zoomed, frame);
    frame.width = isAbove || total === 0 ? width : frame.samples / whole * width;
    frame.shown = isAbove || isBelow && frame.width >= 0.05;
    frame.el.style.display = frame.shown ? "" : "none";
    frame.el.classList.toggle("up", isAbove);
    frame.el.classList.toggle("w", frame.width >= 4);
    if (!frame.shown) continue;
    frame.el.setAttribute("x", isAbove ? "0%" : 100 * (frame.begin - zoomed.begin) / whole + "%");
    frame.el.setAttribute("width", 100 * frame.width / width + "%");
    fitText(frame);
  }
  fitHeader(width);
}

function fitText(frame) {
  const room = Math.floor((frame.width - 10) / characterWidth);
  let name = "", file = "";
  if (room >= 3) {
    name = frame.name;
    if (name.length + frame.file.length <= room) file = frame.file;
    else if (name.length > room) name = Array.from(name).slice(0, room - 1).join("") + "\u2026";
  }
  if (!frame.text) {
    if (!name) return;
    frame.text = document.createElementNS(SVG, "text");
    frame.text.setAttribute("x", 5);
    frame.text.setAttribute("y", 14);
    frame.el.append(frame.text);
  }
  if (frame.text.textContent === name + file) return;
  frame.text.textContent = name;
  if (!file) return;
  const dim = document.createElementNS(SVG, "tspan");
  dim.textContent = file;
  frame.text.append(dim);
}

function fitHeader(width) {
  holder.setAttribute("width", width);
  const used = Math.ceil(bar.lastElementChild.getBoundingClientRect().right - bar.firstElementChild.getBoundingClientRect().left);
  for (const line of head.querySelectorAll("svg:not(#legend)")) line.setAttribute("width", width);
  const room = Math.max(width - used - 20, 40);
  command.textContent = fullCommand;
  const fits = room / command.getComputedTextLength();
  if (fits < 1) command.textContent = fullCommand.slice(0, Math.floor(fullCommand.length * fits) - 1) + "\u2026";
  const legend = id("legend");
  legend.setAttribute("x", width + margin - legend.getAttribute("width"));
  const facts = Math.max(...Array.from(head.querySelectorAll(".facts text"), text => text.getComputedTextLength()));
  legend.style.display = facts + 390 > width ? "none" : "";
}

// ---- what is told of a frame ----

function describe(frame) {
  let text = `${frame.label}   ${commas(frame.samples)} ${frame.samples === 1 ? "sample" : "samples"}, ${share(frame.samples, total)} of ${base}`;
  if (zoomed !== root && frame !== zoomed && contains(zoomed, frame) && frame.row >= zoomed.row) text += `, ${share(frame.samples, zoomed.samples)} of the zoomed frame`;
  return text;
}

const hint = "Click a frame to zoom, Esc to go back, Ctrl-F to search, arrow keys to walk.";
const tell = text => { info.textContent = text; };

// ---- zoom and search ----

function zoom(frame) {
  zoomed = frame;
  reset.hidden = frame === root;
  layOut();
  tell(frame === root ? hint : describe(frame));
  remember();
}

// Case counts only where the pattern has a capital letter.
function compile(pattern) {
  try { return new RegExp(pattern, /\p{Lu}/u.test(pattern.replace(/\\./g, "")) ? "" : "i"); } catch { return null; }
}

function search(pattern) {
  const expression = pattern ? compile(pattern) : null;
  input.classList.toggle("bad", pattern !== "" && !expression);
  hits = expression ? frames.filter(frame => frame !== root && expression.test(frame.label)) : null;
  picture.classList.toggle("searching", hits !== null);
  const found = new Set(hits);
  for (const frame of frames) frame.el.classList.toggle("hit", found.has(frame));
  matched.textContent = pattern && !expression ? "not a regular expression" : hits ? summary() : "";
  fitHeader(+area.getAttribute("width"));
  remember();
}

// Frames stand in the file with parents first, so a match that begins inside the last one counted is nested.
function summary() {
  let sum = 0, until = 0;
  for (const frame of hits) {
    if (frame.begin < until) continue;
    sum += frame.samples;
    until = end(frame);
  }
  return `${share(sum, total)} matched, ${commas(hits.length)} ${hits.length === 1 ? "frame" : "frames"}`;
}

// ---- the address keeps what is shown ----

function remember() {
  const state = new URLSearchParams();
  if (zoomed !== root) state.set("zoom", zoomed.index);
  if (input.value) state.set("search", input.value);
  const fragment = state.toString();
  try { history.replaceState(null, "", fragment ? "#" + fragment : location.pathname + location.search); } catch { }
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  const frame = frames[+state.get("zoom")] || root, pattern = state.get("search") || "";
  input.value = pattern;
  search(pattern);
  zoom(frame);
}

// ---- controls ----

const make = (name, attributes = {}) => Object.assign(document.createElementNS(HTML, name), attributes);
const holder = document.createElementNS(SVG, "foreignObject");
for (const [name, value] of [["x", margin], ["y", 5], ["height", 34], ["width", 600]]) holder.setAttribute(name, value);
const bar = make("div", { className: "bar" });
const matched = make("output");
const reset = make("button", { type: "button", textContent: "Reset zoom", hidden: true });
const input = make("input", { type: "search", placeholder: "Search: regular expression", spellcheck: false });
input.setAttribute("aria-label", "Search frames by regular expression");
bar.append(matched, reset, input);
holder.append(bar);
head.append(holder);
info.setAttribute("aria-live", "polite");

reset.addEventListener("click", () => zoom(root));
input.addEventListener("input", () => search(input.value));
area.addEventListener("click", event => { const frame = frameOf.get(event.target.closest(".f")); if (frame) zoom(frame); });
area.addEventListener("mouseover", event => { const frame = frameOf.get(event.target.closest(".f")); if (frame) tell(describe(frame)); });
area.addEventListener("mouseleave", () => tell(zoomed === root ? hint : describe(zoomed)));
area.addEventListener("focusin", event => { const frame = frameOf.get(event.target); if (frame) tell(describe(frame)); });

// One frame can be reached by Tab; from there the arrow keys go on.
function focus(frame) {
  if (!frame) return;
  area.querySelector("[tabindex]")?.removeAttribute("tabindex");
  frame.el.setAttribute("tabindex", 0);
  frame.el.focus({ preventScroll: false });
}
const inRow = (row, test) => frames.filter(frame => frame.shown && frame.row === row && test(frame));
function neighbour(frame, key) {
  switch (key) {
    case "ArrowUp": return inRow(frame.row - 1, other => contains(other, frame))[0];
    case "ArrowDown": return inRow(frame.row + 1, other => contains(frame, other)).sort((a, b) => b.samples - a.samples)[0];
    case "ArrowLeft": return inRow(frame.row, other => end(other) <= frame.begin).pop();
    case "ArrowRight": return inRow(frame.row, other => other.begin >= end(frame))[0];
  }
}
root.el.setAttribute("tabindex", 0);

window.addEventListener("keydown", event => {
  const frame = frameOf.get(document.activeElement);
  if ((event.ctrlKey || event.metaKey) && event.key === "f" || event.key === "F3") {
    if (document.activeElement === input) return;  // the second time it is the browser's own search
    input.focus();
    input.select();
  } else if (event.key === "Escape") {
    if (document.activeElement === input || zoomed === root) { input.value = ""; search(""); input.blur(); }
    else zoom(root);
  } else if (frame && (event.key === "Enter" || event.key === " ")) {
    zoom(frame);
  } else if (frame && event.key.startsWith("Arrow")) {
    focus(neighbour(frame, event.key));
  } else {
    return;
  }
  event.preventDefault();
});

// The head stays in sight while a tall picture scrolls below it.
window.addEventListener("scroll", () => head.setAttribute("transform", `translate(0 ${window.scrollY})`));
window.addEventListener("resize", layOut);
window.addEventListener("hashchange", recall);

picture.removeAttribute("viewBox");
picture.setAttribute("width", "100%");
recall();
})();
)js";

}  // namespace pyprof
