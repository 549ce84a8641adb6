// Markdown as elements: headings, lists, quotes, tables, code, links. What is no Markdown is text; HTML is text too.

import { el, show, target } from './dom.js';
import { coloured } from './highlight.js';

// Longer texts, and deeper ones, are shown as they are: nobody reads them, and somebody may have made them to be slow. Each
// pattern takes time that grows with the line: no two repeated parts of one match the same text, and `.` matches all of it.
const LONGEST = 200_000;
const LONGEST_LINE = 20_000;
const DEEPEST = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/s;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/s;
const QUOTE = /^ {0,3}> ?(.*)$/s;
const DASHES = /^[ :|-]+$/;

/// Returns a text as elements.
export function markdown(text) {
  if (text.length > LONGEST) return [el('pre', {}, text)];
  return blocks(text.replaceAll('\r\n', '\n').split('\n'), 0);
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = depth > DEEPEST ? [el('p', {}, lines.join('\n')), lines.length] : one(lines, at, depth);
    if (block) made.push(block);
    at = next;
  }
  return made;
}

/// Returns the block that begins at a line, and the line behind it.
function one(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  // Their order is that of the message, and no outline of the page.
  if (heading) return [el('h2', { class: `level-${heading[1].length}` }, inline(unmarked(heading[2]))), at + 1];
  if (RULE.test(line)) return [el('hr'), at + 1];
  if (QUOTE.test(line)) {
    const end = last(lines, at, it => QUOTE.test(it));
    const inner = lines.slice(at, end).map(it => QUOTE.exec(it)[1]);
    return [el('blockquote', {}, blocks(inner, depth + 1)), end];
  }
  if (ITEM.test(line)) return list(lines, at, depth);
  if (line.includes('|') && isRuler(lines[at + 1] ?? '')) return table(lines, at);
  const end = last(lines, at + 1, (it, index) => it.trim() && !begins(it, lines[index + 1]));
  return [el('p', {}, inline(lines.slice(at, end).join('\n'))), end];
}

/// Returns a heading without the marks at its end.
function unmarked(text) {
  const all = text.trimEnd();
  let end = all.length;
  while (all[end - 1] === '#') end -= 1;
  return end === 0 || /\s/.test(all[end - 1]) ? all.slice(0, end).trimEnd() : all;
}

/// Returns whether a line parts the head of a table from its rows.
const isRuler = line => DASHES.test(line) && line.includes('-') && line.includes('|');

const begins = line => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || RULE.test(line);

/// Returns the first line from `at` on that is not like the others.
function last(lines, at, isLike) {
  let end = at;
  while (end < lines.length && isLike(lines[end], end)) end += 1;
  return end;
}

function fenced(lines, at, [, mark, language]) {
  const isEnd = line => line.trim().startsWith(mark) && !line.trim().replaceAll(mark[0], '');
  const end = last(lines, at + 1, line => !isEnd(line));
  return [code(lines.slice(at + 1, end).join('\n'), language), end + 1];
}

/// Returns a block of code. One that scrolls is reached by the keyboard.
export const code = (text, language = '') => el('div', { class: 'code' },
  el('pre', { tabindex: 0, role: 'group', 'aria-label': language ? `Code, ${language}` : 'Code' }, el('code', {}, coloured(text, language))),
  el('button', { type: 'button', class: 'quiet copy', click: event => copy(text, event.currentTarget) }, 'Copy'));

function copy(text, button) {
  const say = word => show(button, word);
  navigator.clipboard.writeText(text).then(() => say('Copied'), () => say('Not copied'));
}

function list(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || item[1].length !== indent.length || /\d/.test(item[2]) !== isOrdered) break;
    const isInner = line => !line.trim() || line.startsWith(' '.repeat(indent.length + 2));
    let end = last(lines, next + 1, isInner);
    // An item goes on where a paragraph does.
    if (end === next + 1) end = last(lines, end, line => line.trim() && !begins(line));
    const inner = lines.slice(next + 1, end).map(line => line.slice(Math.min(indent.length + 2, line.search(/\S|$/))));
    items.push(entry([item[3], ...inner], depth));
    next = end;
  }
  const start = isOrdered && Number.parseInt(mark, 10) !== 1 ? Number.parseInt(mark, 10) : null;
  return [el(isOrdered ? 'ol' : 'ul', { start }, items), next];
}

