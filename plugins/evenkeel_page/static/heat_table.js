// What the map shows, as a table and as words: the hottest cells, the scale, and the brokers.

import { asText, heatColours, OWN_COLOURS } from "./heat_colours.js";
import { short, stamp, visible } from "./heat_picture.js";
import { fitted } from "./heat_drawing.js";

export const MOST_TOP = 15;
const [MIDDLE, MOST_POWER] = [0.42, 2.2];
// A narrow page lays rows out as blocks; their roles keep them a table.
const CELL = { role: "cell" };

/** An element with its text and attributes; text is never read as HTML. */
export const made = (name, text = "", attributes = {}) => {
  const found = document.createElement(name);
  if (text !== "") found.textContent = text;
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
};

/** The text, or its beginning and end where it is long. */
export const shortened = (text, most = 90) => {
  const tail = Math.floor(most / 3);
  return text.length <= most ? text : `${text.slice(0, most - tail - 1)}…${text.slice(-tail)}`;
};

/** A name from a cluster, kept apart from the text around it. */
export const named = (text) => made("bdi", shortened(text), { class: "n" });

/** A cell as its why is asked for, whatever picture shows it; `at`: the moment of a mark in it, or null. */
export const cellOf = (picture, row, column, at = null) => ({
  namespace: picture.namespaces[picture.row_namespace[row]],
  lower: picture.row_lower[row],
  last_namespace: picture.namespaces[picture.row_last_namespace[row]],
  upper: picture.row_upper[row],
  from: picture.starts[column],
  to: picture.ends[column],
  at,
});

/** The address of a cell's why. */
export const whyAddress = (cluster, cell) => {
  const words = new URLSearchParams({ cluster, ...cell });
  if (cell.last_namespace === cell.namespace) words.delete("last_namespace");
  if (cell.at === null) words.delete("at");
  return `heat/why?${words}`;
};

/** Fills the table with the hottest cells of a view; a press on a link of it calls `ask` with row and column. */
export const fillTop = (picture, view, ask) => {
  const [first, last] = [picture.column(view.t0), picture.column(view.t1 - 1e-3) + 1];
  const rows = [Math.max(0, Math.floor(view.y0)), Math.min(picture.rows, Math.ceil(view.y1 - 1e-9))];
  const found = picture.columns ? picture.top(MOST_TOP, rows, [first, last]) : [];
  const body = document.querySelector("#top tbody");
  body.replaceChildren(...found.map(({ row, column, code }) => {
    const line = made("tr", "", { role: "row" });
    const head = made("th", "", { scope: "row", role: "rowheader" });
    head.append(named(picture.rowWords(row)));
    const when = made("td", "", CELL);
    when.append(made("time", stamp(picture.starts[column]), { datetime: new Date(picture.starts[column] * 1000).toISOString() }));
    const owner = made("td", "", CELL);
    owner.append(named(picture.ownerWords(row, column)));
    const link = made("a", "why", { href: whyAddress(picture.cluster, cellOf(picture, row, column)) });
    link.append(made("span", ` ${shortened(picture.rowWords(row), 60)}`, { class: "unseen" }));
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      ask(row, column);
    });
    const last = made("td", "", CELL);
    last.append(link);
    const value = made("td", picture.valueWords(code), { class: "num", ...CELL });
    if (picture.hatched?.[row * picture.columns + column]) value.append(made("small", " shared by width"));
    line.append(head, when, value, owner, last);
    return line;
  }));
  if (!found.length) {
    const line = made("tr", "", { role: "row" });
    line.append(made("td", "Nothing above 0 is known here.", { colspan: "5", class: "none", ...CELL }));
    body.append(line);
  }
};

/** The codes that the colours run over, from what a twentieth of the known cells lies below to the highest, and by which
 * exponent: the middle cell is a little darker than the middle of the scale, so that what is hotter stands out. */
export const spanOf = (picture) => {
  const counts = new Uint32Array(256);
  for (let n = 0; n < picture.values.length; n += 1) counts[picture.values[n]] += 1;
  let known = 0;
  for (let code = 2; code < 256; code += 1) known += counts[code];
  let [lowest, middle, seen, highest] = [2, 2, 0, 2];
  for (let code = 2; code < 256; code += 1) {
    if (seen < known * 0.05) lowest = code;
    if (seen < known * 0.5) middle = code;
    seen += counts[code];
    if (counts[code]) highest = code;
  }
  const part = (middle - lowest) / Math.max(1, highest - lowest);
  const power = part > 0 && part < 1 ? Math.min(MOST_POWER, Math.max(1, Math.log(MIDDLE) / Math.log(part))) : 1;
  return { lowest: Math.min(lowest, highest), highest, power };
};

/** Draws the scale with its values. */
export const drawScale = (picture, span, bright, dark) => {
  const canvas = document.getElementById("scale");
  const { context, width, height } = fitted(canvas);
  const colours = heatColours({ ...span, bright, dark });
  for (let x = 0; x < width; x += 1) {
    context.fillStyle = asText(colours[Math.round(span.lowest + ((span.highest - span.lowest) * x) / Math.max(1, width - 1))]);
    context.fillRect(x, 0, 1, height);
  }
  const count = canvas.getBoundingClientRect().width < 260 ? 3 : 5;
  const places = span.highest > span.lowest ? Array.from({ length: count }, (_, n) => n / (count - 1)) : [0];
  document.getElementById("ticks").replaceChildren(...places.map((part) => {
    const code = Math.round(span.lowest + part * (span.highest - span.lowest));
    // The unit of rates stands once: at the end.
    const word = short(picture.amounts[code], part < 1 && picture.unit === "msg/s" ? "count" : picture.unit);
    const shown = part === 0 && span.lowest > 2 ? `≤ ${word}` : word;
    const found = made("span", shown);
    found.style.left = `${part * 100}%`;
    return found;
  }));
};

