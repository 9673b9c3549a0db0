// The heat map: asks for pictures, draws them, and answers the pointer, fingers and keys. What is shown stands in the
// address, so that it can be sent to somebody else. `heat_picture` knows the data, `heat_drawing` the canvas,
// `heat_table` the words around it.

import { Picture, short, stamp, visible } from "./heat_picture.js";
import { heatColours, ownerColours } from "./heat_colours.js";
import { drawCells, drawOver, drawOwners, drawSign, drawStrip, SIGNS } from "./heat_drawing.js";
import {
  cellOf, drawScale, fillBrokers, fillNames, fillTimes, fillTop, made, named, ownersByCells, shortened, spanOf, whyAddress,
} from "./heat_table.js";

const RENEW_MS = 60_000;
const SETTLED_MS = 350;
const MOST_TRIES = 6;
const LEAST_SECONDS = 120;
const FINGER = 14;  // pixels that a finger may move or miss by in a tap
const by = (id) => document.getElementById(id);
const [field, form, root] = [by("field"), by("ask"), by("heat")];
const darkness = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");

let base = null;       // the picture that was asked for
let picture = null;    // the one that is drawn: `base`, or a sharper one of a part of it
let view = null;       // {t0, t1, y0, y1}: seconds, and places among the rows of `picture`
let cursor = null;     // [row, column] of `picture`
let chosen = null;     // the cell whose why is shown, as `cellOf` has it
let hovered = null;    // [row, column]
let box = null;
let look = { isOwner: false, broker: "", bright: 5, hidden: new Set() };
let colours = null;
let asking = null;     // of the request under way, how to end it
let tag = "";

// Asking

const pause = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });

const say = (text) => { by("said").textContent = text; };
const tell = (text, more = []) => { by("state").replaceChildren(text, ...more); };

class Refused extends Error {
  constructor(title, text, advice = [], kind = "bad") { super(text); Object.assign(this, { title, advice, kind }); }
}

/** Asks until the desk has time; whoever waits is told so. */
const patiently = async (address, options, isQuiet = false) => {
  for (let tries = 1; ; tries += 1) {
    const answer = await fetch(address, { credentials: "same-origin", redirect: "error", ...options });
    if (answer.status !== 503) return answer;
    const seconds = Math.min(30, Math.max(1, Number(answer.headers.get("Retry-After")) || 3));
    if (isQuiet || tries >= MOST_TRIES) throw new Refused("The desk is busy.", "More is asked for at the moment than can be read.", ["Try again in a minute."]);
    tell(`The desk is busy; it is asked again in ${seconds} s (try ${tries + 1} of ${MOST_TRIES}).`);
    await pause(seconds * (1 + Math.random() / 4));
    if (options.signal?.aborted) throw new DOMException("", "AbortError");
  }
};

const refusal = async (answer) => {
  if (answer.status === 401) return new Refused("Your session at Airflow has ended.", "Log in again, and load this page again.");
  if (answer.status === 403) return new Refused("Not for you.", "The map needs the right to read the DAG rebalance.");
  if (answer.headers.get("Content-Type")?.startsWith("application/json")) {
    const { title, text, advice } = await answer.json();
    return new Refused(`${title}.`, text, advice, advice.length ? "plain" : "bad");
  }
  if (answer.status === 504) return new Refused("That took too long.", "Ask for a shorter time, or for a part of the cluster.");
  return new Refused("The map could not be made.", `The desk answered with ${answer.status}.`, ["Try again; if it happens again, Airflow's API server has the reason in its log."]);
};

/** The picture of these words, or null where it is the one that is known already. */
const asked = async (words, { signal, isQuiet = false, known = "" } = {}) => {
  const headers = known ? { "If-None-Match": known } : {};
  const answer = await patiently(`heat/picture?${new URLSearchParams(words)}`, { signal, headers, cache: "no-store" }, isQuiet);
  if (answer.status === 304) return null;
  if (!answer.ok) throw await refusal(answer);
  const found = await Picture.of(await answer.json());
  found.tag = answer.headers.get("ETag") ?? "";
  return found;
};

const showProblem = (error) => {
  const found = made("div", "", { class: `callout${error.kind === "plain" ? " plain" : ""}` });
  found.append(made("strong", error.title ?? "The map could not be loaded."), ` ${visible(error.message || "The network gave no answer.")}`);
  if (error.advice?.length) {
    const list = made("ul");
    list.append(...error.advice.map((line) => made("li", line)));
    found.append(list);
  }
  const again = made("button", "Try again", { type: "button" });
  again.addEventListener("click", () => load(wanted(), false));
  found.append(again);
  by("notes").replaceChildren(found);
};

/** What the form asks for. */
const wanted = () => Object.fromEntries([...new FormData(form)].map(([name, word]) => [name, word.trim()]).filter(([, word]) => word));

