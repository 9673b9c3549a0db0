// A picture of the heat map, decoded from what /heat/picture answers: rows, columns, cells, and words for each.

const HIGHEST = 0xffffffff;
const SIZES = [[2 ** 40, "TiB/s"], [2 ** 30, "GiB/s"], [2 ** 20, "MiB/s"], [2 ** 10, "KiB/s"], [1, "byte/s"]];
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
export const SEVERAL = 65535;
export const NOTHING = 1;

/** The text with what cannot be seen written out, as the pages have it. */
export const visible = (text) =>
  String(text).replace(UNSEEN, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);

const twoDigits = (value) => {
  if (value === 0) return "0";
  const digits = 1 - Math.floor(Math.log10(Math.abs(value)));
  const rounded = Math.floor(value * 10 ** digits + 0.5) / 10 ** digits;
  const places = rounded >= 10 ? 0 : Math.max(digits, 0);
  return rounded.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
};

/** A value in words with a short figure: `220K msg/s`, where it has many digits. */
export const short = (value, unit) => {
  if (value < 1e4 || unit === "byte/s" || unit === "fraction") return about(value, unit);
  const figure = value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 2 });
  return unit === "count" ? figure : `${figure} ${unit}`;
};

/** A value of the map's scale, to the two digits that it has. */
export const about = (value, unit) => {
  if (unit === "fraction") return `${twoDigits(value * 100)} %`;
  if (unit === "byte/s") {
    const [size, name] = SIZES.find(([one]) => value >= one) ?? [1, "byte/s"];
    return `${twoDigits(value / size)} ${name}`;
  }
  return unit === "count" ? twoDigits(value) : `${twoDigits(value)} ${unit}`;
};

const two = (number) => String(number).padStart(2, "0");