function entry(lines, depth) {
  const task = /^\[([ xX])\]\s+(.*)$/s.exec(lines[0]);
  const sign = task && el('span', { class: 'task' }, task[1] === ' ' ? '☐ ' : '☑ ');
  const made = blocks([task ? task[2] : lines[0], ...lines.slice(1)], depth + 1);
  // A single paragraph needs no room about it.
  const [first, ...rest] = made;
  return el('li', {}, sign, first?.tagName === 'P' ? [...first.childNodes] : first ?? '', rest);
}

const cells = line => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map(cell => cell.trim());

function table(lines, at) {
  const end = last(lines, at + 2, line => line.includes('|'));
  const row = (line, name) => el('tr', {}, cells(line).map(cell => el(name, {}, inline(cell))));
  const body = lines.slice(at + 2, end).map(line => row(line, 'td'));
  const made = el('table', {}, el('thead', {}, row(lines[at], 'th')), el('tbody', {}, body));
  return [el('div', { class: 'wide', tabindex: 0, role: 'group', 'aria-label': 'Table' }, made), end];
}

const MARKS = [['**', 'strong'], ['__', 'strong'], ['~~', 's'], ['*', 'em'], ['_', 'em']];
const LINK = /!?\[([^\][]{0,500})\]\(\s*<?([^\s<>()]{1,2000})>?(?:\s+"[^"]{0,500}")?\s*\)/y;
const AUTOMATIC = /<?(https?:\/\/[^\s<>"')\]]{1,2000}[^\s<>"')\].,;:!?])>?/y;
const PLAIN = /[^\\`*_~[!<h]+|./ysu;

/// Returns a line of text as elements.
export function inline(text, depth = 0) {
  if (text.length > LONGEST_LINE || depth > DEEPEST) return [text];
  const made = [];
  let at = 0;
  const read = pattern => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  while (at < text.length) {
    const [node, length] = piece(text, at, read, depth);
    if (typeof node === 'string' && typeof made.at(-1) === 'string') made.push(made.pop() + node);
    else made.push(node);
    at += length;
  }
  return made;
}

/// Returns what is at a place of the text, and its length.
function piece(text, at, read, depth) {
  if (text[at] === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) return [text[at + 1], 2];
  if (text[at] === '`') {
    const ticks = /^`+/.exec(text.slice(at, at + 64))[0];
    const end = text.indexOf(ticks, at + ticks.length);
    if (end < 0) return [ticks, ticks.length];
    const inner = text.slice(at + ticks.length, end);
    return [el('code', {}, inner.replace(/^ (.*) $/s, '$1')), end + ticks.length - at];
  }
  const link = read(LINK);
  if (link) return [anchor(link[1] ? inline(link[1], depth + 1) : link[2], link[2]), link[0].length];
  const automatic = read(AUTOMATIC);
  if (automatic) return [anchor(automatic[1], automatic[1]), automatic[0].length];
  for (const [mark, name] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const isInWord = mark[0] === '_' && /\w/.test(text[at - 1] ?? '');
    const from = at + mark.length;
    const end = text.indexOf(mark, from + 1);
    if (isInWord || end < 0 || /\s/.test(text[from]) || /\s/.test(text[end - 1])) return [mark, mark.length];
    return [el(name, {}, inline(text.slice(from, end), depth + 1)), end + mark.length - at];
  }
  const plain = read(PLAIN)[0];
  return [plain, plain.length];
}

function anchor(content, address) {
  const href = target(address);
  return href ? el('a', { href, rel: 'noreferrer noopener', target: '_blank' }, content) : el('span', {}, content);
}