/** Asks for a picture and shows it; `keeps`: whether zoom and cell of the address are taken. */
const load = async (words, keeps) => {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  root.classList.add("busy");
  if (base === null) tell("The picture is being read …");
  try {
    const found = await asked(words, { signal });
    by("notes").replaceChildren(...found.notes.map((line) => made("p", line, { class: "note" })));
    root.hidden = false;
    base = found;
    tag = found.tag;
    take(found, whole(found));
    if (keeps) fromAddress(); else settle();
    tell("");
    say(`${caption()} ${found.notes.join(" ")}`);
    drawAll();
    if (keeps && chosen) {
      if (found.columns && found.rows) cursor = placeOf(chosen);
      drawTop();
      askWhy(whyAddress(found.cluster, chosen), false, cursor ? marksIn(...cursor).map(markWords) : []);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    tell("");
    showProblem(error);
    if (base === null) root.hidden = true;
    say(error.message);
  } finally {
    if (!signal.aborted) root.classList.remove("busy");
  }
};

const whole = (of) => ({ t0: of.first, t1: Math.max(of.last, of.first + 1), y0: 0, y1: Math.max(1, of.rows) });
const isWhole = () => picture === base && view.t0 <= base.first && view.t1 >= base.last && view.y0 <= 0 && view.y1 >= base.rows;

const take = (found, seen) => {
  picture = found;
  view = seen;
  cursor = hovered = null;
  colours = null;
};

/** The same view on another picture. */
const moved = (to) => {
  const [top, bottom] = [view.y0, view.y1].map((y) => (y >= picture.rows ? picture.key(picture.rows) : picture.key(y)));
  const y0 = to.place(top);
  const y1 = view.y1 >= picture.rows && to === base && picture.rows === base.rows ? base.rows : to.place(bottom);
  const at = cursor && [picture.starts[cursor[1]], picture.key(cursor[0])];
  take(to, { ...view, y0, y1: Math.max(y1, y0 + 0.5) });
  if (at) cursor = [Math.min(to.rows - 1, Math.floor(to.place(at[1]) + 1e-6)), to.column(at[0])];
};

/** Whether a picture holds what is seen, with shorter columns or more rows. */
const isSharper = (found) => {
  if (!found.columns || !found.rows) return false;
  const [top, bottom] = [picture.key(view.y0), picture.key(Math.min(view.y1, picture.rows) - 1e-6)];
  if (![top, bottom].every(([name]) => found.namespaces.includes(name))) return false;
  return found.layer_seconds < picture.layer_seconds || found.place(bottom) - found.place(top) > (view.y1 - view.y0) * 1.05;
};

/** Asks for more detail of what is seen, where there may be some. */
const sharpen = async () => {
  const rows = [Math.max(0, Math.floor(view.y0)), Math.min(picture.rows, Math.ceil(view.y1)) - 1];
  const isLong = picture.layer_seconds > 60 && view.t1 - view.t0 < (picture.last - picture.first) * 0.6;
  let part = base.asked.within;
  const several = picture.grain === "overview" && picture.row_bundles.slice(rows[0], rows[1] + 1).some((count) => count > 1);
  if (several) part = picture.part(rows[0], rows[1]) || part;
  const isFiner = several && part !== base.asked.within && view.y1 - view.y0 < picture.rows * 0.6;
  if (!isLong && !isFiner) return;
  const margin = (view.t1 - view.t0) * 0.25;
  const words = {
    cluster: base.cluster, metric: base.metric, within: part,
    from: new Date(Math.max(base.asked.from, view.t0 - margin) * 1000).toISOString(),
    to: new Date(Math.min(base.asked.to, view.t1 + margin) * 1000).toISOString(),
  };
  if (!part) delete words.within;
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  tell("A sharper picture is being read …");
  try {
    const found = await asked(words, { signal, isQuiet: true });
    if (isSharper(found)) moved(found);
    tell("");
    drawAll();
    tabled();
  } catch (error) {
    if (error.name !== "AbortError") tell("");
  }
};

/** Whether what is seen lies in the picture; else the whole one is taken again. */
const covers = () => {
  const slack = picture.layer_seconds;
  return view.t0 >= picture.first - slack && view.t1 <= picture.last + slack && view.y0 >= -1e-6 && view.y1 <= picture.rows + 1e-6;
};

// Drawing

const isDark = () => darkness.matches && !printing.matches;

const counted = new WeakMap();  // of a picture the brokers by their cells, and the codes that colours run over

const drawAll = () => {
  if (!picture) return;
  for (const one of [base, picture]) if (!counted.has(one)) counted.set(one, { order: ownersByCells(one), span: spanOf(one) });
  const [{ order }, { span }] = [counted.get(base), counted.get(picture)];
  const dark = isDark();
  const names = new Map(picture.brokers.map((name, place) => [name, place + 1]));
  const own = order.map((code) => names.get(base.brokers[code - 1])).filter(Boolean);
  colours = {
    heat: heatColours({ ...span, bright: look.bright, dark }),
    owner: ownerColours(picture.brokers.length, own, dark),
    broker: look.broker ? names.get(look.broker) ?? 0xfffe : 0,
  };
  by("shared-word").hidden = picture.hatched === null;
  by("empty").hidden = picture.columns > 0 && picture.rows > 0;
  by("empty").textContent = `Nothing is on record of this range of time. The newest cycle is that of ${stamp(base.asked.newest_cycle)}.`;
  root.classList.toggle("in-owners", look.isOwner);
  document.querySelector(".scale").hidden = look.isOwner || !picture.columns;
  drawScale(picture, span, look.bright, dark);
  fillBrokers(base, order, ownerColours(base.brokers.length, order, dark), base.brokers.indexOf(look.broker) + 1, look.isOwner, (code) => {
    look.broker = code ? base.brokers[code - 1] : "";
    drawAll();
    keep();
  });
  for (const button of document.querySelectorAll("[data-colour]")) button.setAttribute("aria-pressed", String((button.dataset.colour === "owner") === look.isOwner));
  for (const kind of SIGNS) {
    const left = base.marks_left_out[kind] ?? 0;
    const count = base.marks.filter(([, own]) => own === kind).length;
    document.querySelector(`[data-count="${kind}"]`).textContent = (count + left).toLocaleString("en-US");
    document.querySelector(`[data-mark="${kind}"]`).checked = !look.hidden.has(kind);
  }
  by("bright").value = String(look.bright);
  by("caption").textContent = caption();
  by("top-metric").textContent = metricWords();
  drawView();
};

const metricWords = () => [...form.elements.metric.options].find(({ value }) => value === base.metric)?.text ?? base.metric;

const caption = () => {
  if (!base) return "";
  const metric = metricWords();
  const rows = `${base.rows.toLocaleString("en-US")} ${base.grain === "overview" && base.row_bundles.some((count) => count > 1) ? "ranges" : "bundles"}`;
  const span = base.columns ? `${stamp(base.first)} to ${stamp(base.last)} UTC` : "an empty range";
  const part = base.asked.within ? ` of ${shortened(visible(base.asked.within))}` : "";
  return `${metric} of ${rows}${part} in ${shortened(visible(base.cluster))}, ${span}.`;
};

/** Draws what depends on zoom: called for every move. */
const drawView = () => {
  if (!picture) return;
  hideTip();
  const began = performance.now();
  const took = drawCells(by("cells"), picture, view, { ...colours, isOwner: look.isOwner, dark: isDark() });
  const { width, height } = field.getBoundingClientRect();
  const most = drawStrip(by("strip"), picture, view, getComputedStyle(root).getPropertyValue("--strip"));
  const words = picture.unit === "fraction" ? "largest" : "together";
  by("strip-words").textContent = picture.rows ? `${words}, up to ${most > 0 ? short(most, picture.unit) : "nothing"}` : "";
  fillTimes(view, width, base.changes ?? []);
  fillNames(picture, view, height, showSpace);
  field.classList.toggle("zoomed", !isWhole());
  drawTop();
  // How many milliseconds the cells took, and all that follows a move; a benchmark reads them.
  root.dataset.drawn = took.toFixed(1);
  root.dataset.moved = (performance.now() - began).toFixed(1);
};

/** Draws what lies over the cells. */
const drawTop = () => {
  const shown = new Set(SIGNS.filter((kind) => !look.hidden.has(kind)));
  const isFocused = document.activeElement === field;
  const marked = cursor && (isFocused || chosen) ? cursor : null;
  const groups = picture.groups(field.clientHeight / (view.y1 - view.y0));
  drawOver(by("over"), picture, view, { shown, groups, cursor: marked, box, paper: getComputedStyle(document.body).backgroundColor });
  const column = (hovered ?? cursor)?.[1] ?? picture.columns - 1;
  drawOwners(by("owners"), picture, view, column, colours.owner);
};

// What is settled a moment after the last move: the table, the address, and a sharper picture.

let settling = 0;
const tabled = () => fillTop(picture, view, (row, column) => choose(row, column, true));
const settle = () => {
  clearTimeout(settling);
  settling = setTimeout(() => {
    tabled();
    keep();
    sharpen();
  }, SETTLED_MS);
};

const show = () => {
  const isLeft = picture !== base && !covers();
  if (isLeft) moved(base);
  clamp();
  if (isLeft || !colours) drawAll(); else drawView();
  settle();
};

/** Keeps what is seen inside the picture, and not too narrow. */
const clamp = () => {
  const least = Math.min(LEAST_SECONDS, base.last - base.first);
  const [long, tall] = [Math.max(least, Math.min(view.t1 - view.t0, base.last - base.first)), Math.max(Math.min(2, picture.rows), Math.min(view.y1 - view.y0, picture.rows))];
  view.t0 = Math.min(Math.max(view.t0, base.first), base.last - long);
  view.t1 = view.t0 + long;
  view.y0 = Math.min(Math.max(view.y0, 0), picture.rows - tall);
  view.y1 = view.y0 + tall;
};

const zoom = (factor, at, place, { time = true, rows = true } = {}) => {
  if (!picture?.columns || !picture.rows) return;
  if (factor > 1 && picture !== base) moved(base), place = (view.y0 + view.y1) / 2;
  if (time) { view.t0 = at + (view.t0 - at) * factor; view.t1 = at + (view.t1 - at) * factor; }
  if (rows) { view.y0 = place + (view.y0 - place) * factor; view.y1 = place + (view.y1 - place) * factor; }
  show();
};

const middle = () => (cursor && isInView(cursor)
  ? [(picture.starts[cursor[1]] + picture.ends[cursor[1]]) / 2, cursor[0] + 0.5]
  : [(view.t0 + view.t1) / 2, (view.y0 + view.y1) / 2]);

const zoomWhole = () => { take(base, whole(base)); drawAll(); show(); };
const showSpace = (space) => { view.y0 = space.from; view.y1 = space.to; show(); field.focus(); };
const isInView = ([row, column]) => row + 1 > view.y0 && row < view.y1 && picture.ends[column] > view.t0 && picture.starts[column] < view.t1;

// The cell at the pointer

const spot = (event) => {
  const frame = field.getBoundingClientRect();
  return { x: event.clientX - frame.left, y: event.clientY - frame.top, width: frame.width, height: frame.height };
};
const timeAt = ({ x, width }) => view.t0 + (x / width) * (view.t1 - view.t0);
const placeAt = ({ y, height }) => view.y0 + (y / height) * (view.y1 - view.y0);

/** Row and column at a point. Of several in one pixel it is the hottest, as it is the one that is drawn. */
const cellAt = (point) => {
  if (!picture?.columns || !picture.rows || point.x < 0 || point.y < 0 || point.x >= point.width || point.y >= point.height) return null;
  const ratio = window.devicePixelRatio || 1;
  const [wide, tall] = [(view.t1 - view.t0) / (point.width * ratio), (view.y1 - view.y0) / (point.height * ratio)];
  const [at, place] = [timeAt(point), placeAt(point)];
  if (!picture.knows(at) && !picture.knows(at + wide)) return null;
  const rows = [Math.min(picture.rows - 1, Math.floor(place)), Math.min(picture.rows - 1, Math.max(Math.floor(place), Math.ceil(place + tall) - 1))];
  const columns = [picture.column(at), Math.max(picture.column(at), picture.column(at + wide * 0.98))];
  let best = [rows[0], columns[0]];
  for (let row = rows[0]; row <= rows[1]; row += 1) {
    for (let column = columns[0]; column <= columns[1]; column += 1) {
      if (picture.code(row, column) > picture.code(...best)) best = [row, column];
    }
  }
  return best;
};

/** Marks near a point, the nearest first, as places in `picture.marks`. */
const marksNear = (point, reach = 9) => picture.marks.flatMap(([at, kind, row], place) => {
  if (look.hidden.has(kind)) return [];
  const x = ((at - view.t0) / (view.t1 - view.t0)) * point.width;
  const y = ((row + 0.5 - view.y0) / (view.y1 - view.y0)) * point.height;
  const far = Math.hypot(x - point.x, y - point.y);
  return far <= reach ? [{ far, place }] : [];
}).sort((one, other) => one.far - other.far).map(({ place }) => place);

/** Marks in a cell, as places in `picture.marks`. */
const marksIn = (row, column) => picture.marksAt.get(row * picture.columns + column) ?? [];

/** The moment of the most telling of the marks that are shown in a cell, or null: a bounce before the move it undoes. */
const markedAt = (row, column) => {
  const marks = marksIn(row, column).map((place) => picture.marks[place]).filter(([, kind]) => !look.hidden.has(kind));
  const [first] = marks.sort(([, one], [, other]) => SIGNS.indexOf(other) - SIGNS.indexOf(one));
  return first?.[0] ?? null;
};

const markWords = (place) => {
  const [at, kind, , text] = picture.marks[place];
  return `${stamp(at)} ${kind}: ${visible(picture.texts[text])}`;
};

const hideTip = () => { by("tip").hidden = true; };
const showTip = (point, cell) => {
  const tip = by("tip");
  const near = marksNear(point);
  if (!cell && !near.length) { tip.hidden = true; return; }
  const lines = [];
  if (cell) {
    const [row, column] = cell;
    const value = made("strong", picture.valueWords(picture.code(row, column)));
    if (picture.isShared(row, column)) value.append(made("small", " shared by width"));
    const name = made("div", "", { class: "tip-name" });
    name.append(named(picture.rowWords(row)));
    const owner = made("div", "on ");
    owner.append(named(picture.ownerWords(row, column)));
    lines.push(value, name, made("div", `${picture.columnWords(column)} UTC`, { class: "tip-time" }), owner);
  }
  const inCell = cell ? marksIn(...cell).filter((place) => !look.hidden.has(picture.marks[place][1])) : [];
  const places = [...new Set([...near, ...inCell])];
  lines.push(...places.slice(0, 5).map((place) => made("div", markWords(place), { class: "tip-mark" })));
  if (places.length > 5) lines.push(made("div", `and ${places.length - 5} more marks`));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = point.x + 16 + width > point.width ? Math.max(0, point.x - width - 14) : point.x + 16;
  tip.style.left = `${Math.min(left, Math.max(0, point.width - width))}px`;
  tip.style.top = `${Math.max(0, Math.min(point.y + 14, point.height - height))}px`;
};

// Why

/** Chooses a cell and asks why; `goes`: whether the focus goes there. */
const choose = (row, column, goes, at = null) => {
  cursor = [row, column];
  chosen = cellOf(picture, row, column, at);
  drawTop();
  keep();
  askWhy(whyAddress(picture.cluster, chosen), goes, marksIn(row, column).map(markWords));
};

/** The place of a cell among the rows and columns of the picture. */
const placeOf = (cell) => [Math.max(0, Math.min(picture.rows - 1, Math.floor(picture.place([cell.namespace, cell.lower]) + 1e-6))), picture.column(cell.from)];

let explaining = null;
const askWhy = async (address, goes, marks = []) => {
  explaining?.abort();
  explaining = new AbortController();
  const { signal } = explaining;
  const [panel, body] = [by("why-panel"), by("why-body")];
  const wasHidden = panel.hidden;
  panel.hidden = false;
  root.classList.add("with-why");
  body.replaceChildren(made("p", "The record is being asked …", { class: "note" }));
  if (wasHidden) drawAll();
  try {
    const answer = await patiently(address, { signal, headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) throw await refusal(answer);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("why") ?? page.querySelector(".chapter");
    if (!found) throw new Refused("", "The desk gave no answer that could be read.");
    for (const link of found.querySelectorAll("a[href]")) link.href = new URL(link.getAttribute("href"), new URL(address, location.href)).href;
    for (const link of found.querySelectorAll("a[data-why]")) {
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        askWhy(link.href, true);
      });
    }
    body.replaceChildren(document.adoptNode(found));
    if (marks.length) {
      const list = made("ul", "", { class: "plain here" });
      list.append(...marks.map((words) => made("li", words)));
      found.querySelector(".when")?.after(list);
    }
    tell("");
    const head = body.querySelector("h2, h1");
    say(`Why: ${head?.textContent ?? ""}`);
    if (goes) { head?.setAttribute("tabindex", "-1"); head?.focus({ preventScroll: true }); panel.scrollIntoView({ block: "nearest" }); }
  } catch (error) {
    if (error.name === "AbortError") return;
    tell("");
    body.replaceChildren(made("p", `${error.title ?? "The record could not be asked."} ${error.message}`, { class: "callout" }));
    say(error.message);
  }
};

