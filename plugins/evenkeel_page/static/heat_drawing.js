// Draws the heat map: all cells of a view into one canvas, and marks, cursor and names of brokers over it.
//
// A pixel that several cells share shows the hottest of them, so that nothing hot is lost between pixels.

import { faded } from "./heat_colours.js";

export const SIGNS = ["move", "split", "held", "bounce"];
const SIGN_COLOURS = { move: "#ffffff", split: "#8be9ff", held: "#ffe14d", bounce: "#ff6b6b" };
const INK = "#101418";
const GAP_FROM = 7;
const LINE_FROM = 9;

/** Draws the sign of a kind of mark, so many pixels from its middle to its edge. */
export const drawSign = (context, kind, x, y, size) => {
  context.beginPath();
  if (kind === "move") {
    context.moveTo(x - size * 0.8, y - size); context.lineTo(x + size, y); context.lineTo(x - size * 0.8, y + size);
    context.closePath();
  } else if (kind === "split") {
    for (const way of [-1, 1]) {
      context.moveTo(x - size, y + way * size * 0.25); context.lineTo(x, y + way * size * 1.15);
      context.lineTo(x + size, y + way * size * 0.25); context.closePath();
    }
  } else if (kind === "held") {
    context.rect(x - size * 0.9, y - size * 0.9, size * 0.65, size * 1.8);
    context.rect(x + size * 0.25, y - size * 0.9, size * 0.65, size * 1.8);
  } else {
    // A cross, turned by an eighth: twelve corners around the middle.
    const [long, short] = [size * 1.1, size * 0.36];
    const corners = [
      [-short, -long], [short, -long], [short, -short], [long, -short], [long, short], [short, short],
      [short, long], [-short, long], [-short, short], [-long, short], [-long, -short], [-short, -short],
    ];
    for (const [dx, dy] of corners) context.lineTo(x + (dx - dy) * Math.SQRT1_2, y + (dx + dy) * Math.SQRT1_2);
    context.closePath();
  }
  context.lineJoin = "round";
  context.lineWidth = Math.max(1.2, size * 0.42);
  context.strokeStyle = INK;
  context.stroke();
  context.fillStyle = SIGN_COLOURS[kind];
  context.fill();
};

/** Sets a canvas to the size that it has on the page, in the screen's own pixels; says what these are. */
export const fitted = (canvas) => {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  return { context: canvas.getContext("2d"), width: w, height: h, ratio };
};

/** Of each of `width` pixels which columns lie in it: `from` and, after them, `to`. Without any both are 0. */
const columnsOf = (picture, view, width) => {
  const [from, to] = [new Int32Array(width), new Int32Array(width)];
  const each = (view.t1 - view.t0) / width;
  let column = 0;
  for (let x = 0; x < width; x += 1) {
    const [begin, end] = [view.t0 + x * each, view.t0 + (x + 1) * each];
    while (column < picture.columns && picture.ends[column] <= begin) column += 1;
    let last = column;
    while (last < picture.columns && picture.starts[last] < end) last += 1;
    // What only touches the pixel belongs to the pixel before.
    if (last - column > 1 && picture.starts[last - 1] > end - each * 0.02) last -= 1;
    if (last > column) { from[x] = column; to[x] = last; }
  }
  return { from, to };
};

/** Of each of `height` pixels its first row and the one after its last. */
const rowsOf = (picture, view, height) => {
  const [from, to] = [new Int32Array(height), new Int32Array(height)];
  const each = (view.y1 - view.y0) / height;
  for (let y = 0; y < height; y += 1) {
    const first = Math.floor(view.y0 + y * each + 1e-9);
    from[y] = Math.min(picture.rows - 1, Math.max(0, first));
    to[y] = Math.min(picture.rows, Math.max(from[y] + 1, Math.floor(view.y0 + (y + 1) * each + 1e-9)));
  }
  return { from, to };
};

/** Paints the cells; `look`: {heat, owner, isOwner, broker, dark}. Answers how many milliseconds it took. */
export const drawCells = (canvas, picture, view, look) => {
  const began = performance.now();
  const { context, width, height, ratio } = fitted(canvas);
  if (!picture.rows || !picture.columns) {
    context.clearRect(0, 0, width, height);
    return performance.now() - began;
  }
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const [across, down] = [columnsOf(picture, view, width), rowsOf(picture, view, height)];
  const { values, owners, hatched, columns } = picture;
  const [first, last] = [across.from[across.from.findIndex((_, x) => across.to[x] > 0)] ?? 0, Math.max(...across.to)];
  const codes = new Uint8Array(columns);
  const cells = new Int32Array(columns);
  const line = new Uint32Array(width);
  const isTall = height / (view.y1 - view.y0) >= GAP_FROM * ratio;
  const dim = look.broker ? Uint32Array.from(look.isOwner ? look.owner : look.heat, (one) => (one ? faded(one, look.dark) : 0)) : null;
  for (let y = 0; y < height; y += 1) {
    const [top, bottom] = [down.from[y], down.to[y]];
    if (y > 0 && top === down.from[y - 1] && bottom === down.to[y - 1]) {
      const isGap = isTall && (y + 1 === height || down.from[y + 1] !== top);
      if (!isGap) pixels.set(line, y * width);
      continue;
    }
    for (let column = first, at = top * columns + first; column < last; column += 1, at += 1) {
      codes[column] = values[at];
      cells[column] = at;
    }
    for (let row = top + 1; row < bottom; row += 1) {
      for (let column = first, at = row * columns + first; column < last; column += 1, at += 1) {
        if (values[at] > codes[column]) { codes[column] = values[at]; cells[column] = at; }
      }
    }
    for (let x = 0; x < width; x += 1) {
      const [begin, end] = [across.from[x], across.to[x]];
      if (end === 0) { line[x] = 0; continue; }
      let best = begin;
      for (let column = begin + 1; column < end; column += 1) if (codes[column] > codes[best]) best = column;
      const [code, cell] = [codes[best], cells[best]];
      const owner = owners[cell];
      if (code === 0 && (!look.isOwner || owner === 0)) { line[x] = 0; continue; }
      const table = dim && owner !== look.broker ? dim : look.isOwner ? look.owner : look.heat;
      line[x] = table[look.isOwner ? owner : code];
      if (hatched !== null && hatched[cell] === 1 && (x + y) % (6 * ratio) < ratio) line[x] = faded(line[x], look.dark, 0.6);
    }
    pixels.set(line, y * width);
  }
  context.putImageData(image, 0, 0);
  return performance.now() - began;
};

