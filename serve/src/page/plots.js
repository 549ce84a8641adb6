// Cost and context over time, as drawings, and the numbers behind them as a table.

import { dollars, draw, el, show, time, tokens } from './dom.js';

const WIDTH = 300;
const HEIGHT = 84;
/// Columns that a plot has at most; several answers share one then.
const COLUMNS = 150;

/// Returns what messages have cost, in dollars.
export const cost = nodes => nodes.reduce((sum, node) => sum + (node.used?.cost_usd ?? 0), 0);

/// Draws what the answers of a session used, and what was paid beside them.
export function usage(element, nodes, aside) {
  const answers = nodes.filter(node => node.used && node.used.output_tokens + node.used.input_tokens > 0);
  if (!answers.length) return show(element, el('p', { class: 'weak' }, 'No answers yet'));
  let spent = aside;
  const rows = answers.map(node => ({ ...node.used, at: node.at_ms, seq: node.seq, agent: node.agent, spent: (spent += node.used.cost_usd ?? 0) }));
  const isPriced = rows.some(row => row.cost_usd !== null);
  const own = rows.filter(row => !row.agent);
  const most = Math.max(...own.map(row => row.input_tokens + row.output_tokens));
  const last = own.at(-1) ?? rows.at(-1);
  const isOpen = element.querySelector('details')?.open ?? false;
  return show(element,
    figure('Context', tokens(last.input_tokens + last.output_tokens),
      `Tokens of each request, ${own.length} in all; the last has ${tokens(last.input_tokens)}, at most ${tokens(most)}.`, context(own, most)),
    isPriced ? figure('Cost', dollars(spent), `Cost of the session so far, answer by answer: ${dollars(spent)}.`, line(rows, spent))
      : el('p', { class: 'weak' }, 'The price of the model is not known.'),
    el('p', { class: 'key' }, el('span', { class: 'cached' }, 'from the cache'), el('span', { class: 'fresh' }, 'new'), el('span', { class: 'written' }, 'answer')),
    table(rows, isOpen));
}

function figure(name, value, description, drawing) {
  return el('figure', {}, el('figcaption', {}, name, el('b', {}, value)),
    draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': description, preserveAspectRatio: 'none' }, drawing));
}

const grid = () => [0.25, 0.5, 0.75].map(part => draw('line', { class: 'grid', x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part }));

/// Returns one row for each column: the one with the most tokens of those that share it.
function columns(rows) {
  const each = Math.ceil(rows.length / COLUMNS);
  const all = [];
  for (let at = 0; at < rows.length; at += each) {
    const shared = rows.slice(at, at + each);
    all.push(shared.reduce((a, b) => (b.input_tokens > a.input_tokens ? b : a)));
  }
  return all;
}

/// Bars: what was read from the cache, what was new, what was answered.
function context(rows, most) {
  const all = columns(rows);
  const step = WIDTH / Math.max(all.length, 12);
  const room = HEIGHT - 2;
  const bars = all.map((row, at) => {
    let y = HEIGHT;
    const bar = (kind, amount) => {
      const height = Math.max(room * amount / most, amount ? 0.75 : 0);
      y -= height;
      return draw('rect', { class: kind, x: at * step + 0.5, y, width: Math.max(step - 1, 0.5), height });
    };
    return draw('g', {},
      draw('title', {}, `@${row.seq}, ${time(row.at)}: ${tokens(row.cached_tokens)} from the cache, ${tokens(row.input_tokens - row.cached_tokens)} new, ${tokens(row.output_tokens)} answered`),
      bar('cached', row.cached_tokens), bar('fresh', row.input_tokens - row.cached_tokens), bar('written', row.output_tokens));
  });
  return [grid(), bars];
}

/// A line of what was spent so far.
function line(rows, spent) {
  const x = at => (rows.length === 1 ? WIDTH : WIDTH * at / (rows.length - 1));
  const y = amount => HEIGHT - 1.5 - (HEIGHT - 4) * amount / (spent || 1);
  const points = rows.map((row, at) => `${x(at).toFixed(1)},${y(row.spent).toFixed(1)}`);
  const line = rows.length === 1 ? `0,${y(0)} ${points[0]}` : points.join(' ');
  return [grid(), draw('polygon', { class: 'area', points: `0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}` }), draw('polyline', { class: 'line', points: line })];
}

function table(rows, open) {
  const head = ['Message', 'In', 'Cached', 'Out', 'Cost'].map(it => el('th', { scope: 'col' }, it));
  const row = it => el('tr', {}, [`@${it.seq}`, tokens(it.input_tokens), tokens(it.cached_tokens), tokens(it.output_tokens),
    it.cost_usd === null ? '–' : dollars(it.cost_usd)].map(cell => el('td', {}, cell)));
  const element = el('details', { class: 'folded', open, toggle: () => fill() }, el('summary', {}, rows.length === 1 ? '1 answer' : `All ${rows.length} answers`));
  const fill = () => {
    if (!element.open || element.childElementCount > 1) return;
    element.append(el('div', { class: 'wide', tabindex: 0, role: 'group', 'aria-label': 'Usage of each answer' },
      el('table', {}, el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows.slice(-1_000).map(row)))));
  };
  fill();
  return element;
}