const closeWhy = () => {
  explaining?.abort();
  by("why-panel").hidden = true;
  by("why-body").replaceChildren();
  root.classList.remove("with-why");
  chosen = null;
  drawAll();
  keep();
  field.focus({ preventScroll: true });
};

// Pointer and fingers

const fingers = new Map();
let drag = null;
let pinch = null;

const isPinch = () => fingers.size === 2;
const pinchOf = () => {
  const [one, other] = [...fingers.values()];
  return { wide: Math.hypot(one.x - other.x, one.y - other.y), x: (one.x + other.x) / 2, y: (one.y + other.y) / 2, width: one.width, height: one.height };
};

field.addEventListener("pointerdown", (event) => {
  if (!picture?.columns || event.button > 0) return;
  const point = spot(event);
  hideTip();
  fingers.set(event.pointerId, point);
  field.setPointerCapture(event.pointerId);
  if (isPinch()) { pinch = pinchOf(); drag = box = null; return; }
  const marks = event.pointerType === "mouse" && (event.shiftKey || isWhole());
  drag = { from: point, last: point, moves: false, marks, pans: !isWhole() };
});

field.addEventListener("pointermove", (event) => {
  if (!picture?.columns) return;
  const point = spot(event);
  if (fingers.has(event.pointerId)) fingers.set(event.pointerId, point);
  if (isPinch() && pinch) {
    const now = pinchOf();
    const [at, place] = [timeAt(pinch), placeAt(pinch)];
    view.t0 -= ((now.x - pinch.x) / now.width) * (view.t1 - view.t0);
    view.t1 -= ((now.x - pinch.x) / now.width) * (view.t1 - view.t0);
    zoom(pinch.wide / Math.max(1, now.wide), at, place);
    pinch = now;
    return;
  }
  if (drag) {
    drag.moves ||= Math.hypot(point.x - drag.from.x, point.y - drag.from.y) > (event.pointerType === "mouse" ? 5 : FINGER);
    if (!drag.moves) return;
    if (drag.marks) {
      box = [drag.from.x, drag.from.y, point.x, point.y];
      drawTop();
    } else if (drag.pans) {
      const [dt, dy] = [((point.x - drag.last.x) / point.width) * (view.t1 - view.t0), ((point.y - drag.last.y) / point.height) * (view.y1 - view.y0)];
      if (picture !== base && (view.y0 - dy < 0 || view.y1 - dy > picture.rows || view.t0 - dt < picture.first || view.t1 - dt > picture.last)) moved(base);
      view = { t0: view.t0 - dt, t1: view.t1 - dt, y0: view.y0 - ((point.y - drag.last.y) / point.height) * (view.y1 - view.y0), y1: view.y1 - ((point.y - drag.last.y) / point.height) * (view.y1 - view.y0) };
      drag.last = point;
      show();
    }
    return;
  }
  hovered = cellAt(point);
  showTip(point, hovered);
  drawTop();
});

