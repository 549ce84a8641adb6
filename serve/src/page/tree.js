// The tree of a session as rows. A branch that goes on stays on its level; others stand below the message that they fork
// from, one level further in.

import { draw, el, plain, show } from './dom.js';
import { withoutMark } from './server.js';

const DEEPEST = 6;

/// Returns the sign of a message that several go on from: open, or folded.
const branch = isOpen => draw('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' },
  draw('path', { d: isOpen ? 'M3 1v10M3 7c0-3 6-1 6-5V1' : 'M3 1v10M7 3h.5M9.5 3h.5' }));

/// A tree in an element. `open` is called with the node that is chosen.
export class Tree {
  #element;
  #open;
  #nodes = new Map();
  #folded = new Set();
  #current = null;
  #viewed = null;
  #focused = null;
  #rows = [];
  #isDue = false;
  #isPlaced = false;

  constructor(element, open) {
    this.#open = open;
    this.#element = el('div', { role: 'tree', 'aria-label': 'Messages', keydown: event => this.#key(event) });
    show(element, this.#element);
  }

  /// Shows these nodes, of which one is the current message and one is looked at.
  set(nodes, current, viewed) {
    this.#nodes = new Map(nodes.filter(node => !node.agent).map(node => [node.id, node]));
    this.#current = current;
    this.#viewed = viewed;
    this.#later();
  }

  add(node) {
    this.#nodes.set(node.id, node);
    if (this.#viewed === this.#current) this.#viewed = node.id;
    this.#current = node.id;
    this.#later();
  }

  view(id) {
    this.#viewed = id;
    this.#later();
  }

  get(id) { return this.#nodes.get(id); }
  get current() { return this.#current; }
  get nodes() { return [...this.#nodes.values()]; }

  /// Returns the ids from a message up to its root.
  path(id) {
    const path = new Set();
    for (let node = this.#nodes.get(id); node && !path.has(node.id); node = this.#nodes.get(node.parent)) path.add(node.id);
    return path;
  }

  /// Returns the end of the branch that goes on after a message: the current one if it does, else the newest.
  end(id) {
    const isCurrent = this.path(this.#current);
    const children = this.#children();
    let end = id;
    for (let next = id; next;) {
      end = next;
      const below = children.get(next) ?? [];
      next = below.find(it => isCurrent.has(it)) ?? below.at(-1);
    }
    return end;
  }

  focus() { this.#element.querySelector('[tabindex="0"]')?.focus(); }

  #children() {
    const children = new Map();
    for (const { id, parent } of this.#nodes.values()) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(id);
    }
    return children;
  }

  #later() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (this.#element.isConnected) this.#draw();
    });
  }

  #draw() {
    const had = this.#element.contains(document.activeElement);
    const top = this.#element.parentElement.scrollTop;
    const isCurrent = this.path(this.#current);
    const isViewed = this.path(this.#viewed);
    this.#rows = this.#laid(isCurrent);
    const ids = new Set(this.#rows.map(row => row.node.id));
    if (!ids.has(this.#focused)) {
      this.#focused = [...this.path(this.#viewed)].find(id => ids.has(id)) ?? this.#rows[0]?.node.id;
    }
    show(this.#element, this.#rows.map(row => this.#row(row, isCurrent, isViewed)));
    if (!this.#rows.length) show(this.#element, el('div', { role: 'treeitem', 'aria-level': 1, class: 'weak' }, 'No messages yet'));
    if (had) this.focus();
    this.#element.parentElement.scrollTop = top;
    // Once, to where the reader is.
    if (!this.#isPlaced && this.#rows.length) {
      this.#isPlaced = true;
      this.#element.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
    }
  }

  /// Returns the rows. Results of calls are left out where nothing depends on them.
  #laid(isCurrent) {
    const children = this.#children();
    const rows = [];
    const isPlain = node => node.origin === 'results' && node.id !== this.#current && (children.get(node.id) ?? []).length === 1;
    const rank = id => (isCurrent.has(id) ? 1 : 0);
    const walk = (start, fork, rails) => {
      for (let id = start; id;) {
        const node = this.#nodes.get(id);
        // The newest goes on, unless another leads to the current message.
        const below = (children.get(id) ?? []).toSorted((a, b) => rank(a) - rank(b));
        const next = below.pop();
        const row = { node, fork, rails: [...rails, isCurrent.has(id)], isFork: below.length > 0 };
        if (!isPlain(node)) rows.push(row);
        // The lines of the branches that it stands beside go on.
        if (!this.#folded.has(id)) for (const side of below) walk(side, id, [...rails, isCurrent.has(next)]);
        id = next;
      }
    };
    for (const root of children.get(null) ?? []) walk(root, null, []);
    return rows;
  }

  #row({ node, rails, isFork }, isCurrent, isViewed) {
    const isNow = node.id === this.#current;
    const words = plain(withoutMark(node.text)) || node.tools.join(', ') || node.origin.replace('_', ' ');
    const isOpen = !this.#folded.has(node.id);
    const classes = [node.role, isCurrent.has(node.id) && 'on-current', isViewed.has(node.id) && 'on-view', isNow && 'now'];
    return el('div', {
      role: 'treeitem',
      'aria-level': rails.length,
      'aria-expanded': isFork ? String(isOpen) : null,
      'aria-selected': String(node.id === this.#viewed),
      'aria-current': isNow ? 'true' : null,
      class: classes.filter(Boolean).join(' '),
      'data-id': node.id,
      tabindex: node.id === this.#focused ? 0 : -1,
      title: words,
      click: () => this.#choose(node),
    },
    rails.slice(0, DEEPEST).map(isOn => el('span', { class: isOn ? 'rail on' : 'rail' })),
    el('span', { class: 'dot', 'aria-hidden': 'true' }),
    el('span', { class: node.text ? 'words' : 'words weak' }, words),
    isFork && el('span', { class: 'branches', click: event => { event.stopPropagation(); this.#fold(node.id); } },
      branch(isOpen)),
    isNow && el('span', { class: 'tag' }, 'current'),
    el('span', { class: 'number' }, `@${node.seq}`));
  }

  #choose(node) {
    this.#focused = node.id;
    this.#open(node);
  }

  #fold(id, isFolded = !this.#folded.has(id)) {
    this.#folded[isFolded ? 'add' : 'delete'](id);
    this.#draw();
  }

  #key(event) {
    const at = this.#rows.findIndex(row => row.node.id === this.#focused);
    const row = this.#rows[at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowDown: () => this.#move(at + 1),
      ArrowUp: () => this.#move(at - 1),
      Home: () => this.#move(0),
      End: () => this.#move(this.#rows.length - 1),
      ArrowRight: () => (row.isFork && this.#folded.has(row.node.id) ? this.#fold(row.node.id, false) : this.#move(at + 1)),
      ArrowLeft: () => {
        if (row.isFork && !this.#folded.has(row.node.id)) this.#fold(row.node.id, true);
        else if (row.fork) this.#move(this.#rows.findIndex(it => it.node.id === row.fork));
      },
      Enter: () => this.#choose(row.node),
      ' ': () => this.#choose(row.node),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  #move(to) {
    const row = this.#rows[to];
    if (!row) return;
    this.#focused = row.node.id;
    for (const element of this.#element.children) {
      const isHere = element.dataset.id === row.node.id;
      element.tabIndex = isHere ? 0 : -1;
      if (isHere) element.focus();
    }
  }
}
