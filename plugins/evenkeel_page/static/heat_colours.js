// Colours of the heat map. The scale has even steps of lightness, so that it is read alike with any kind of colour sight
// and in grey; dark pages run from dark to light, light ones from light to dark. Brokers have the colours of Okabe and
// Ito, which stay apart without red and green; others are pale, only to be told from their neighbours, and can be
// highlighted.

// Lightness, chroma and hue (OKLCH) from nothing much to the most.
const DARK = [[0.2, 0.045, 285], [0.32, 0.13, 300], [0.44, 0.17, 335], [0.56, 0.19, 10], [0.68, 0.17, 40], [0.8, 0.15, 70], [0.93, 0.13, 102]];
const LIGHT = [[0.955, 0.035, 100], [0.845, 0.1, 85], [0.73, 0.145, 60], [0.6, 0.17, 32], [0.475, 0.165, 5], [0.36, 0.14, 330], [0.25, 0.09, 295]];
const NOTHING = { dark: [0.17, 0.012, 265], light: [0.985, 0.006, 250] };
const BROKERS = {
  dark: ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#3d8fd1", "#d55e00", "#cc79a7"],
  light: ["#e69f00", "#56b4e9", "#009e73", "#d8cb1c", "#0072b2", "#d55e00", "#cc79a7"],
};
const OTHERS = { dark: [0.36, 0.45, 0.54], light: [0.86, 0.77, 0.68] };
export const OWN_COLOURS = 7;

const gamma = (part) => (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055);
const byte = (part) => Math.round(255 * Math.min(1, Math.max(0, gamma(part))));

const rgb = ([lightness, chroma, hue]) => {
  const turn = (hue * Math.PI) / 180;
  const [a, b] = [chroma * Math.cos(turn), chroma * Math.sin(turn)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    byte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
};

const packed = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
const fromText = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/** The colour of a part (0 to 1) of the scale, as [red, green, blue]. */
export const scaleColour = (part, dark) => {
  const stops = dark ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, part)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  return rgb(stops[low].map((value, place) => {
    let step = stops[low + 1][place] - value;
    if (place === 2 && Math.abs(step) > 180) step -= Math.sign(step) * 360;
    return value + (at - low) * step;
  }));
};

/** Brightness 1 to 9 as a factor of the scale's exponent; 5 leaves it as it is. */
const exponent = (bright, dark) => 2 ** ((dark ? 5 - bright : bright - 5) * 0.35);

/** Code -> colour as one number, for `lowest` to `highest` code and the scale's exponent; 0 is see-through. */
export const heatColours = ({ lowest, highest, power, bright, dark }) => {
  const found = new Uint32Array(256);
  found[1] = packed(rgb(NOTHING[dark ? "dark" : "light"]));
  const span = Math.max(1, highest - lowest);
  for (let code = 2; code < 256; code += 1) {
    const part = Math.min(1, Math.max(0, (code - lowest) / span));
    found[code] = packed(scaleColour(part ** (power * exponent(bright, dark)), dark));
  }
  return found;
};

/** Owner code -> colour as one number; `order`: the codes of brokers, the one with most cells first. */
export const ownerColours = (count, order, dark) => {
  const found = new Uint32Array(65536);
  const mode = dark ? "dark" : "light";
  for (let code = 1; code <= count; code += 1) found[code] = packed(rgb([OTHERS[mode][code % 3], 0.045, (code * 137.5) % 360]));
  found[0] = packed(rgb(NOTHING[mode]));
  found[65535] = packed(rgb(dark ? [0.3, 0, 0] : [0.86, 0, 0]));
  order.slice(0, OWN_COLOURS).forEach((code, place) => { found[code] = packed(fromText(BROKERS[mode][place])); });
  return found;
};

/** A colour of which so much (0 to 1) is left, and the rest is the page: what is not highlighted stands back. */
export const faded = (colour, dark, left = 0.16) => {
  const paper = dark ? [0x12, 0x17, 0x1e] : [255, 255, 255];
  const parts = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  return packed(parts.map((part, place) => Math.round(part * left + paper[place] * (1 - left))));
};

/** A number of these as text for a style. */
export const asText = (colour) => `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
