// A session: its messages, followed as they come, its tree, its usage, and what can be done with it.

import { Composer } from './composer.js';
import { files, remove, rename, restore } from './dialog.js';
import { by, el, plain, put, show, tell } from './dom.js';
import { Draft, article, queued, verdict } from './message.js';
import { cost, usage } from './plots.js';
import { node } from './server.js';
import { Tree } from './tree.js';

/// Distance from the end at which the messages are followed, in pixels.
const NEAR = 120;
/// What is said at a session that came with the folder.
const STRANGE = 'This session was not made by you. You can read it. Once you continue it, it counts as one of yours.';

/// The view of a session. `go(session, message)` opens another place; `changed()` is called when a run begins, asks or ends; it gives the list of sessions.
export class SessionView {
  #source;
  #session;
  #at;
  #go;
  #changed;
  #stop = new AbortController();
  #calls = new Map();
  #draft = null;
  #isUsageDue = false;
  #nodes = [];
  /// What was paid for beside the messages, in dollars: models that tools asked, and messages that were deleted.
  #aside = 0;
  #earlier = null;
  /// Ids of the messages that are shown, those of results included, which stand with their calls.
  #shown = new Set();
  /// Whether the end is kept in view while messages grow. Heights of what was never in view are guessed, so it is set by
  /// what the reader does and never asked of the heights.
  #isFollowing = true;
  #top = 0;
  #grown = new ResizeObserver(() => this.#keep());
  /// Messages that the run has not read yet: their texts, elements, and the ids that they will have, once those are known.
  #queued = [];
  #doing = { running: false, questions: [] };
  #title = 'Session';

