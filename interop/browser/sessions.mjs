// What is done with a whole session in the page, and what a run is given: names, files and undo, questions, what waits, choices.
import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, fits, on, says, send, uses } from './bench.mjs';

const ASKING = ['--no-sandbox'];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC';
const article = (page, text) => page.locator('article', { hasText: text });
const dialog = page => page.getByRole('dialog');

/// Chooses what is done with the session.
async function chooses(page, name) {
  await page.locator('#menu summary').click();
  await page.locator('#menu').getByRole('button', { name, exact: true }).click();
}

async function opened(bench, session, options) {
  const page = await bench.open(options);
  await page.goto(`${bench.link.split('#')[0]}#/${session}`);
  await page.locator('#menu').waitFor();
  return page;
}

on('a question about an edit shows its diff, and a denial has a reason', async bench => {
  bench.write('a.py', 'def one():\n    return 1\n\n\nprint(one())\n');
  const path = join(bench.cwd, 'a.py');
  await bench.serves([
    uses('read', { path }), uses('edit', { path, old_string: 'def one():\n    return 1\n', new_string: 'def one():\n    return 2\n' }),
    says('As you like.'),
  ], ASKING);
  const page = await bench.open();
  await send(page, 'Make it two.');
  const question = page.getByRole('form', { name: 'Question' });
  await question.locator('.diff').waitFor();
  assert.deepEqual(await question.locator('.diff tr').allTextContents(), 
    ['11 def one():', '2Removed: -    return 1', '2Added: +    return 2', '33 ', '44 ', '55 print(one())']);
  assert.equal(await question.locator('.diff .is-keyword', { hasText: 'return' }).count(), 2);
  const about = await question.locator('.about').innerText();
  assert.match(about, /wants to use edit/i);
  assert.match(about, /a\.py/);
  assert.doesNotMatch(about, /return/);
  for (const name of ['Allow', 'Allow for this session', 'Deny']) await question.getByRole('button', { name, exact: true }).waitFor();
  await accessible(page, 'a question with a diff');
  await question.getByLabel('Reason for a denial').fill('One is enough.');
  await question.getByRole('button', { name: 'Deny', exact: true }).click();
  await article(page, 'As you like.').waitFor();
  const call = page.locator('.call', { hasText: 'edit' });
  await call.locator('summary').click();
  await call.getByText('One is enough.').waitFor();
  assert.match(bench.read('a.py'), /return 1/);
  assert.deepEqual(page.faults, []);
});

on('a message that waits is seen after a reload, and taken back', async bench => {
  await bench.serves([uses('bash', { command: 'until [ -e go ]; do sleep 0.05; done' }), says('Done.')]);
  const page = await bench.open();
  await send(page, 'Wait.');
  await page.locator('body.running').waitFor();
  await page.locator('.call').waitFor();
  await send(page, 'Be quick.');
  await page.locator('article.queued', { hasText: 'Be quick.' }).waitFor();
  await page.reload();
  const waiting = page.locator('article.queued', { hasText: 'Be quick.' });
  await waiting.waitFor();
  await accessible(page, 'a message that waits');
  await waiting.getByRole('button', { name: 'Take back' }).click();
  await page.waitForFunction(() => !document.querySelector('article.queued'));
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), 'Be quick.');
  bench.write('go', '');
  await article(page, 'Done.').waitFor();
  assert.equal(await article(page, 'Be quick.').count(), 0);
  assert.deepEqual(page.faults, []);
});

on('a running command shows what it has written', async bench => {
  await bench.serves([uses('bash', { command: 'echo first; until [ -e go ]; do sleep 0.05; done; echo last' }), says('Done.')]);
  const page = await bench.open();
  await send(page, 'Go.');
  const call = page.locator('.call', { hasText: 'echo first' });
  await call.locator('summary').click();
  const so = call.getByRole('group', { name: 'Output so far' });
  await so.getByText('first').waitFor();
  bench.write('go', '');
  await article(page, 'Done.').waitFor();
  await call.getByRole('group', { name: 'Output', exact: true }).getByText('last').waitFor();
  assert.equal(await so.count(), 0);
  // Until it had written something there was nothing to be told.
  assert.deepEqual(page.faults.filter(fault => !fault.includes('404')), []);
});

