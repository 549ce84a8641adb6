// Below the conversation: questions of the run, and the field for the next message. It says what sending would do.

import { dollars, el, put, show, tell } from './dom.js';
import { changes, told, verdict } from './message.js';
import { Pictures } from './pictures.js';

/// Names of the permission modes, and what they mean.
const MODES = {
  default: ['Ask', 'Asks before edits and other changes'],
  sandboxed: ['Sandboxed', 'Runs commands and edits in the sandbox unasked, and asks about what it does not cover'],
  acceptEdits: ['Accept edits', 'Edits files of the project unasked, and asks before other changes'],
  plan: ['Plan', 'Reads and plans, changes nothing'],
  dontAsk: ['Deny', 'Denies what it would have to ask about'],
  delegate: ['Delegate', 'Only starts subagents'],
  bypassPermissions: ['Bypass', 'Asks about nothing'],
};

/// The answer that a reason may follow.
const DENY = 'Deny';

/// The field and the questions in an element. `act` has what can be done: `send(text, at, isCopy, chosen)`, `steer(text)`,
/// `interrupt()`, `answer(id, answers)`, `choices()`; each may fail with an error for people. What was typed and not sent is
/// kept for its `place`, as long as the browser's tab.
export class Composer {
  #act;
  #at = null;
  #state = { running: false, questions: [], ended: null };
  #asked = new Map();
  #draft;
  #choices = null;
  #current = null;