/** Where a moment and a place among the rows lie on the canvas. */
export const where = (view, width, height, at, place) => [
  ((at - view.t0) / (view.t1 - view.t0)) * width,
  ((place - view.y0) / (view.y1 - view.y0)) * height,
];

/** Draws what lies over the cells; `over`: {shown: kinds of marks, groups of rows, cursor: [row, column], box, paper}. */
export const drawOver = (canvas, picture, view, over) => {
  const { context, width, height, ratio } = fitted(canvas);
  context.clearRect(0, 0, width, height);
  if (!picture.rows || !picture.columns) return;
  context.fillStyle = over.paper;
  const tall = height / (view.y1 - view.y0);
  for (const group of over.groups) {
    const [, y] = where(view, width, height, 0, group.from);
    const isWide = (group.to - group.from) * tall >= LINE_FROM * ratio;
    if (isWide && y > 0 && y < height) context.fillRect(0, Math.round(y) - ratio * 0.75, width, ratio * 1.5);
  }
  const marks = picture.marks.filter(([at, kind, row]) =>
    over.shown.has(kind) && at >= view.t0 && at < view.t1 && row + 1 > view.y0 && row < view.y1);
  // Many marks are small ones, so that heat stays to be seen between them.
  const crowd = Math.min(1, Math.max(0.5, Math.sqrt(250 / Math.max(1, marks.length))));
  const size = Math.max(4.2, Math.min(7, 3.4 + tall / ratio / 4)) * ratio * crowd;
  for (const kind of SIGNS) {
    for (const [at, own, row] of marks) {
      if (own === kind) drawSign(context, kind, ...where(view, width, height, at, row + 0.5), size);
    }
  }
  if (over.cursor) {
    const [row, column] = over.cursor;
    const [x0, y0] = where(view, width, height, picture.starts[column], row);
    const [x1, y1] = where(view, width, height, picture.ends[column], row + 1);
    const [w, h] = [Math.max(x1 - x0, 5 * ratio), Math.max(y1 - y0, 5 * ratio)];
    const [left, top] = [(x0 + x1 - w) / 2, (y0 + y1 - h) / 2];
    context.strokeStyle = "#101418";
    context.lineWidth = 4 * ratio;
    context.strokeRect(left, top, w, h);
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2 * ratio;
    context.strokeRect(left, top, w, h);
  }
  if (over.box) {
    const [x0, y0, x1, y1] = over.box.map((one) => one * ratio);
    context.fillStyle = "rgb(255 255 255 / 0.18)";
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
    context.setLineDash([5 * ratio, 4 * ratio]);
    context.lineWidth = 1.5 * ratio;
    context.strokeStyle = "#ffffff";
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
    context.setLineDash([]);
  }
};

/** Draws who owns each row at a column, as a narrow strip. */
export const drawOwners = (canvas, picture, view, column, colours) => {
  const { context, width, height } = fitted(canvas);
  context.clearRect(0, 0, width, height);
  if (!picture.rows || !picture.columns) return;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const down = rowsOf(picture, view, height);
  for (let y = 0; y < height; y += 1) {
    const code = picture.owners[down.from[y] * picture.columns + column];
    pixels.fill(code === 0 ? 0 : colours[code], y * width, (y + 1) * width);
  }
  context.putImageData(image, 0, 0);
};

/** Draws the sum (of a share the largest) of the rows in view per column; answers the largest of these. */
export const drawStrip = (canvas, picture, view, colour) => {
  const { context, width, height, ratio } = fitted(canvas);
  context.clearRect(0, 0, width, height);
  const [from, to] = [Math.max(0, Math.floor(view.y0)), Math.min(picture.rows, Math.ceil(view.y1))];
  const sums = new Float64Array(picture.columns);
  const isShare = picture.unit === "fraction";
  for (let row = from; row < to; row += 1) {
    for (let column = 0, at = row * picture.columns; column < picture.columns; column += 1, at += 1) {
      const value = picture.amounts[picture.values[at]];
      sums[column] = isShare ? Math.max(sums[column], value) : sums[column] + value;
    }
  }
  const inside = sums.filter((_, n) => picture.ends[n] > view.t0 && picture.starts[n] < view.t1);
  const most = inside.reduce((one, other) => Math.max(one, other), 0);
  context.fillStyle = colour;
  for (let column = 0; column < picture.columns; column += 1) {
    const [x0] = where(view, width, height, picture.starts[column], 0);
    const [x1] = where(view, width, height, picture.ends[column], 0);
    if (x1 < 0 || x0 > width) continue;
    const tall = most ? (sums[column] / most) * (height - 2 * ratio) : 0;
    const [left, right] = [Math.floor(x0), Math.max(Math.floor(x0) + 1, Math.floor(x1))];
    context.fillRect(left, height - tall, right - left, tall);
  }
  return most;
};