on('a session is renamed and deleted', async bench => {
  await bench.serves([says('One.'), says('Two.')]);
  const session = await bench.session('First.');
  await bench.session('Other.');
  const page = await opened(bench, session);
  await chooses(page, 'Rename');
  await accessible(page, 'a name');
  await page.getByRole('textbox', { name: 'Name' }).fill('Other words');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Other words' }).waitFor();
  await page.locator('#list a', { hasText: 'Other words' }).waitFor();
  await chooses(page, 'Delete');
  await accessible(page, 'a deletion');
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await bench.call(`/${session}`)).status, 200);
  await chooses(page, 'Delete');
  await dialog(page).getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Say what to do. The session').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('#list a').length === 1);
  assert.equal((await bench.call(`/${session}`)).status, 404);
  assert.deepEqual(page.faults, []);
});

on('a session that came with the folder is continued once that is agreed to', async bench => {
  await bench.serves([says('One.'), says('Two.')]);
  const session = await bench.session('First.');
  // As in another home: the list of the user's sessions does not have it.
  rmSync(join(bench.home, '.ah', 'sessions'), { recursive: true });
  const page = await bench.open();
  await page.goto(`${bench.link.split('#')[0]}#/${session}`);
  await article(page, 'One.').waitFor();
  const notice = page.getByRole('note');
  await notice.getByText('not made by you').waitFor();
  await page.locator('#list a', { hasText: 'not made by you' }).waitFor();
  for (const place of ['#field', '#menu']) assert.equal(await page.locator(place).isVisible(), false, place);
  await accessible(page, 'a session of somebody else');
  await notice.getByRole('button', { name: 'Make it mine' }).click();
  await page.locator('#menu').waitFor();
  await send(page, 'Go on.');
  await article(page, 'Two.').waitFor();
  await page.reload();
  await page.locator('#menu').waitFor();
  assert.equal(await notice.count(), 0);
  assert.deepEqual(page.faults, []);
});

on('changed files are listed with their diffs, undone when that is agreed to, and redone', async bench => {
  const [a, b] = [join(bench.cwd, 'a.txt'), join(bench.cwd, 'b.rs')];
  bench.write('a.txt', 'one\ntwo\n');
  await bench.serves([
    uses('read', { path: a }), uses('edit', { path: a, old_string: 'two', new_string: 'three' }),
    uses('write', { path: b, content: 'fn main() {}\n' }), says('Done.'),
  ]);
  const session = await bench.session('Change them.');
  const page = await opened(bench, session);
  await chooses(page, 'Files changed');
  await dialog(page).locator('.diff').nth(1).waitFor();
  assert.deepEqual(await dialog(page).locator('summary code').allTextContents(), ['a.txt', 'b.rs']);
  assert.deepEqual(await dialog(page).locator('tr.added td:last-child').allTextContents(), ['Added: +three', 'Added: +fn main() {}']);
  assert.equal(await dialog(page).locator('.is-keyword', { hasText: 'fn' }).count(), 1);
  await accessible(page, 'changed files');
  await page.keyboard.press('Escape');
  await chooses(page, 'Undo');
  await dialog(page).getByText('this would change').waitFor();
  assert.deepEqual(await dialog(page).locator('tr.removed td:last-child').allTextContents(), ['Removed: -three', 'Removed: -fn main() {}']);
  assert.equal(bench.read('a.txt'), 'one\nthree\n');
  // What was shown is what is agreed to.
  bench.write('a.txt', 'one\nfour\n');
  await dialog(page).getByRole('button', { name: 'Undo' }).click();
  await dialog(page).getByText('it would change something else by now').waitFor();
  assert.ok(existsSync(b));
  bench.write('a.txt', 'one\nthree\n');
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  await chooses(page, 'Undo');
  await dialog(page).getByRole('button', { name: 'Undo' }).click();
  await dialog(page).getByText('Redo reverses this').waitFor();
  await page.keyboard.press('Escape');
  assert.ok(!existsSync(b));
  await chooses(page, 'Redo');
  await dialog(page).getByRole('button', { name: 'Redo' }).click();
  await dialog(page).getByText('Undo reverses this').waitFor();
  assert.ok(existsSync(b));
  assert.deepEqual(page.faults.filter(fault => !fault.includes('409')), []);
  const narrow = await opened(bench, session, { viewport: { width: 375, height: 720 } });
  await fits(narrow, 'a session with its menu');
  await chooses(narrow, 'Files changed');
  await dialog(narrow).locator('.diff').first().waitFor();
  await fits(narrow, 'changed files, narrow');
});

