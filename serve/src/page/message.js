// A message as an article. Calls are folded, and made when they are opened: a session has thousands.

import { dollars, draw, duration, el, put, show, time, tokens } from './dom.js';
import { coloured, ending } from './highlight.js';
import { code, markdown } from './markdown.js';
import { isNote, node, withoutMark } from './server.js';

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/// Arguments that say best what a call is about, the best first.
const KEYS = ['command', 'file_path', 'notebook_path', 'path', 'pattern', 'url', 'query', 'description', 'prompt', 'skill'];
/// Longest text that is shown at once, in characters; a browser cannot lay out more without a pause.
const LONGEST = 400_000;

/// Time between two looks at the output of a running call, at first and at most, in milliseconds.
const LOOK = [500, 5_000];

/// Shortest time of a call that is shown, in milliseconds.
const NOTABLE = 50;

const TYPED = ['prompt', 'steering', 'follow_up'];

/// What a check has shown of a run, for people.
const EVIDENCE = { verified: 'Verified', claimed: 'Claimed', not_tried: 'Not tried' };

/// Returns what a check has shown of a run, for people; of a recorded run it says that it is recorded.
export function verdict({ evidence, command, ending: how, is_replayed: isReplayed }) {
  const ended = how ? ` (${how})` : '';
  return `${EVIDENCE[evidence]}: ${command.slice(0, 100)}${ended}${isReplayed ? ', as recorded; not checked again' : ''}`;
}

/// Returns who a message is from, for people.
function author({ role, origin, used }) {
  if (role === 'assistant') return used?.model ?? 'Agent';
  return TYPED.includes(origin) ? 'You' : 'ah';
}

/// Returns the article of a message, or null if all of it belongs to other articles. `around` has `calls`, the calls that
/// wait for results, by their ids; `source`; `session`; and `fork`, which is called to go on from a message.
export function article(message, around) {
  const known = node(message);
  const blocks = message.content.map(block => shown(block, message, around)).filter(it => it !== null);
  if (!blocks.length && known.origin === 'results') return null;
  const kind = known.role === 'assistant' ? 'assistant' : TYPED.includes(known.origin) ? 'user' : 'note';
  const label = `${author(known)}, message ${known.seq}`;
  return el('article', { class: kind, 'data-id': message.id, tabindex: -1, 'aria-label': label },
    head(known, around),
    known.origin === 'summary' ? folded('Summary of what was before', () => blocks) : blocks,
    message.verification ? el('p', { class: 'verdict weak' }, verdict(message.verification)) : null,
    message.cut && !around.source.isReadOnly ? rest(message, around) : null);
}

function head(known, around) {
  const { used } = known;
  const facts = used && [`${tokens(used.input_tokens)} in`, `${tokens(used.output_tokens)} out`,
    used.cost_usd === null ? null : dollars(used.cost_usd), duration(used.latency_ms)];
  return el('header', {},
    el('span', { class: 'author' }, author(known)),
    known.origin === 'prompt' || known.role === 'assistant' ? null : el('span', {}, known.origin.replace('_', ' ')),
    el('span', { class: 'number' }, `@${known.seq}`),
    el('time', { datetime: new Date(known.at_ms).toISOString() }, time(known.at_ms)),
    facts && el('span', { class: 'facts' }, facts.filter(Boolean).join(' · ')),
    around.fork && el('button', { type: 'button', class: 'quiet fork', click: () => around.fork(known),
      'aria-label': `Fork after message ${known.seq}` }, 'Fork'));
}

/// Returns a button that loads what is missing of a message.
function rest(message, around) {
  const button = el('button', { type: 'button', class: 'quiet', click: async () => {
    button.disabled = true;
    const whole = await around.source.message(around.session, message.id).catch(error => error);
    if (whole instanceof Error) return show(button, whole.message);
    // Results that came with it stay with their calls.
    const made = article(whole, around);
    if (made) button.closest('article').replaceWith(made);
    return made?.focus();
  } }, 'Long texts are cut here. Show all');
  return button;
}

function shown(block, message, around) {
  switch (block.type) {
    case 'text': return isNote(block.text) ? folded('Note to the model', () => markdown(block.text))
      : el('div', { class: 'text' }, markdown(withoutMark(block.text)));
    case 'thinking': return block.thinking ? folded('Thinking', () => markdown(block.thinking)) : null;
    case 'redacted_thinking': return el('p', { class: 'weak' }, 'Thinking that the vendor does not disclose');
    case 'image': return picture(block);
    case 'tool_use': return new Call(block, message, around).element;
    case 'tool_result': {
      const call = around.calls.get(block.tool_use_id);
      call?.answer(block, message);
      return call ? null : folded(`Result of ${block.tool_name}`, () => said(block.content));
    }
    default: return folded(`Other: ${block.type}`, () => code(JSON.stringify(block, null, 2), 'JSON'));
  }
}

