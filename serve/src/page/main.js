// The page: who is asked, which session is shown, colours, keys. The address after `#` is a place: `/SESSION/MESSAGE`.

import { Composer } from './composer.js';
import { by, el, plain, show, time } from './dom.js';
import { Archive, Server } from './server.js';
import { SessionView } from './session.js';

const TOKEN = /^[0-9a-f]{64}$/;
const REFRESH = 5_000;
/// Number of sessions from which on they can be searched.
const MANY = 8;
const NARROW = '(max-width: 60rem)';

let source;
let view = null;
let refreshing = null;
let sessions = null;

function start() {
  theme();
  keys();
  panels();
  const held = by('session');
  if (held) return hold(JSON.parse(held.textContent));
  window.addEventListener('hashchange', () => enter());
  notifying();
  by('new').addEventListener('click', () => go(''));
  by('wanted').addEventListener('input', () => listed());
  return enter();
}

/// Shows the session that this document holds.
function hold(document) {
  source = new Archive(document);
  window.document.body.classList.add('held');
  show(by('below'), el('p', { class: 'weak' }, `Written by ${document.writer}.`));
  return open('', null);
}

/// Takes the token out of the address, and shows the place that is left.
function enter() {
  const hash = location.hash.slice(1);
  if (TOKEN.test(hash)) {
    sessionStorage.setItem('token', hash);
    // Neither the history nor a copied address has it.
    history.replaceState(null, '', location.pathname);
  }
  const token = sessionStorage.getItem('token');
  if (!token) return ask('');
  source = new Server(token);
  clearInterval(refreshing);
  refreshing = setInterval(() => (document.visibilityState === 'visible' || notifies()) && list(), REFRESH);
  const [, session = '', message] = location.hash.slice(1).split('/');
  return open(decodeURIComponent(session), message ? decodeURIComponent(message) : null);
}

/// Goes to a place; null is where a token is asked for.
function go(session, message = null) {
  if (source?.isReadOnly) return open('', message);
  if (session === null) return ask('The server has ended, or has another token now.');
  const place = session ? `#/${[session, message].filter(Boolean).map(encodeURIComponent).join('/')}` : '';
  if (place === location.hash) return enter();
  // Emptying the hash is no event.
  history.pushState(null, '', place || location.pathname);
  return enter();
}

function leave() {
  view?.close();
  view = null;
  document.body.classList.remove('running', 'asked', 'lost');
  for (const id of ['messages', 'tree', 'usage', 'facts']) show(by(id));
  if (!source?.isReadOnly) show(by('below'));
}

/// Asks for the link.
function ask(reason) {
  leave();
  clearInterval(refreshing);
  sessionStorage.removeItem('token');
  document.body.classList.add('locked');
  const field = el('input', { id: 'link', type: 'password', autocomplete: 'off', required: true });
  const fault = el('p', { class: 'fault', role: 'alert' }, reason);
  const form = el('form', { class: 'link', submit: event => {
    event.preventDefault();
    const token = field.value.trim().split('#').at(-1);
    if (!TOKEN.test(token)) return show(fault, 'This link has no token: it ends with # and 64 digits and letters.');
    sessionStorage.setItem('token', token);
    document.body.classList.remove('locked');
    return enter();
  } },
  el('h2', {}, 'Which server?'),
  el('label', { for: 'link' }, 'Paste the link that ', el('code', {}, 'ah serve'), ' printed.'), field, fault,
  el('button', { type: 'submit' }, 'Open'));
  show(by('title'), 'ah');
  show(by('messages'), form);
  field.focus();
}

async function open(session, message) {
  leave();
  document.body.classList.remove('locked');
  if (matchMedia(NARROW).matches) document.body.dataset.panel = '';
  arrange();
  mark(session);
  if (!session && !source.isReadOnly) {
    list();
    return begin();
  }
  view = new SessionView(source, session, message, go, list);
  const own = view;
  try {
    await own.open();
  } catch (error) {
    if (view !== own) return null;
    if (error.status === 401) return go(null);
    show(by('messages'), el('p', { class: 'fault', role: 'alert' }, error.message));
  }
  return null;
}

/// Shows the place where a session begins.
function begin() {
  show(by('title'), 'New session');
  document.title = 'ah';
  show(by('messages'), el('p', { class: 'welcome' }, 'Say what to do. The session runs in the folder of ', el('code', {}, 'ah serve'), ', with its rules and permissions.'));
  const composer = new Composer(by('below'), {
    send: async (text, _at, _isCopy, chosen) => go((await source.begin(text, chosen)).session), choices: () => source.choices(),
  });
  composer.focus();
}

/// Shows the sessions as they are now; returns them.
async function list() {
  if (source.isReadOnly) return [];
  try {
    const known = await source.list();
    if (JSON.stringify(known) === JSON.stringify(sessions)) return sessions;
    if (sessions) notice(sessions, known);
    sessions = known;
  } catch (error) {
    if (error.status === 401) go(null);
    return sessions ?? [];
  }
  listed();
  return sessions;
}

/// Shows the sessions whose titles have the words that are searched for.
function listed() {
  if (!sessions) return;
  by('wanted').hidden = sessions.length < MANY;
  const words = by('wanted').value.toLowerCase().split(/\s+/);
  const found = sessions.filter(({ title }) => words.every(word => title.toLowerCase().includes(word)));
  const had = document.activeElement?.closest('#list a')?.dataset.id;
  show(by('list'), found.map(({ id, title, messages, updated_ms: at, running, questions }) => el('li', { class: questions ? 'asks' : running ? 'runs' : null },
    el('a', { href: `#/${encodeURIComponent(id)}`, 'data-id': id }, el('span', { class: 'words' }, plain(title) || id),
      el('span', { class: 'weak' }, [
        questions ? 'asks you' : running ? 'running' : time(at), messages === 1 ? '1 message' : `${messages} messages`,
      ].join(' · '))))));
  mark(decodeURIComponent(location.hash.split('/')[1] ?? ''));
  if (had) [...by('list').querySelectorAll('a')].find(it => it.dataset.id === had)?.focus();
}