on('model and permission mode are shown and chosen', async bench => {
  await bench.serves([says('One.'), uses('write', { path: join(bench.cwd, 'a.txt'), content: 'a' }), says('Two.')], ASKING);
  const page = await bench.open();
  const mode = page.getByLabel('Permissions');
  const model = page.getByLabel('Model');
  await mode.waitFor();
  assert.equal(await mode.inputValue(), 'default');
  assert.deepEqual(await mode.locator('option').allTextContents(), ['Ask', 'Accept edits', 'Plan']);
  await model.selectOption('haiku');
  await send(page, 'Look.');
  await article(page, 'One.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  await page.waitForFunction(() => document.querySelector('#model').selectedOptions[0].textContent.includes('haiku'));
  assert.match(await page.locator('#facts').innerText(), /haiku/);
  await mode.selectOption('acceptEdits');
  await send(page, 'Write.');
  await article(page, 'Two.').waitFor();
  assert.equal(bench.read('a.txt'), 'a');
  // It is the mode of the session from now on, also for who comes later.
  const session = page.url().split('/').at(-1);
  assert.equal((await bench.call(`/${session}`)).json.state.mode, 'acceptEdits');
  await page.reload();
  await article(page, 'Two.').waitFor();
  await page.waitForFunction(() => document.querySelector('#mode').value === 'acceptEdits');
  assert.deepEqual(page.faults, []);
});

on('pictures go with a prompt', async bench => {
  await bench.serves([says('A picture.')]);
  const page = await bench.open();
  const picture = { name: 'a.png', mimeType: 'image/png', buffer: Buffer.from(PNG, 'base64') };
  await page.locator('input[type=file]').setInputFiles([picture, picture]);
  const left = page.getByRole('button', { name: 'Picture 2: leave it out' });
  await left.waitFor();
  await accessible(page, 'pictures');
  await left.click();
  await send(page, 'What is it?');
  await article(page, 'A picture.').waitFor();
  assert.equal(await article(page, 'What is it?').locator('img').count(), 1);
  assert.equal(await page.locator('.pictures img').count(), 0);
  // A large one is made small.
  const large = await page.evaluate(() => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 3000, height: 2000 });
    canvas.getContext('2d').fillRect(9, 9, 900, 900);
    return canvas.toDataURL('image/bmp').split(',')[1];
  });
  await page.locator('input[type=file]').setInputFiles([{ name: 'b.bmp', mimeType: 'image/bmp', buffer: Buffer.from(large, 'base64') }]);
  await page.waitForFunction(() => document.querySelector('.pictures img')?.src.startsWith('data:image/jpeg'));
  assert.equal(await page.locator('.pictures img').evaluate(it => it.naturalWidth), 1568);
  assert.deepEqual(page.faults, []);
});

on('who does not look is told that a session asks or has ended', async bench => {
  await bench.serves([uses('write', { path: join(bench.cwd, 'a.txt'), content: 'a' }), says('Done.')], ASKING);
  const page = await bench.page();
  await page.context().grantPermissions(['notifications']);
  await page.addInitScript(() => {
    window.told = [];
    class Told { constructor(title, { body }) { window.told.push(`${title}: ${body}`); } static permission = 'granted'; static async requestPermission() { return 'granted'; } }
    window.Notification = Told;
    window.unseen = false;
    Object.defineProperty(document, 'visibilityState', { get: () => (window.unseen ? 'hidden' : 'visible') });
  });
  await page.goto(bench.link);
  await page.getByLabel('Notify me when a session asks or ends').check();
  await send(page, 'Write it.');
  // The first answer of the model is this session's.
  await page.getByRole('form', { name: 'Question' }).waitFor();
  await page.locator('#list a').waitFor();
  await page.evaluate(() => { window.unseen = true; });
  // Another session, which is not shown.
  const { json: { session } } = await bench.call('', { prompt: 'Also.' });
  assert.ok(session);
  await page.waitForFunction(() => window.told.some(it => it.startsWith('ah has ended: Also')));
  assert.deepEqual(page.faults, []);
});

on('code has colours', async bench => {
  await bench.serves([says('So:\n\n```python\ndef f(x):  # why\n    return "a", 12\n```\n\n```nobody\ndef f\n```')]);
  const session = await bench.session('How?');
  for (const colorScheme of ['light', 'dark']) {
    const page = await opened(bench, session, { colorScheme });
    await page.locator('.is-keyword', { hasText: 'def' }).waitFor();
    const all = await page.locator('.code span').evaluateAll(spans => spans.map(it => `${it.className} ${it.textContent}`));
    assert.deepEqual(all, ['is-keyword def', 'is-name f', 'is-comment # why', 'is-keyword return', 'is-string "a"', 'is-number 12']);
    await accessible(page, `colours, ${colorScheme}`);
  }
});