/// Returns what is made when it is opened.
function folded(title, made) {
  const element = el('details', { class: 'folded', toggle: () => {
    if (element.open && element.childElementCount === 1) put(element, made());
  } }, el('summary', {}, title));
  return element;
}

function picture({ media_type: kind, data }) {
  const isPicture = PICTURES.includes(kind) && /^[A-Za-z0-9+/=]+$/.test(data);
  return isPicture ? el('p', {}, el('img', { alt: 'A picture', src: `data:${kind};base64,${data}` }))
    : el('p', { class: 'weak' }, `A picture: ${kind}`);
}

function said(content) {
  return content.map(block => {
    if (block.type === 'text') return text(block.text);
    return block.type === 'image' ? picture(block) : el('p', { class: 'weak' }, `Sound: ${block.media_type}`);
  });
}

function text(all, label = 'Output') {
  if (!all) return el('p', { class: 'weak' }, 'No output');
  const start = all.length > LONGEST ? `${all.slice(0, LONGEST)}\n… ${all.length - LONGEST} more characters` : all;
  return el('pre', { tabindex: 0, role: 'group', 'aria-label': label }, start);
}

/// A call of a tool, and its result once that is there.
class Call {
  #call;
  #around;
  #result = null;
  /// The messages that it and its result are in.
  #asked;
  #answered = null;
  #isWatched = false;