  constructor(source, session, at, go, changed) {
    this.#source = source;
    this.#session = session;
    this.#at = at;
    this.#go = go;
    this.#changed = changed;
    this.list = by('messages');
    this.#grown.observe(this.list);
    this.list.addEventListener('scroll', () => this.#scrolled(), { signal: this.#stop.signal });
    this.tree = new Tree(by('tree'), chosen => this.#look(chosen));
    this.composer = source.isReadOnly ? null : new Composer(by('below'), {
      place: session,
      send: (text, message, isCopy, chosen) => this.#send(text, message, isCopy, chosen),
      choices: () => source.choices(),
      steer: text => this.#steer(text),
      interrupt: () => source.interrupt(session),
      answer: (question, answers) => source.answer(session, question, answers),
    });
  }

  /// Shows it.
  async open() {
    const source = this.#source;
    const [tree, listed] = await Promise.all([source.tree(this.#session), this.#changed()]);
    if (this.#stop.signal.aborted) return;
    const isElsewhere = this.#at !== null && tree.nodes.some(it => it.id === this.#at);
    if (!isElsewhere) this.#at = null;
    this.tree.set(tree.nodes, tree.current, this.#at ?? tree.current);
    this.#nodes = tree.nodes;
    this.#aside = Math.max(0, (tree.spent_usd ?? 0) - cost(tree.nodes));
    this.#titled(tree.name);
    this.#count();
    const last = this.#at === null ? tree.current : this.tree.end(this.#at);
    await this.#load(last, tree.current);
    const current = this.tree.get(tree.current);
    if (source.isReadOnly) return;
    if (listed.some(it => it.id === this.#session && !it.is_yours)) this.composer.agree(STRANGE, 'Make it mine', () => this.#menu());
    else this.#menu();
    this.#requeue();
    this.#follow(current ? `${current.seq}-${current.id}` : null);
  }

  /// Ends it.
  close() {
    this.#stop.abort();
    by('menu').hidden = true;
    this.#grown.disconnect();
  }

  /// The messages that are shown.
  get articles() { return [...this.list.querySelectorAll('article')]; }

  /// Goes on after the message that has the focus, or the last.
  fork() {
    const id = document.activeElement?.closest('article, [role=treeitem]')?.dataset.id ?? this.tree.current;
    const known = this.tree.get(id);
    if (known) this.composer?.forkAt(known);
  }

  /// What is done with the whole session.
  #menu() {
    const menu = by('menu');
    const [source, session] = [this.#source, this.#session];
    const entries = {
      'Files changed': () => files(source, session),
      Undo: () => restore(source, session, 'undo'),
      Redo: () => restore(source, session, 'redo'),
      Rename: () => rename(source, session, this.#title, () => this.#go(session)),
      Delete: () => remove(source, session, this.#title, () => this.#go('')),
    };
    menu.open = false;
    menu.hidden = false;
    show(by('menu-entries'), Object.entries(entries).map(([name, act]) => el('button', { type: 'button', class: 'quiet', click: async () => {
      menu.open = false;
      try {
        await act();
      } catch (error) {
        this.composer.fail(error);
      }
    } }, name)));
  }

  #titled(name) {
    const [first] = this.#nodes;
    this.#title = name || plain(first?.text.split('\n')[0] ?? '') || 'Session';
    show(by('title'), this.#title);
    this.#tab();
  }

  /// Says in the browser's tab what the session is doing.
  #tab() {
    const { running, questions } = this.#doing;
    const sign = questions.length ? '(?) ' : running ? '● ' : '';
    document.title = `${sign}${this.#title.slice(0, 60)} · ah`;
  }

  /// Shows the branch that ends with a message.
  async #load(last, current) {
    show(this.list);
    this.#calls.clear();
    this.#shown.clear();
    this.#queued = [];
    this.#draft = null;
    this.#earlier = null;
    if (!last) return;
    const isOther = !this.tree.path(current).has(last);
    if (isOther) {
      put(this.list, el('p', { class: 'banner' }, 'This branch is not the current one. ',
        el('button', { type: 'button', class: 'quiet', click: () => this.#go(this.#session) }, 'Show the current branch')));
      this.composer?.forkAt(this.tree.get(last));
    }
    const { messages, isWhole } = await this.#source.messages(this.#session, last);
    if (this.#stop.signal.aborted) return;
    this.#earlier = isWhole ? null : messages[0].parent;
    this.#older();
    this.#put(messages);
    this.#reveal();
  }

  #put(messages, before = null) {
    const around = {
      calls: this.#calls, source: this.#source, session: this.#session,
      fork: this.composer && (known => this.composer.forkAt(known)),
    };
    for (const message of messages) {
      this.#shown.add(message.id);
      const made = article(message, around);
      if (!made) continue;
      this.list.insertBefore(made, before);
      this.#grown.observe(made);
    }
  }

  /// Offers what is before the first message.
  #older() {
    if (!this.#earlier) return;
    const button = el('button', { type: 'button', class: 'quiet older', click: async () => {
      button.disabled = true;
      const { messages, isWhole } = await this.#source.messages(this.#session, this.#earlier);
      const first = button.nextElementSibling;
      const [height, top] = [this.list.scrollHeight, this.list.scrollTop];
      this.#put(messages, first);
      button.remove();
      this.#earlier = isWhole ? null : messages[0].parent;
      this.#older();
      this.list.scrollTop = top + this.list.scrollHeight - height;
    } }, 'Earlier messages');
    const banner = this.list.querySelector('.banner');
    if (banner) banner.after(button);
    else this.list.prepend(button);
  }

  /// Scrolls to the message that was asked for, or to the end.
  #reveal() {
    const wanted = this.#at && this.articles.find(it => it.dataset.id === this.#at);
    if (wanted) {
      wanted.scrollIntoView({ block: 'start' });
      wanted.focus({ preventScroll: true });
      this.#isFollowing = false;
    } else {
      this.#toEnd();
    }
  }

  #toEnd() {
    this.#isFollowing = true;
    this.#keep();
  }

  /// Keeps the end in view, if it is followed.
  #keep() {
    if (this.#isFollowing) this.list.scrollTop = this.list.scrollHeight;
  }

  /// Whoever scrolls up leaves the end, and whoever comes near it follows it again.
  #scrolled() {
    const { scrollTop: top, scrollHeight, clientHeight } = this.list;
    if (scrollHeight - top - clientHeight < NEAR) this.#isFollowing = true;
    else if (top < this.#top) this.#isFollowing = false;
    this.#top = top;
  }

  /// Looks at a node of the tree: here if it is on this branch, else at its branch.
  #look(chosen) {
    // Results stand with their calls.
    const isHere = id => this.articles.find(it => it.dataset.id === id);
    const found = isHere(chosen.id) ?? (chosen.origin === 'results' ? isHere(chosen.parent) : undefined);
    this.tree.view(chosen.id);
    if (!found) return this.#go(this.#session, chosen.id);
    this.#isFollowing = false;
    found.scrollIntoView({ block: 'start' });
    return found.focus({ preventScroll: true });
  }

  async #send(text, message, isCopy, chosen) {
    const { session } = isCopy ? await this.#source.fork(this.#session, text, message, chosen)
      : await this.#source.prompt(this.#session, text, message, chosen);
    if (session !== this.#session || this.#at !== null) return this.#go(session);
    return this.#toEnd();
  }

  /// Steers the run, and shows the message until the run reads it.
  async #steer(text) {
    // Before the request: the run may have read it when that is answered.
    const waiting = this.#wait(null, text);
    this.#toEnd();
    try {
      waiting.id = (await this.#source.steer(this.#session, text)).message;
    } catch (error) {
      this.#read(it => it === waiting);
      throw error;
    }
    if (this.#shown.has(waiting.id)) this.#read(it => it === waiting);
  }

  /// Shows a message that waits.
  #wait(id, text) {
    const waiting = { id, text, element: queued(text, () => this.#takeBack(waiting)) };
    if (this.#at !== null) return waiting;
    this.#queued.push(waiting);
    this.list.append(waiting.element);
    return waiting;
  }

  async #takeBack(waiting) {
    if (!waiting.id) return;
    try {
      await this.#source.withdraw(this.#session, waiting.id);
      this.#read(it => it === waiting);
      this.composer.give(waiting.text);
    } catch (error) {
      this.composer.fail(error);
      this.#requeue();
    }
  }

  /// Shows what waits for the run, whoever has sent it.
  async #requeue() {
    const waiting = await this.#source.queue(this.#session).catch(() => null);
    if (!waiting || this.#stop.signal.aborted) return;
    const ids = new Set(waiting.map(it => it.id));
    const isGone = it => it.id && !ids.has(it.id);
    while (this.#queued.some(isGone)) this.#read(isGone);
    for (const { id, text } of waiting) {
      // One that is being sent has no id yet.
      const isKnown = this.#shown.has(id) || this.#queued.some(it => it.id === id || (!it.id && it.text === text));
      if (!isKnown) this.#wait(id, text);
    }
    this.#keep();
  }

  /// Removes the first queued message that it is true of.
  #read(isRead) {
    const at = this.#queued.findIndex(isRead);
    if (at >= 0) this.#queued.splice(at, 1)[0].element.remove();
  }

  #follow(last) {
    const signal = this.#stop.signal;
    const on = (name, data) => this.#on(name, data);
    const lost = error => {
      document.body.classList.toggle('lost', Boolean(error));
      this.composer.fail(error);
      if (error?.status === 401) this.#go(null);
    };
    this.#source.follow(this.#session, last, { on, lost, signal });
  }

  #on(name, data) {
    if (name === 'state') this.#state(data);
    else if (name === 'message') this.#message(data);
    else if (name === 'piece') this.#piece(data);
    // Somebody went on elsewhere in the tree.
    else if (name === 'reset') this.#go(this.#session, this.#at);
  }

  #state(state) {
    if (!state.running) this.#write(null);
    this.#requeue();
    this.composer.state = state;
    this.#doing = state;
    this.#tab();
    this.#changed();
    document.body.classList.toggle('running', state.running);
    document.body.classList.toggle('asked', state.questions.length > 0);
  }

  #message(message) {
    if (this.#shown.has(message.id)) return this.#judge(message);
    const known = node(message);
    if (!this.tree.get(message.id)) this.#nodes.push(known);
    this.tree.add(known);
    if (this.#nodes.length === 1) this.#titled(null);
    this.#count();
    if (this.#at !== null) return;
    if (message.role === 'assistant') this.#write(null);
    this.#read(({ id }) => id === message.id);
    this.#put([message], this.#draft?.element ?? this.#queued[0]?.element ?? null);
    this.#keep();
    if (message.role === 'assistant') tell(known.tools.length ? `It calls ${known.tools.join(', ')}.` : 'An answer has come.');
  }

  /// Shows what a check has shown of a message that is there.
  #judge({ id, verification }) {
    const element = this.list.querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (!verification || !element || element.querySelector('.verdict')) return;
    put(element, el('p', { class: 'verdict weak' }, verdict(verification)));
    this.#keep();
  }

  #piece(piece) {
    if (this.#at !== null) return;
    if (piece.reset) return this.#draft?.clear();
    if (!this.#draft) this.#write(new Draft());
    return this.#draft.add(piece);
  }

  #write(draft) {
    this.#draft?.element.remove();
    this.#draft = draft;
    if (!draft) return;
    this.list.insertBefore(draft.element, this.#queued[0]?.element ?? null);
    this.#grown.observe(draft.element);
  }

  #count() {
    if (this.#isUsageDue) return;
    this.#isUsageDue = true;
    requestAnimationFrame(() => {
      this.#isUsageDue = false;
      usage(by('usage'), this.#nodes, this.#aside);
      const model = this.#nodes.findLast(it => it.used && !it.agent)?.used.model;
      show(by('facts'), model ?? '');
      if (this.composer) this.composer.model = model ?? null;
    });
  }
}