/// Whether the browser is to say what happens while the page is not seen.
const notifies = () => 'Notification' in window && Notification.permission === 'granted' && stored()?.getItem('notify') === 'on';

/// Says which sessions have begun to ask, or have ended, while the page is not seen.
function notice(before, now) {
  if (document.visibilityState === 'visible' || !notifies()) return;
  for (const { id, title, messages, running, questions } of now) {
    const was = before.find(it => it.id === id);
    // A short run may begin and end between two looks.
    const hasEnded = !running && (was?.running || messages > (was?.messages ?? 0));
    const news = questions > (was?.questions ?? 0) ? 'asks you' : hasEnded ? 'has ended' : null;
    if (!news) continue;
    const notification = new Notification(`ah ${news}`, { body: plain(title), tag: id });
    notification.onclick = () => {
      window.focus();
      go(id);
    };
  }
}

/// Offers notifications where the browser has them.
function notifying() {
  if (!('Notification' in window) || !window.isSecureContext) return;
  by('notified').hidden = false;
  const choice = by('notify');
  choice.checked = notifies();
  choice.addEventListener('change', async () => {
    const isAllowed = choice.checked && await Notification.requestPermission() === 'granted';
    stored()?.setItem('notify', isAllowed ? 'on' : 'off');
    choice.checked = isAllowed;
  });
}

/// Marks the session that is shown.
function mark(session) {
  for (const link of by('list').querySelectorAll('a')) {
    if (link.dataset.id === session) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

/// What the browser keeps; a document that is opened from a file may have no storage.
function stored() {
  try { return localStorage; } catch { return null; }
}

function theme() {
  const choice = by('theme');
  const set = name => {
    choice.value = name;
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
  };
  set(stored()?.getItem('theme') ?? '');
  choice.addEventListener('change', () => {
    set(choice.value);
    stored()?.setItem('theme', choice.value);
  });
}

/// On a narrow screen the sessions and the tree cover the conversation; on a wide one the tree can be hidden.
function panels() {
  const buttons = { sessions: by('show-sessions'), side: by('show-side') };
  for (const [panel, button] of Object.entries(buttons)) {
    button.addEventListener('click', () => {
      const { dataset } = document.body;
      dataset.panel = dataset.panel === panel ? '' : panel;
      arrange();
      if (button.getAttribute('aria-expanded') === 'true') by(panel).focus();
    });
  }
  matchMedia(NARROW).addEventListener('change', arrange);
  arrange();
}

/// Says which panels are shown. What is covered takes no focus.
function arrange() {
  const { panel } = document.body.dataset;
  const isNarrow = matchMedia(NARROW).matches;
  by('show-sessions').setAttribute('aria-expanded', String(panel === 'sessions'));
  by('show-side').setAttribute('aria-expanded', String(isNarrow === (panel === 'side')));
  for (const id of ['messages', 'below']) by(id).inert = isNarrow && Boolean(panel);
}

/// Keys that do something outside fields.
const KEYS = {
  j: ['Next message', () => step(1)],
  k: ['Message before', () => step(-1)],
  o: ['Open or fold the calls of a message', unfold],
  f: ['Fork after the message', () => view?.fork()],
  c: ['Write a message', () => by('field')?.focus()],
  a: ['Answer the question', () => view?.composer?.answer()],
  x: ['Interrupt the run', () => view?.composer?.interrupt()],
  t: ['Tree (arrows move, Enter shows)', () => view?.tree.focus()],
  s: ['Sessions', () => (by('list').querySelector('a') ?? by('new')).focus()],
  n: ['New session', () => source.isReadOnly || go('')],
  '?': ['These keys', () => by('help').showModal()],
};

function keys() {
  show(by('keys'), Object.entries(KEYS).map(([key, [name]]) => el('div', {}, el('dt', {}, el('kbd', {}, key)), el('dd', {}, name))),
    el('div', {}, el('dt', {}, el('kbd', {}, 'Esc')), el('dd', {}, 'Leave a field')));
  document.addEventListener('click', event => { if (!event.target.closest('#menu')) by('menu').open = false; });
  by('show-help').addEventListener('click', () => by('help').showModal());
  // Whoever dictates, or slips, can do without keys of one letter.
  const isOn = by('keys-on');
  isOn.checked = stored()?.getItem('keys') !== 'off';
  isOn.addEventListener('change', () => stored()?.setItem('keys', isOn.checked ? 'on' : 'off'));
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') by('menu').open = false;
    const isField = event.target.closest('input, textarea, select, dialog');
    if (event.key === 'Escape' && event.target.closest('input, textarea')) return event.target.blur();
    if (isField || !isOn.checked || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return null;
    event.preventDefault();
    return KEYS[event.key][1]();
  });
}

function step(by_) {
  const all = view?.articles ?? [];
  const here = all.indexOf(document.activeElement?.closest('article'));
  const next = here < 0 ? all.at(by_ < 0 ? -1 : 0) : all[here + by_];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

function unfold() {
  const folds = [...document.activeElement?.closest('article')?.querySelectorAll(':scope > details') ?? []];
  const isOpen = folds.some(it => it.open);
  for (const fold of folds) fold.open = !isOpen;
}

start();