const ended = (event) => {
  const point = fingers.get(event.pointerId);
  fingers.delete(event.pointerId);
  if (pinch) { if (!fingers.size) pinch = null; drag = null; return; }
  const done = drag;
  drag = null;
  if (!done || !point || event.type === "pointercancel") { box = null; if (picture) drawTop(); return; }
  if (box) {
    const [x0, y0, x1, y1] = box;
    box = null;
    const at = (x, y) => ({ x: Math.min(point.width, Math.max(0, x)), y: Math.min(point.height, Math.max(0, y)), width: point.width, height: point.height });
    const [one, other] = [at(Math.min(x0, x1), Math.min(y0, y1)), at(Math.max(x0, x1), Math.max(y0, y1))];
    const [t0, t1, top, bottom] = [timeAt(one), timeAt(other), placeAt(one), placeAt(other)];
    if (other.x - one.x > 8) [view.t0, view.t1] = [t0, t1];
    if (other.y - one.y > 8) [view.y0, view.y1] = [Math.floor(top), Math.ceil(bottom)];
    show();
    return;
  }
  if (done.moves) return;
  // A finger is broad, and on a phone the answer stands below the map: it is brought into sight.
  const isFinger = event.pointerType !== "mouse";
  const near = marksNear(point, isFinger ? FINGER : 9);
  if (near.length) {
    const [at, , row] = picture.marks[near[0]];
    choose(row, picture.column(at), isFinger, at);
    return;
  }
  const cell = cellAt(point);
  if (cell) choose(...cell, isFinger);
};
field.addEventListener("pointerup", ended);
field.addEventListener("pointercancel", ended);
field.addEventListener("pointerleave", () => { hideTip(); hovered = null; if (picture && colours) drawTop(); });