  constructor(element, act) {
    this.#act = act;
    this.#draft = `draft:${act.place ?? ''}`;
    this.field = el('textarea', {
      id: 'field', rows: 1, 'aria-describedby': 'means', keydown: event => this.#key(event), input: () => this.#keep(),
      paste: event => { if (this.pictures.add(event.clipboardData.files)) event.preventDefault(); },
    });
    this.field.value = sessionStorage.getItem(this.#draft) ?? '';
    this.copy = el('input', { type: 'checkbox', id: 'copy', change: () => this.#name() });
    this.questions = el('div', { class: 'questions' });
    this.means = el('p', { id: 'means' });
    this.fault = el('p', { class: 'fault', role: 'alert' });
    this.send = el('button', { type: 'submit' });
    this.stop = el('button', { type: 'button', class: 'stop', click: () => this.interrupt() }, 'Interrupt');
    this.keep = el('button', { type: 'button', class: 'quiet', click: () => this.forkAt(null) }, 'Cancel fork');
    this.pictures = new Pictures(error => this.fail(error));
    this.models = el('select', { id: 'model' });
    this.mode = el('select', { id: 'mode' });
    this.chosen = el('span', { class: 'chosen', hidden: true },
      el('label', { class: 'unseen', for: 'model' }, 'Model'), this.models, el('label', { class: 'unseen', for: 'mode' }, 'Permissions'), this.mode);
    this.copied = el('label', { for: 'copy' }, this.copy, ' in a copy');
    this.form = el('form', {
      class: 'composer', submit: event => this.#submit(event), dragover: event => event.preventDefault(),
      drop: event => { if (this.pictures.add(event.dataTransfer.files)) event.preventDefault(); },
    },
      el('label', { class: 'unseen', for: 'field' }, 'Message'), this.field, this.pictures.element, this.pictures.file,
      el('div', { class: 'row' }, this.means, this.chosen, this.pictures.button, this.copied, this.keep, this.stop, this.send));
    show(element, this.questions, this.fault, this.form);
    this.#name();
    this.#offer();
  }

  /// What the session does now.
  set state(state) {
    const was = this.#state;
    this.#state = state;
    if (was.running && !state.running && state.ended) tell(ending(state.ended));
    if (!was.running && state.running) tell('The run has begun.');
    if (state.mode && state.mode !== was.mode) this.#set(this.mode, state.mode);
    this.#ask();
    this.#name();
  }

  /// Goes on after this message instead of the current one; null takes that back.
  forkAt(node) {
    this.#at = node;
    this.copy.checked = false;
    this.#name();
    if (node) this.field.focus();
  }

  focus() { this.field.focus(); }

  /// Says something in the place of the field, until the reader has agreed.
  agree(text, label, then) {
    const notice = el('div', { class: 'banner', role: 'note' }, text, el('button', { type: 'button', click: () => {
      notice.remove();
      this.form.hidden = false;
      then();
      this.focus();
    } }, label));
    this.form.hidden = true;
    this.form.before(notice);
  }

  /// The model that the session goes on with unless another one is chosen.
  set model(name) {
    if (!name || name === this.#current) return;
    this.#current = name;
    this.#models();
  }

  /// Puts a text into the field, if nothing is there.
  give(text) {
    if (!this.field.value) this.field.value = text;
    this.#keep();
    this.field.focus();
  }

  /// Shows what can be chosen for the next run.
  async #offer() {
    this.#choices = await this.#act.choices?.().catch(() => null);
    if (!this.#choices) return;
    this.#current ??= this.#choices.model;
    this.#models();
    const { mode, modes } = this.#choices;
    show(this.mode, mode === null && el('option', { value: '', title: 'Sandboxed where there is a sandbox, else ask' }, 'As usual'),
      modes.map(it => el('option', { value: it, title: MODES[it]?.[1] }, MODES[it]?.[0] ?? it)));
    this.#set(this.mode, this.#state.mode ?? mode ?? '');
    this.chosen.hidden = false;
  }

  #models() {
    if (!this.#choices) return;
    const others = this.#choices.models.filter(it => it.title !== this.#current);
    show(this.models, el('option', { value: '' }, this.#current), others.map(({ name, title }) => el('option', { value: name, title }, name)));
  }

  #set(select, value) {
    if (![...select.options].some(it => it.value === value)) put(select, el('option', { value }, MODES[value]?.[0] ?? value));
    select.value = value;
  }

  /// What was chosen for the next run.
  get #for() {
    const chosen = {};
    if (this.models.value) chosen.model = this.models.value;
    // Without one the settings decide.
    if (this.mode.value && this.mode.value !== this.#choices?.mode) chosen.mode = this.mode.value;
    if (this.pictures.data.length) chosen.pictures = this.pictures.data;
    return chosen;
  }

  async interrupt() { if (this.#state.running) await this.#try(() => this.#act.interrupt()); }

  /// Shows an error, or none.
  fail(error) {
    const reason = error?.message ?? '';
    show(this.fault, reason.charAt(0).toUpperCase() + reason.slice(1));
  }

  /// Leads to the first question.
  answer() { this.questions.querySelector('button, input')?.focus(); }

  #keep() {
    if (this.field.value) sessionStorage.setItem(this.#draft, this.field.value);
    else sessionStorage.removeItem(this.#draft);
  }

  #name() {
    const { running, ended } = this.#state;
    const at = this.#at;
    const isSteering = running && !at;
    // A run has the session for itself: another branch at the same time is a copy.
    if (at && running) this.copy.checked = true;
    this.copy.disabled = Boolean(at && running);
    show(this.send, isSteering ? 'Steer' : at ? 'Fork' : 'Send');
    this.field.placeholder = isSteering ? 'Tell the run something before its next step' : at ? `Go on after @${at.seq}` : 'Say what to do, or /goal WORDS --until COMMAND';
    show(this.means, isSteering ? 'running' : at ? `after @${at.seq}${this.copy.checked ? ', in a new session' : ', as another branch'}`
      : ended ? ending(ended) : 'Enter sends, Shift+Enter is a new line');
    this.means.classList.toggle('failed', Boolean(!running && !at && ended?.is_error && !ended.is_stopped));
    this.means.classList.toggle('running', isSteering);
    this.copied.hidden = !at;
    this.keep.hidden = !at;
    this.stop.hidden = !running;
    // A run keeps what it has begun with.
    for (const select of [this.models, this.mode]) select.disabled = isSteering;
    this.pictures.button.disabled = isSteering;
  }

  #key(event) {
    if (event.key === 'Escape' && this.#at) this.forkAt(null);
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  async #submit(event) {
    event.preventDefault();
    const text = this.field.value.trim();
    if (!text) return;
    const at = this.#at;
    const isSteering = this.#state.running && !at;
    // Another view of the session may begin before this one knows that the text was sent.
    sessionStorage.removeItem(this.#draft);
    const isDone = await this.#try(() => (isSteering ? this.#act.steer(text) : this.#act.send(text, at?.id ?? null, Boolean(at && this.copy.checked), this.#for)));
    if (!isDone) return this.#keep();
    this.field.value = '';
    if (!isSteering) this.pictures.clear();
    this.#at = null;
    this.#name();
    return isSteering ? tell('It is queued for the next step.') : null;
  }

  async #try(act) {
    this.fail(null);
    try {
      await act();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  #ask() {
    const open = new Set(this.#state.questions.map(question => question.id));
    for (const [id, element] of this.#asked) {
      if (open.has(id)) continue;
      const had = element.contains(document.activeElement);
      element.remove();
      this.#asked.delete(id);
      if (had) this.field.focus();
    }
    for (const question of this.#state.questions) {
      if (this.#asked.has(question.id)) continue;
      const element = this.#question(question);
      this.#asked.set(question.id, element);
      this.questions.append(element);
      tell(`A question: ${question.about || question.picks.map(pick => pick.question).join(' ')}`);
    }
  }

  /// Returns a question as a form. One with a single choice is answered by one press.
  #question({ id, about, picks, proposal }) {
    const answer = async answers => {
      for (const button of element.querySelectorAll('button')) button.disabled = true;
      const isDone = await this.#try(() => this.#act.answer(id, answers));
      if (!isDone) for (const button of element.querySelectorAll('button')) button.disabled = false;
    };
    const [only] = picks;
    // What is about something is a permission, which takes none but its options.
    const isPressed = picks.length === 1 && !only.is_multiple && about;
    const fields = isPressed ? [] : picks.map((pick, at) => new Pick(pick, `${id}-${at}`, !about));
    const reason = el('input', { type: 'text', class: 'reason', 'aria-label': 'Reason for a denial', placeholder: 'Why not (the agent is told)' });
    const why = () => reason.value.trim();
    const deny = () => answer({ [only.question]: why() ? `${DENY}: ${why()}` : DENY });
    const buttons = isPressed ? only.options.map(({ label }) => el('button', {
      type: 'button', class: label === DENY ? 'stop' : null, click: () => (label === DENY ? deny() : answer({ [only.question]: label })),
    }, label))
      : [el('button', { type: 'submit' }, 'Answer')];
    const element = el('form', { class: 'question', 'aria-label': 'Question', submit: event => {
      event.preventDefault();
      // Whoever has written why not has said no.
      if (isPressed) return why() ? deny() : null;
      return answer(Object.fromEntries(fields.map(field => [field.question, field.value])));
    } },
    about && el('pre', { class: 'about', tabindex: 0, role: 'group', 'aria-label': 'What it is about' }, proposal?.about ?? about),
    proposal && changes(proposal.hunks.map(told), path(proposal.about)),
    isPressed && el('p', {}, only.question),
    isPressed && only.options.filter(option => option.description).map(option =>
      el('p', { class: 'allows' }, el('b', {}, option.label), ' ', option.description)),
    fields.map(field => field.element),
    el('div', { class: 'row' }, buttons, isPressed && only.options.some(option => option.label === DENY) && reason, el('button', {
      type: 'button', class: 'quiet', click: () => answer(null),
      title: about ? 'The call is denied, as nobody has answered' : 'The agent is told that nobody has answered',
    }, 'No answer')));
    return element;
  }
}

/// A choice among options, or another text.
class Pick {
  constructor(pick, name, isFree) {
    this.question = pick.question;
    const kind = pick.is_multiple ? 'checkbox' : 'radio';
    const option = ({ label, description }, at) => el('label', {},
      el('input', { type: kind, name, value: label, required: !pick.is_multiple && !isFree && at === 0 }), ' ', el('b', {}, label), ' ', description);
    this.other = isFree && el('input', { type: 'text', 'aria-label': `Another answer: ${pick.question}`, placeholder: 'Another answer' });
    this.element = el('fieldset', {}, el('legend', {}, pick.question), pick.options.map(option), this.other);
  }

  get value() {
    const picked = [...this.element.querySelectorAll('input:checked')].map(input => input.value);
    const other = this.other ? this.other.value.trim() : '';
    return (other ? [...picked, other] : picked).join(', ');
  }
}

/// Returns the path that a question names, by which the language of its change is known.
const path = about => /\S*\.\w+$/m.exec(about)?.[0] ?? '';

/// Returns how a run ended, for people.
function ending({ is_error: isError, is_stopped: isStopped, text, turns, cost_usd: cost, verification }) {
  if (isStopped) return 'The run was interrupted.';
  if (isError) return `The run failed: ${text.slice(0, 300)}`;
  const spent = cost ? `, ${dollars(cost)}` : '';
  const ran = `The run has ended: ${turns === 1 ? '1 turn' : `${turns} turns`}${spent}.`;
  return verification ? `${ran} ${verdict(verification)}` : ran;
}