  constructor(call, message, around) {
    this.#call = call;
    this.#around = around;
    this.#asked = message;
    // The same message in full keeps the results that it had. Models may use an id again for another call.
    const before = around.calls.get(call.id);
    if (before?.#asked.id === message.id) [this.#result, this.#answered] = [before.#result, before.#answered];
    around.calls.set(call.id, this);
    this.summary = el('summary');
    this.element = el('details', { class: 'call', toggle: () => this.#fill() }, this.summary);
    this.#name();
  }

  answer(result, message) {
    [this.#result, this.#answered] = [result, message];
    this.#name();
    while (this.element.childElementCount > 1) this.element.lastChild.remove();
    this.#fill();
  }

  #name() {
    const { name, input } = this.#call;
    const result = this.#result;
    const [sign, word] = !result ? ['…', 'running'] : result.is_error ? ['✗', 'failed'] : ['✓', 'done'];
    const key = KEYS.map(it => input?.[it]).find(it => typeof it === 'string')
      ?? input?.questions?.[0]?.question ?? Object.values(input ?? {}).find(it => typeof it === 'string') ?? '';
    const diff = hunks(result?.details);
    const count = mark => diff.flatMap(hunk => hunk.lines).filter(line => line.startsWith(mark)).length;
    show(this.summary,
      el('span', { class: word }, el('span', { 'aria-hidden': 'true' }, sign), el('span', { class: 'unseen' }, `${word}: `)),
      el('b', {}, name), el('code', {}, short(key)),
      diff.length ? [el('span', { class: 'added' }, `+${count('+')}`), el('span', { class: 'removed' }, `−${count('-')}`)] : null,
      result && result.duration_ms >= NOTABLE ? el('span', { class: 'weak' }, duration(result.duration_ms)) : null);
  }

  #fill() {
    if (!this.element.open || this.element.childElementCount > 1) return;
    const { input } = this.#call;
    const result = this.#result;
    const diff = hunks(result?.details);
    if (diff.length) return put(this.element, changes(diff, input?.file_path ?? input?.path ?? ''), this.#whole(false));
    const isCommand = Object.keys(input ?? {}).every(key => ['command', 'description'].includes(key)) && input?.command;
    put(this.element,
      el('p', { class: 'label' }, 'Input'), isCommand ? code(input.command, 'shell') : code(JSON.stringify(input, null, 2), 'JSON'),
      result ? [el('p', { class: 'label' }, 'Output'), said(result.content), this.#whole(true)] : this.#running());
    return null;
  }

  /// Returns what stands for the output of a call without a result, and follows that.
  #running() {
    const element = el('p', { class: 'weak' }, 'Still running');
    if (!this.#around.source.isReadOnly && !this.#isWatched) {
      this.#isWatched = true;
      this.#look(element).finally(() => { this.#isWatched = false; });
    }
    return element;
  }

  /// Shows what the call has written so far, as long as it runs and is open.
  async #look(place) {
    const { source, session } = this.#around;
    let [wait] = LOOK;
    let [shown, before] = [place, ''];
    while (this.element.open && !this.#result) {
      const so = document.hidden ? '' : await source.output(session, this.#call.id).catch(() => '');
      // The result has its place now, or another message is shown.
      if (this.#result || !(shown.isConnected || shown === place)) return;
      wait = so === before ? Math.min(wait * 1.5, LOOK[1]) : LOOK[0];
      if (so && so !== before) {
        before = so;
        const output = text(so, 'Output so far');
        shown.replaceWith(output);
        shown = output;
        output.scrollTop = output.scrollHeight;
      }
      await new Promise(resolve => { setTimeout(resolve, wait); });
    }
  }

  /// Returns buttons that load the output as the tool wrote it, and what is cut of the result.
  #whole(hasOutput) {
    const { source, session } = this.#around;
    if (source.isReadOnly) return null;
    const loads = (label, load) => {
      const button = el('button', { type: 'button', class: 'quiet', click: () => {
        button.disabled = true;
        load(button).catch(error => show(button, error.message));
      } }, label);
      return button;
    };
    return [
      hasOutput && loads('Whole output', async button => {
        const whole = text(await source.output(session, this.#call.id), 'Whole output');
        button.replaceWith(whole);
        whole.focus();
      }),
      this.#answered?.cut && loads('Long texts are cut here. Show all', async () => {
        const whole = await source.message(session, this.#answered.id);
        for (const block of whole.content) this.#around.calls.get(block.tool_use_id)?.answer(block, whole);
        this.summary.focus();
      }),
    ];
  }
}

/// Returns the first line of an argument; of a long path its end.
function short(key) {
  const [line] = key.slice(0, 300).split('\n');
  return /^(?:\/[^/ ]+){4,}$/.test(line) ? `…/${line.split('/').slice(-2).join('/')}` : line;
}

/// Returns the changes that a result tells of; a new file is one that only adds.
function hunks(details) {
  const patch = details?.structuredPatch;
  if (Array.isArray(patch) && patch.length) {
    return patch.filter(hunk => Array.isArray(hunk?.lines)).map(hunk => ({
      old: Number(hunk.oldStart), now: Number(hunk.newStart), lines: hunk.lines.filter(it => typeof it === 'string'),
    }));
  }
  if (details?.type !== 'create' || typeof details.content !== 'string') return [];
  return [{ old: 0, now: 1, lines: details.content.replace(/\n$/, '').split('\n').map(line => `+${line}`) }];
}

/// Returns a changed part as the server tells it in the form of [`changes`].
export const told = ({ old, new: now, lines }) => ({ old, now, lines });

const SIDES = { '+': ['added', 'Added: '], '-': ['removed', 'Removed: '] };

/// Returns changes as rows: old number, new number, line. The file's path says how lines are coloured.
export function changes(all, path = '') {
  const language = ending(path);
  const rows = all.map(hunk => {
    let { old, now } = hunk;
    return hunk.lines.map(line => {
      const [kind, word] = SIDES[line[0]] ?? ['', ''];
      const numbers = [line[0] === '+' ? '' : old++, line[0] === '-' ? '' : now++];
      return el('tr', { class: kind }, numbers.map(it => el('td', { class: 'number' }, it)),
        el('td', {}, word && el('span', { class: 'unseen' }, word), line[0], coloured(line.slice(1), language)));
    });
  });
  const bodies = rows.map(it => el('tbody', {}, it));
  return el('div', { class: 'wide diff', tabindex: 0, role: 'group', 'aria-label': 'Changes' }, el('table', {}, bodies));
}

/// Returns the article of a message that the run has not read yet. `takeBack` is called by its button.
export function queued(text, takeBack) {
  return el('article', { class: 'user queued', tabindex: -1, 'aria-label': 'Your message, for the next step' },
    el('header', {}, el('span', { class: 'author' }, 'You'), el('span', {}, 'queued for the next step'),
      el('button', { type: 'button', class: 'quiet fork', click: takeBack }, 'Take back')),
    el('div', { class: 'text' }, markdown(text)));
}

/// The answer that is being written.
export class Draft {
  #blocks = new Map();
  #isDue = false;

  constructor() {
    this.element = el('article', { class: 'assistant draft', 'aria-busy': 'true', 'aria-label': 'Answer in progress', tabindex: -1 });
    this.clear();
  }

  clear() {
    this.#blocks.clear();
    show(this.element, el('header', {}, el('span', { class: 'author' }, 'Writing'),
      draw('svg', { class: 'wait', viewBox: '0 0 24 8', 'aria-hidden': 'true' },
        [4, 12, 20].map(x => draw('circle', { cx: x, cy: 4, r: 2.5 })))));
  }

  /// Adds a piece.
  add({ block, kind, text: more }) {
    if (!this.#blocks.has(block)) {
      const element = el('div', { class: kind === 'text' ? 'text' : `text ${kind}` });
      this.#blocks.set(block, { element, kind, text: '', isNew: false });
      this.element.append(element);
    }
    const known = this.#blocks.get(block);
    known.text += more;
    known.isNew = true;
    if (this.#isDue) return;
    this.#isDue = true;
    // No more often than it is painted.
    requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.#isDue = false;
    for (const known of this.#blocks.values()) {
      if (!known.isNew) continue;
      known.isNew = false;
      // The end is what is new of a long one.
      const made = known.kind === 'call' ? [el('p', { class: 'weak' }, `Calls ${known.text}`)] : markdown(known.text);
      show(known.element, made);
    }
  }
}
