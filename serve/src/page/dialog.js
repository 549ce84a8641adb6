// What is done with a whole session, each in a dialog: its name, the files that it has changed, undo and redo, its end.

import { el, put, show } from './dom.js';
import { changes, told } from './message.js';

/// Number of changed lines up to which the diffs of all files are open.
const OPEN = 400;

/// Shows content in a dialog. `act` is what its button does, and may fail with an error for people; the dialog is closed
/// after it, unless it returns more content.
function dialog(title, content, { label = null, act = null, isGrave = false, close = 'Cancel' } = {}) {
  const fault = el('p', { class: 'fault', role: 'alert' });
  const body = el('div', {}, content);
  const leave = el('button', { type: 'button', class: 'quiet', click: () => element.close() }, act ? close : 'Close');
  const button = act && el('button', { type: 'submit', class: isGrave ? 'stop' : null }, label);
  const form = el('form', { submit: async event => {
    event.preventDefault();
    if (!act) return element.close();
    show(fault);
    button.disabled = true;
    try {
      const more = await act();
      if (!more) return element.close();
      button.remove();
      show(leave, 'Close');
      show(body, more);
      return leave.focus();
    } catch (error) {
      button.disabled = false;
      return show(fault, error.message);
    }
  } }, el('h2', { id: 'dialog-title' }, title), body, fault, el('div', { class: 'row end' }, leave, button));
  const element = el('dialog', { class: 'wide-dialog', 'aria-labelledby': 'dialog-title', close: () => element.remove() }, form);
  document.body.append(element);
  element.showModal();
  return element;
}

/// Asks for another name.
export function rename(source, session, title, done) {
  const field = el('input', { type: 'text', id: 'name', autocomplete: 'off', required: true });
  field.value = title;
  dialog('Rename the session', [el('label', { for: 'name' }, 'Name'), field], {
    label: 'Rename',
    act: async () => {
      await source.rename(session, field.value.trim());
      done();
    },
  });
  field.select();
}

/// Asks whether a session is to be deleted.
export function remove(source, session, title, done) {
  dialog('Delete the session?', [
    el('p', {}, el('b', {}, title)),
    el('p', {}, 'All its messages and branches are deleted, for good. Files that it has changed stay as they are.'),
  ], { label: 'Delete', isGrave: true, act: async () => {
    await source.remove(session);
    done();
  } });
}

/// Shows the files that a session has changed.
export async function files(source, session) {
  const diff = await source.files(session, 'beginning');
  dialog('Files changed by this session', diff.files.length || diff.left.length || diff.unseen.length
    ? listed(diff, 'changes not known') : el('p', { class: 'weak' }, 'None.'));
}

const WORDS = { undo: ['Undo', 'Redo'], redo: ['Redo', 'Undo'] };

/// Shows what an undo, or a redo, would change, and asks.
export async function restore(source, session, at) {
  const [verb, other] = WORDS[at];
  const diff = await source.files(session, at);
  const nothing = `Nothing to ${at}${diff.unseen.length ? ' but this, which is not known' : ''}.`;
  if (!diff.files.length && !diff.left.some(left => left.why.includes(';'))) {
    dialog(verb, [el('p', {}, nothing), listed(diff, 'not undone')]);
    return;
  }
  dialog(`${verb}: this would change`, [
    diff.is_of_others && el('p', { class: 'fault' }, 'These changes were not recorded by you on this machine: the session may come from somebody else.'),
    listed(diff, 'not undone'),
  ], { label: verb, act: async () => {
    const { failed } = await source.restore(session, at, diff.plan);
    return [
      el('p', { role: 'status' }, `Done. ${other} reverses this. The conversation stays as it is.`),
      failed.map(({ path, why }) => el('p', { class: 'fault' }, `${path}: ${why}`)),
    ];
  } });
}

const FATES = { created: 'new', changed: '', removed: 'removed' };

/// Returns files with their diffs.
function listed(diff, unseen) {
  const lines = diff.files.reduce((sum, file) => sum + file.added + file.removed, 0);
  const made = diff.files.map(file => {
    const body = file.hunks?.length ? changes(file.hunks.map(told), file.path)
      : el('p', { class: 'weak' }, file.hunks ? 'No changed lines' : 'No text, or too big');
    return el('details', { class: 'call', open: lines <= OPEN },
      el('summary', {}, el('code', {}, file.path), FATES[file.change] && el('span', {}, FATES[file.change]),
        file.hunks && [el('span', { class: 'added' }, `+${file.added}`), el('span', { class: 'removed' }, `−${file.removed}`)]), body);
  });
  const all = el('div', { class: 'files' }, made);
  put(all, diff.left.map(({ path, why }) => el('p', { class: 'weak' }, `Left as it is: ${path} (${why})`)),
    diff.unseen.map(call => el('p', { class: 'weak' }, `${call} (${unseen})`)));
  return all;
}
