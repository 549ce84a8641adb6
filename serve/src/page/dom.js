// Elements and their text. All text goes through `visible`, none is ever parsed as HTML: what models, tools and
// repositories say stays text.

const SVG = 'http://www.w3.org/2000/svg';

// Control characters, those that reorder text, and those that nothing shows, but for what joins emoji and scripts.
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|(?<=[\x00-\x7f]|^)[\u200c\u200d]|[\u200c\u200d](?=[\x00-\x7f]|$)/gu;

const named = character => {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '␡';
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
};

/// Returns text with what nobody would see in visible form.
export const visible = text => String(text).replaceAll('\r\n', '\n').replace(HIDDEN, named);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, visible(value));
  }
  put(element, ...children);
  return element;
}

/// Returns an element. A function among the attributes listens to the event of its name; children that are no nodes are text.
export const el = (name, attributes = {}, ...children) =>
  filled(document.createElement(name), attributes, children);

/// Returns an element of a drawing.
export const draw = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

/// Adds children.
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
}

/// Puts children in the place of those that are there.
export function show(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
}

/// Returns the element with this id.
export const by = id => document.getElementById(id);

/// Says something to those who do not see the page.
export const tell = text => show(by('news'), text);

/// Returns the address of a link if it leads to the web or a mailbox, and nothing that runs here.
export function target(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/// Returns text on one line, without the marks of Markdown.
export const plain = text => text.replace(/^#+ |\*\*|`/gm, '').replace(/\s+/g, ' ').trim();

/// Returns a number of tokens for people: `950`, `12.4k`, `1.2M`.
export const tokens = number => {
  if (number < 1000) return String(number);
  return number < 1e6 ? `${(number / 1e3).toFixed(number < 1e5 ? 1 : 0)}k` : `${(number / 1e6).toFixed(1)}M`;
};

/// Returns an amount of dollars for people.
export const dollars = usd => `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;

/// Returns a duration for people.
export const duration = ms => (ms < 60_000 ? `${(ms / 1000).toFixed(1)}s`
  : `${Math.floor(ms / 60_000)}m${String(Math.floor(ms / 1000) % 60).padStart(2, '0')}s`);

/// Returns a time for people: the hour today, else the day too.
export function time(ms) {
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = isToday ? {} : { day: 'numeric', month: 'short' };
  return date.toLocaleString([], { hour: '2-digit', minute: '2-digit', ...day });
}