/** A moment in UTC: `2026-11-21 08:27`, with seconds where it has some. */
export const stamp = (seconds) => {
  const at = new Date(seconds * 1000);
  const day = `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
  const late = at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "";
  return `${day} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${late}`;
};

const hex = (number) => `0x${number.toString(16).padStart(8, "0")}`;

const unpacked = async (text) => {
  const packed = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const unbitted = (bits, count) => {
  const found = new Uint8Array(count);
  for (let n = 0; n < count; n += 1) found[n] = (bits[n >> 3] >> (7 - (n & 7))) & 1;
  return found;
};

// Namespaces are in the order of tenant, then name.
const compared = (one, other) => {
  const [a, b] = [one, other].map((name) => name.split(/\/(.*)/s));
  if (a[0] !== b[0]) return a[0] < b[0] ? -1 : 1;
  const [c, d] = [a[1] ?? "", b[1] ?? ""];
  return c === d ? 0 : c < d ? -1 : 1;
};

export class Picture {
  /** The picture that `told`, the JSON of /heat/picture, holds. */
  static async of(told) {
    const [values, owners, shared] = await Promise.all(
      [told.values, told.owners, told.shared].map((text) => (text ? unpacked(text) : null)));
    return new Picture(told, values, owners, shared);
  }

  constructor(told, values, owners, shared) {
    Object.assign(this, told);
    this.told = told;
    this.rows = told.row_lower.length;
    this.columns = told.starts.length;
    const count = this.rows * this.columns;
    this.values = values ?? new Uint8Array(0);
    this.owners = owners ? new Uint16Array(owners.buffer, 0, count) : new Uint16Array(0);
    this.shared = shared ? unbitted(shared, count) : null;
    this.hatched = this._hatched();
    const { lowest, highest, steps } = told.scale;
    this.amounts = Float64Array.from({ length: 256 }, (_, code) =>
      code < 2 ? 0 : lowest * (highest / lowest) ** ((code - 2) / (steps - 1)));
    this.first = this.columns ? told.starts[0] : told.asked.from;
    this.last = this.columns ? told.ends[this.columns - 1] : told.asked.to;
    this.spaces = this._spaces();
    this.marksAt = new Map();
    told.marks.forEach((mark, place) => {
      const cell = mark[2] * this.columns + this.column(mark[0]);
      this.marksAt.set(cell, [...(this.marksAt.get(cell) ?? []), place]);
    });
  }

  /** Stretches of rows of one namespace, as far as rows begin in it: {name, from, to}. */
  _spaces() {
    const found = [];
    this.row_namespace.forEach((space, row) => {
      const last = found[found.length - 1];
      if (last && last.space === space) last.to = row + 1;
      else found.push({ space, name: this.namespaces[space], from: row, to: row + 1 });
    });
    return found;
  }

  /** The shared cells of rows that are one bundle; null where there is none. Ranges of several bundles change their
   * bounds all the time, so that of these nearly all are shared. */
  _hatched() {
    if (this.shared === null) return null;
    const found = this.shared.slice();
    this.row_bundles.forEach((bundles, row) => { if (bundles > 1) found.fill(0, row * this.columns, (row + 1) * this.columns); });
    return found.includes(1) ? found : null;
  }

  /** What a view of so many pixels per row can name: namespaces, or tenants where these are too many. */
  groups(tall) {
    if (this.spaces.length * 14 <= this.rows * tall * 1.2) return this.spaces;
    const found = [];
    for (const { name, from, to } of this.spaces) {
      const tenant = name.split("/")[0];
      const last = found[found.length - 1];
      if (last?.tenant === tenant) { last.to = to; last.count += 1; } else found.push({ tenant, name, from, to, count: 1 });
    }
    for (const one of found) if (one.count > 1) one.name = `${one.tenant}/`;
    return found;
  }

  code(row, column) { return this.values[row * this.columns + column]; }

  /** The value in words: `1,200 msg/s`, `nothing`, `not known`. */
  valueWords(code) {
    return code === 0 ? "not known" : code === NOTHING ? "nothing" : about(this.amounts[code], this.unit);
  }

  ownerWords(row, column) {
    const code = this.owners[row * this.columns + column];
    return code === SEVERAL ? "several brokers" : code === 0 ? "unknown" : visible(this.brokers[code - 1]);
  }

  isShared(row, column) { return this.shared !== null && this.shared[row * this.columns + column] === 1; }

  /** The bundle's name, or the range with the number of its bundles. */
  rowWords(row) {
    const [space, last] = [this.row_namespace[row], this.row_last_namespace[row]];
    const [first, bundles] = [visible(this.namespaces[space]), this.row_bundles[row]];
    const [lower, upper] = [hex(this.row_lower[row]), hex(this.row_upper[row])];
    const many = `(${bundles.toLocaleString("en-US")} bundles)`;
    if (space !== last) return `${first}/${lower} to ${visible(this.namespaces[last])}/${upper} ${many}`;
    return bundles === 1 ? `${first}/${lower}_${upper}` : `${first}/${lower}_${upper} ${many}`;
  }

  /** The range of a row, short: `30000000_40000000`. */
  rangeWords(row) { return [this.row_lower[row], this.row_upper[row]].map((one) => hex(one).slice(2)).join("_"); }

  /** From when to when a column is: `2026-11-21 08:20 to 08:30`. */
  columnWords(column) {
    const [from, to] = [stamp(this.starts[column]), stamp(this.ends[column])];
    return from.slice(0, 10) === to.slice(0, 10) ? `${from} to ${to.slice(11)}` : `${from} to ${to}`;
  }

  /** The column at a moment; in a gap, or beside them all, the one before it, or the first. */
  column(at) {
    let [low, high] = [0, this.columns];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] <= at) low = middle + 1; else high = middle;
    }
    return Math.max(0, low - 1);
  }

  /** Whether a moment lies in a column, and not in a gap. */
  knows(at) {
    const column = this.column(at);
    return this.columns > 0 && at >= this.starts[column] && at < this.ends[column];
  }

  /** A place among the rows (2.5: in the middle of the third one) as the namespace and hash there. */
  key(place) {
    const row = Math.min(this.rows - 1, Math.max(0, Math.floor(place)));
    const end = this.row_namespace[row] === this.row_last_namespace[row] ? this._end(row) : HIGHEST + 1;
    const part = Math.min(1, Math.max(0, place - row));
    return [this.namespaces[this.row_namespace[row]], this.row_lower[row] + part * (end - this.row_lower[row])];
  }

  _end(row) { return this.row_upper[row] === HIGHEST ? HIGHEST + 1 : this.row_upper[row]; }

  /** The place among the rows of a namespace and hash. */
  place([name, hash]) {
    let [low, high] = [0, this.rows];
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = compared(this.namespaces[this.row_namespace[middle]], name) || this.row_lower[middle] - hash;
      if (order <= 0) low = middle + 1; else high = middle;
    }
    const row = Math.max(0, low - 1);
    if (this.namespaces[this.row_namespace[row]] !== name) return low;
    const end = this.row_namespace[row] === this.row_last_namespace[row] ? this._end(row) : HIGHEST + 1;
    return row + Math.min(1, Math.max(0, (hash - this.row_lower[row]) / (end - this.row_lower[row])));
  }

  /** What of a cluster holds these rows: a bundle's name, a namespace or the beginning of names; "" for all of it. */
  part(from, to) {
    const [first, last] = [this.row_namespace[from], this.row_last_namespace[to]];
    const [one, other] = [this.namespaces[first], this.namespaces[last]];
    if (first === last) return `${one}/${hex(this.row_lower[from])}_${hex(this.row_upper[to])}`;
    let same = 0;
    while (same < one.length && one[same] === other[same]) same += 1;
    return one.slice(0, same);
  }

  /** Of each row of a part its first hottest cell, the hottest rows first: [{row, column, code}]. */
  top(most, [fromRow, toRow], [fromColumn, toColumn]) {
    const found = [];
    for (let row = fromRow; row < toRow; row += 1) {
      let [best, place] = [NOTHING, -1];
      for (let column = fromColumn, at = row * this.columns + column; column < toColumn; column += 1, at += 1) {
        if (this.values[at] > best) [best, place] = [this.values[at], column];
      }
      if (place >= 0) found.push({ row, column: place, code: best });
    }
    return found.sort((one, other) => other.code - one.code || one.row - other.row).slice(0, most);
  }
}