field.addEventListener("wheel", (event) => {
  if (!picture?.columns || (document.activeElement !== field && !event.ctrlKey && !event.metaKey)) return;
  event.preventDefault();
  const point = spot(event);
  const turned = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 24 : 1);
  const factor = Math.exp(Math.max(-120, Math.min(120, turned)) * 0.0025);
  zoom(factor, timeAt(point), placeAt(point), { time: !event.altKey, rows: !event.shiftKey });
}, { passive: false });

// Keys

const announced = () => {
  const [row, column] = cursor;
  const marks = marksIn(row, column).map((place) => picture.marks[place][1]);
  const more = marks.length ? `, ${marks.join(", ")}` : "";
  const shared = picture.isShared(row, column) ? ", shared by width" : "";
  return `${picture.valueWords(picture.code(row, column))}${shared}, ${shortened(picture.rowWords(row))}, ${picture.columnWords(column)}, on ${shortened(picture.ownerWords(row, column))}${more}`;
};

/** Puts the cell cursor somewhere, brings it into view, and says what is there. */
const goTo = (row, column) => {
  const over = [row < 0 ? -1 : row >= picture.rows ? 1 : 0, column < 0 ? -1 : column >= picture.columns ? 1 : 0];
  if (picture !== base && cursor && (over[0] || over[1])) {
    moved(base);  // what lies beside the sharper picture is in the whole one
    [row, column] = [cursor[0] + over[0], cursor[1] + over[1]];
    drawAll();
  }
  cursor = [Math.min(picture.rows - 1, Math.max(0, row)), Math.min(picture.columns - 1, Math.max(0, column))];
  const [tall, long] = [view.y1 - view.y0, view.t1 - view.t0];
  const before = { ...view };
  if (cursor[0] < view.y0) { view.y0 = cursor[0]; view.y1 = view.y0 + tall; }
  if (cursor[0] + 1 > view.y1) { view.y1 = cursor[0] + 1; view.y0 = view.y1 - tall; }
  const [start, end] = [picture.starts[cursor[1]], picture.ends[cursor[1]]];
  if (start < view.t0) { view.t0 = start; view.t1 = start + long; }
  if (end > view.t1) { view.t1 = end; view.t0 = end - long; }
  if (before.t0 !== view.t0 || before.y0 !== view.y0) { clamp(); drawView(); settle(); } else drawTop();
  const words = announced();
  say(words);
  tell(words);
};

