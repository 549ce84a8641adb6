// Below the conversation: questions of the run, and the field for the next message. It says what sending would do.

import { dollars, el, show, tell } from './dom.js';

/// The field and the questions in an element. `act` has what can be done: `send(text, at, isCopy)`, `steer(text)`,
/// `interrupt()`, `answer(id, answers)`; each may fail with an error for people. What was typed and not sent is kept for
/// its `place`, as long as the browser's tab.
export class Composer {
  #act;
  #at = null;
  #state = { running: false, questions: [], ended: null };
  #asked = new Map();
  #draft;

  constructor(element, act) {
    this.#act = act;
    this.#draft = `draft:${act.place ?? ''}`;
    this.field = el('textarea', {
      id: 'field', rows: 1, 'aria-describedby': 'means', keydown: event => this.#key(event), input: () => this.#keep(),
    });
    this.field.value = sessionStorage.getItem(this.#draft) ?? '';
    this.copy = el('input', { type: 'checkbox', id: 'copy', change: () => this.#name() });
    this.questions = el('div', { class: 'questions' });
    this.means = el('p', { id: 'means' });
    this.fault = el('p', { class: 'fault', role: 'alert' });
    this.send = el('button', { type: 'submit' });
    this.stop = el('button', { type: 'button', class: 'stop', click: () => this.interrupt() }, 'Interrupt');
    this.keep = el('button', { type: 'button', class: 'quiet', click: () => this.forkAt(null) }, 'Cancel fork');
    this.copied = el('label', { for: 'copy' }, this.copy, ' in a copy');
    this.form = el('form', { class: 'composer', submit: event => this.#submit(event) },
      el('label', { class: 'unseen', for: 'field' }, 'Message'), this.field,
      el('div', { class: 'row' }, this.means, this.copied, this.keep, this.stop, this.send));
    show(element, this.questions, this.fault, this.form);
    this.#name();
  }

  /// What the session does now.
  set state(state) {
    const was = this.#state;
    this.#state = state;
    if (was.running && !state.running && state.ended) tell(ending(state.ended));
    if (!was.running && state.running) tell('The run has begun.');
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
    this.field.placeholder = isSteering ? 'Tell the run something before its next step' : at ? `Go on after @${at.seq}` : 'Say what to do';
    show(this.means, isSteering ? 'running' : at ? `after @${at.seq}${this.copy.checked ? ', in a new session' : ', as another branch'}`
      : ended ? ending(ended) : 'Enter sends, Shift+Enter is a new line');
    this.means.classList.toggle('failed', Boolean(!running && !at && ended?.is_error && !ended.is_stopped));
    this.means.classList.toggle('running', isSteering);
    this.copied.hidden = !at;
    this.keep.hidden = !at;
    this.stop.hidden = !running;
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
    const isDone = await this.#try(() => (isSteering ? this.#act.steer(text) : this.#act.send(text, at?.id ?? null, Boolean(at && this.copy.checked))));
    if (!isDone) return this.#keep();
    this.field.value = '';
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
  #question({ id, about, picks }) {
    const answer = async answers => {
      for (const button of element.querySelectorAll('button')) button.disabled = true;
      const isDone = await this.#try(() => this.#act.answer(id, answers));
      if (!isDone) for (const button of element.querySelectorAll('button')) button.disabled = false;
    };
    const [only] = picks;
    // What is about something is a permission, which takes none but its options.
    const isPressed = picks.length === 1 && !only.is_multiple && about;
    const fields = isPressed ? [] : picks.map((pick, at) => new Pick(pick, `${id}-${at}`, !about));
    const buttons = isPressed ? only.options.map(option =>
      el('button', {
        type: 'button', class: option.label.startsWith('Deny') ? 'stop' : null,
        click: () => answer({ [only.question]: option.label }),
      }, option.label))
      : [el('button', { type: 'submit' }, 'Answer')];
    const element = el('form', { class: 'question', 'aria-label': 'Question', submit: event => {
      event.preventDefault();
      answer(Object.fromEntries(fields.map(field => [field.question, field.value])));
    } },
    about && el('pre', { class: 'about', tabindex: 0, role: 'group', 'aria-label': 'What it is about' }, drawn(about)),
    isPressed && el('p', {}, only.question),
    isPressed && only.options.filter(option => option.description).map(option =>
      el('p', { class: 'allows' }, el('b', {}, option.label), ' ', option.description)),
    fields.map(field => field.element),
    el('div', { class: 'row' }, buttons, el('button', {
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

/// Returns what a permission is about; of an edit, with the lines of its change in their colours.
function drawn(about) {
  const isEdit = /^The agent wants to use \S*edit:/i.test(about);
  const kind = line => (isEdit && { '+': 'added', '-': 'removed' }[/^ {2}([+-]) /.exec(line)?.[1]]) || null;
  return about.split('\n').map(line => el('span', { class: kind(line) }, `${line}\n`));
}

/// Returns how a run ended, for people.
function ending({ is_error: isError, is_stopped: isStopped, text, turns, cost_usd: cost }) {
  if (isStopped) return 'The run was interrupted.';
  if (isError) return `The run failed: ${text.slice(0, 300)}`;
  const spent = cost ? `, ${dollars(cost)}` : '';
  return `The run has ended: ${turns === 1 ? '1 turn' : `${turns} turns`}${spent}.`;
}