/** Codes of brokers that own cells, the one with most first. */
export const ownersByCells = (picture) => {
  const counts = new Uint32Array(picture.brokers.length + 1);
  for (let n = 0; n < picture.owners.length; n += 1) if (picture.owners[n] < counts.length) counts[picture.owners[n]] += 1;
  return picture.brokers.map((_, place) => place + 1).filter((code) => counts[code]).sort((one, other) => counts[other] - counts[one]);
};

/** Fills the choice of brokers and, for colours of owners, their legend; a press on one calls `choose` with its code. */
export const fillBrokers = (picture, order, colours, chosen, isOwner, choose) => {
  const list = document.getElementById("broker");
  const names = order.map((code) => [code, visible(picture.brokers[code - 1])]).sort((one, other) => (one[1] < other[1] ? -1 : 1));
  list.replaceChildren(made("option", "all brokers", { value: "" }), ...names.map(([code, name]) => made("option", name, { value: code })));
  list.value = chosen || "";
  const legend = document.getElementById("brokers");
  legend.hidden = !isOwner;
  if (!isOwner) { legend.replaceChildren(); return; }
  const buttons = order.slice(0, OWN_COLOURS).map((code) => {
    const button = made("button", "", { type: "button", "aria-pressed": String(code === chosen) });
    const swatch = made("i", "", { class: "swatch" });
    swatch.style.backgroundColor = asText(colours[code]);
    button.append(swatch, named(visible(picture.brokers[code - 1])));
    button.addEventListener("click", () => choose(code === chosen ? 0 : code));
    return button;
  });
  if (order.length > OWN_COLOURS) {
    const rest = made("span", `${order.length - OWN_COLOURS} more, in pale colours: highlight one to see it`, { class: "rest" });
    buttons.push(rest);
  }
  legend.replaceChildren(...buttons);
};

const STEPS = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000];

/** Writes times below the map, and marks moments at which settings changed ([seconds, words]). */
export const fillTimes = (view, width, changes) => {
  const most = Math.max(2, Math.floor(width / 60));
  const step = STEPS.find((one) => (view.t1 - view.t0) / one <= most) ?? STEPS[STEPS.length - 1];
  const found = [];
  let day = "";
  for (let at = Math.ceil(view.t0 / step) * step; at <= view.t1; at += step) {
    const [date, clock] = stamp(at).split(" ");
    const part = (at - view.t0) / (view.t1 - view.t0);
    if (part > 0.985 || part < 0.012) continue;
    const tick = made("span", step >= 86400 ? date.slice(5) : clock);
    if (step < 86400 && date !== day) tick.append(made("small", date.slice(5)));
    day = date;
    tick.style.left = `${part * 100}%`;
    found.push(tick);
  }
  if (!found.length) found.push(made("span", stamp(view.t0), { class: "only" }));
  for (const [at, words] of changes) {
    if (at < view.t0 || at > view.t1) continue;
    const mark = made("i", "", { class: "change", title: `${stamp(at)} UTC, settings: ${words}` });
    mark.style.left = `${((at - view.t0) / (view.t1 - view.t0)) * 100}%`;
    found.push(mark);
  }
  document.getElementById("times").replaceChildren(...found);
};

/** Writes namespaces, and of tall rows their ranges, beside the map; a press on a namespace calls `show` with it. */
export const fillNames = (picture, view, height, show) => {
  const tall = height / (view.y1 - view.y0);
  const found = [];
  let free = -1;
  let before = "";
  for (const space of picture.groups(tall)) {
    const [top, bottom] = [(space.from - view.y0) * tall, (space.to - view.y0) * tall].map((y) => Math.min(height, Math.max(0, y)));
    if (bottom - top < 3) continue;
    const y = Math.max(free, top);
    if (y + 13 > Math.max(bottom, top + 13) + 6 || y + 13 > height) continue;
    const [tenant, name] = visible(space.name).split(/\/(.*)/s);
    const isFirst = tenant !== before;
    const label = made("div", "", { class: isFirst ? "space first" : "space", title: visible(space.name) });
    before = tenant;
    label.append(made("span", `${tenant}/`, { class: "tenant" }), made("span", name ?? ""));
    label.style.top = `${y + 1}px`;
    label.addEventListener("click", () => show(space));
    found.push(label);
    if (top > 0 && bottom - top >= 18) {
      const line = made("div", "", { class: "edge" });
      line.style.top = `${top}px`;
      found.push(line);
    }
    free = y + (isFirst && tall >= 13 && name ? 29 : 15);
  }
  const names = document.getElementById("names");
  names.classList.toggle("tall", tall >= 13);
  if (tall >= 13) {
    for (let row = Math.max(0, Math.floor(view.y0)); row < Math.min(picture.rows, view.y1); row += 1) {
      const label = made("div", picture.rangeWords(row), { class: "range" });
      label.style.top = `${(row + 0.5 - view.y0) * tall}px`;
      found.push(label);
    }
  }
  names.replaceChildren(...found);
};