const atCursor = () => cursor ?? [Math.floor(view.y0), picture.column(view.t1 - 1e-3)];

const hottest = () => {
  const [found] = picture.top(1, [Math.max(0, Math.floor(view.y0)), Math.min(picture.rows, Math.ceil(view.y1))], [picture.column(view.t0), picture.column(view.t1 - 1e-3) + 1]);
  if (found) goTo(found.row, found.column);
};

const nextMark = (way) => {
  const seen = picture.marks.filter(([, kind]) => !look.hidden.has(kind)).map(([at, , row]) => [row, picture.column(at)]);
  if (!seen.length) { say("There are no marks."); return; }
  const order = ([row, column]) => column * picture.rows + row;
  seen.sort((one, other) => order(one) - order(other));
  const here = cursor ? order(cursor) : -1;
  const next = way > 0 ? seen.find((one) => order(one) > here) ?? seen[0] : seen.findLast((one) => order(one) < here) ?? seen[seen.length - 1];
  goTo(...next);
};

const space = (way) => {
  const [row, column] = atCursor();
  const here = picture.spaces.findIndex(({ from, to }) => row >= from && row < to);
  const next = picture.spaces[Math.min(picture.spaces.length - 1, Math.max(0, here + way))];
  goTo(next.from, column);
};

const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

field.addEventListener("keydown", (event) => {
  hideTip();
  if (event.key === "?") { by("keys").showModal(); event.preventDefault(); return; }
  if (event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") {
    if (!by("why-panel").hidden) closeWhy(); else if (picture && !isWhole()) zoomWhole();
    return;
  }
  if (!picture?.columns || !picture.rows) return;
  const [row, column] = atCursor();
  const only = { time: !event.altKey, rows: !event.shiftKey || event.key === "+" && !event.altKey };
  const acts = {
    ...Object.fromEntries(Object.entries(arrows).map(([key, [down, right]]) => [key, () => {
      const step = event.shiftKey ? 10 : 1;
      goTo(cursor ? row + down * step : row, cursor ? column + right * step : column);
    }])),
    Home: () => goTo(row, picture.column(view.t0)),
    End: () => goTo(row, picture.column(view.t1 - 1e-3)),
    PageUp: () => space(-1),
    PageDown: () => space(1),
    Enter: () => choose(row, column, true, markedAt(row, column)),
    "+": () => zoom(0.5, ...middle(), only),
    "=": () => zoom(0.5, ...middle(), only),
    "-": () => zoom(2, ...middle(), only),
    "_": () => zoom(2, ...middle(), only),
    0: zoomWhole,
    h: hottest,
    n: () => nextMark(1),
    p: () => nextMark(-1),
    o: () => { look.isOwner = !look.isOwner; drawAll(); keep(); say(look.isOwner ? "Colours of owners" : "Colours of heat"); },
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
field.addEventListener("focus", () => { if (picture && colours) drawTop(); });
field.addEventListener("blur", () => { if (picture && colours) drawTop(); });
by("why-panel").addEventListener("keydown", (event) => { if (event.key === "Escape") closeWhy(); });
by("why-close").addEventListener("click", closeWhy);

// The address

const keyText = ([name, hash]) => `${name}/${Math.round(hash).toString(16)}`;
const keyFrom = (text) => { const cut = text.lastIndexOf("/"); return [text.slice(0, cut), parseInt(text.slice(cut + 1), 16) || 0]; };

/** Puts what is shown into the address. */
const keep = (pushes = false) => {
  if (!base) return;
  const words = new URLSearchParams(wanted());
  if (words.has("last")) { words.delete("from"); words.delete("to"); }
  if (look.isOwner) words.set("colour", "owner");
  if (look.broker) words.set("broker", look.broker);
  if (look.bright !== 5) words.set("bright", look.bright);
  if (look.hidden.size) words.set("without", [...look.hidden].join(" "));
  if (!isWhole() && picture.rows) words.set("view", [Math.round(view.t0), Math.round(view.t1), keyText(picture.key(view.y0)), keyText(picture.key(Math.min(view.y1, picture.rows)))].join("~"));
  if (chosen) {
    const { namespace, lower, last_namespace: last, upper, from, to, at } = chosen;
    words.set("cell", [from, to, keyText([namespace, lower]), keyText([last, upper]), ...(at === null ? [] : [at])].join("~"));
  }
  const address = `heat?${words}`;
  if (address === location.pathname.split("/").pop() + location.search) return;
  history[pushes ? "pushState" : "replaceState"](null, "", address);
};

const cellFrom = ([from, to, first, last, at]) => {
  if (!Number(from) || !Number(to) || !first || !last) return null;
  const [[namespace, lower], [lastNamespace, upper]] = [keyFrom(first), keyFrom(last)];
  return { namespace, lower, last_namespace: lastNamespace, upper, from: Number(from), to: Number(to), at: Number(at) || null };
};

/** Takes colours, zoom and cell from the address. */
const fromAddress = () => {
  const words = new URLSearchParams(location.search);
  const bright = Number(words.get("bright"));
  look = {
    isOwner: words.get("colour") === "owner",
    broker: words.get("broker") ?? "",
    bright: bright >= 1 && bright <= 9 ? bright : 5,
    hidden: new Set((words.get("without") ?? "").split(" ").filter((kind) => SIGNS.includes(kind))),
  };
  const parts = (words.get("view") ?? "").split("~");
  if (parts.length === 4 && base.rows && base.columns) {
    const [t0, t1] = parts.slice(0, 2).map(Number);
    const [y0, y1] = parts.slice(2).map((text) => base.place(keyFrom(text)));
    if (t1 > t0 && y1 > y0) { view = { t0, t1, y0, y1 }; clamp(); settle(); }
  }
  chosen = cellFrom((words.get("cell") ?? "").split("~"));
};

const atFirst = JSON.parse(root.dataset.asked);

/** Puts the words of an address into the form; what it leaves out is as the page came. */
const fillForm = (words) => {
  for (const name of ["cluster", "metric"]) form.elements[name].value = words.get(name) || atFirst[name];
  const given = words.has("from") || words.has("to");
  form.elements.last.value = given ? "" : words.get("last") || "24h";
  for (const name of ["from", "to", "within"]) form.elements[name].value = words.get(name) ?? "";
};

// The tools

const reload = () => { keepAsked(); load(wanted(), false); };
const keepAsked = () => { chosen = null; by("why-panel").hidden = true; root.classList.remove("with-why"); history.pushState(null, "", `heat?${new URLSearchParams(wanted())}`); };

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.elements.from.value.trim() || form.elements.to.value.trim()) form.elements.last.value = "";
  reload();
});
form.addEventListener("change", (event) => {
  if (event.target.name === "last") {
    if (event.target.value === "") { form.querySelector("details").open = true; form.elements.from.focus(); return; }
    form.elements.from.value = form.elements.to.value = "";
  }
  if (event.target.tagName !== "SELECT") return;
  if (event.target.name === "cluster") form.elements.within.value = "";
  reload();
});
for (const link of document.querySelectorAll("[data-way]")) {
  link.addEventListener("click", (event) => {
    if (!base || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const step = ((base.asked.to - base.asked.from) / 2) * Number(link.dataset.way);
    form.elements.last.value = "";
    form.elements.from.value = stamp(base.asked.from + step).replace(" ", "T");
    form.elements.to.value = stamp(base.asked.to + step).replace(" ", "T");
    reload();
  });
}
for (const button of document.querySelectorAll("[data-colour]")) {
  button.addEventListener("click", () => { look.isOwner = button.dataset.colour === "owner"; drawAll(); keep(); });
}
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => {
    if (!picture?.columns) return;
    if (button.dataset.zoom === "whole") zoomWhole(); else zoom(button.dataset.zoom === "in" ? 0.5 : 2, ...middle());
  });
}
for (const sign of document.querySelectorAll("[data-sign]")) drawSign(sign.getContext("2d"), sign.dataset.sign, 14, 14, 9);
for (const box_ of document.querySelectorAll("[data-mark]")) {
  box_.addEventListener("change", () => { look.hidden[box_.checked ? "delete" : "add"](box_.dataset.mark); drawTop(); keep(); });
}
by("bright").addEventListener("input", () => { look.bright = Number(by("bright").value); drawAll(); keep(); });
by("broker").addEventListener("change", () => { const code = Number(by("broker").value); look.broker = code ? base.brokers[code - 1] : ""; drawAll(); keep(); });
// The range of a shared address is fixed: `last=24h` would be another one for whoever opens it later.
by("share").addEventListener("click", async () => {
  if (!base) return;
  form.elements.last.value = "";
  [form.elements.from.value, form.elements.to.value] = [base.asked.from, base.asked.to].map((at) => stamp(at).replace(" ", "T"));
  keep(true);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  tell(copied ? "The address is copied. It shows this range, also later." : "The address of this page shows this range, also later: copy it.");
});
// A tip closes by Escape wherever the focus is, and once what is below it moves.
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
document.addEventListener("pointerdown", (event) => { if (!field.contains(event.target)) hideTip(); });
for (const kind of ["scroll", "blur"]) window.addEventListener(kind, hideTip, { passive: true });
by("keys-open").addEventListener("click", () => by("keys").showModal());

new ResizeObserver(() => { if (picture && colours) drawAll(); }).observe(field);
darkness.addEventListener("change", () => drawAll());
printing.addEventListener("change", () => drawAll());
window.addEventListener("beforeprint", () => drawAll());
window.addEventListener("popstate", () => { fillForm(new URLSearchParams(location.search)); closeQuietly(); load(wanted(), true); });
const closeQuietly = () => { by("why-panel").hidden = true; root.classList.remove("with-why"); };

const renew = async () => {
  if (document.hidden || !base || !form.elements.last.value || root.classList.contains("busy") || !isWhole()) return;
  try {
    const found = await asked(wanted(), { isQuiet: true, known: tag });
    if (!found || !isWhole()) return;
    const kept = chosen;
    base = found;
    tag = found.tag;
    take(found, whole(found));
    if (kept && found.rows && found.columns) cursor = placeOf(kept);
    by("notes").replaceChildren(...found.notes.map((line) => made("p", line, { class: "note" })));
    drawAll();
    settle();
  } catch {
    // The map stays as it is; its caption says of when it is.
  }
};
setInterval(renew, RENEW_MS);

root.hidden = root.dataset.problem !== undefined;
if (root.dataset.problem === undefined) load(wanted(), true);
