// The page of `ah serve` in a real browser, as people use it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { accessible, fits, on, says, send, uses } from './bench.mjs';

const ASKING = ['--no-sandbox'];
const THEMES = ['light', 'dark'];
const used = (input_tokens, cache_read_input_tokens, output_tokens) => ({ usage: { input_tokens, cache_read_input_tokens, output_tokens } });
const article = (page, text) => page.locator('article', { hasText: text });
const rows = page => page.getByRole('treeitem');

on('the link opens the page, and leaves no token in the address', async bench => {
  await bench.serves([says('Salve.')]);
  const page = await bench.open();
  await page.getByRole('button', { name: 'New session' }).waitFor();
  assert.ok(!page.url().includes(bench.token));
  assert.equal(await page.evaluate(() => history.length), 2);
  await send(page, 'Greet me.');
  await article(page, 'Salve.').waitFor();
  assert.ok(!page.url().includes(bench.token));
  for (const request of page.asked) {
    assert.ok(!request.url().includes(bench.token), request.url());
    assert.ok(request.url().startsWith(bench.url) || request.url() === 'data:,', request.url());
    assert.ok(!request.headers().referer);
  }
  await page.reload();
  await article(page, 'Salve.').waitFor();
  // Another tab has the address, and not the token.
  const other = await bench.page();
  await other.goto(page.url());
  await other.getByLabel('Paste the link').fill(bench.link);
  await other.keyboard.press('Enter');
  await article(other, 'Salve.').waitFor();
  assert.deepEqual([...page.faults, ...other.faults], []);
});

on('an answer is followed while it is written', async bench => {
  await bench.serves([
    uses('bash', { command: 'until [ -e go ]; do sleep 0.05; done; echo done' }, { text: 'I wait.' }),
    says('It is **over**.'),
  ]);
  const page = await bench.open();
  await send(page, 'Wait.');
  await article(page, 'I wait.').waitFor();
  assert.equal(await page.locator('body.running').count(), 1);
  await page.locator('.call', { hasText: 'until' }).waitFor();
  assert.equal(await page.locator('.call .running').count(), 1);
  await send(page, 'Be quick.');
  await page.getByLabel('Message', { exact: true }).and(page.locator('[placeholder^="Tell the run"]')).waitFor();
  // It is seen until the run has read it.
  await page.locator('article.queued', { hasText: 'Be quick.' }).waitFor();
  assert.match(await page.title(), /^● /);
  await page.locator('#list .runs', { hasText: 'running' }).waitFor();
  bench.write('go', '');
  await article(page, 'It is over.').waitFor();
  await page.locator('.call .done').waitFor();
  await article(page, 'Be quick.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  assert.equal(await page.locator('article.queued').count(), 0);
  assert.equal(await article(page, 'Be quick.').count(), 1);
  assert.doesNotMatch(await page.locator('body').innerText(), /\[STEERING\]/);
  assert.match(await page.locator('#means').innerText(), /The run has ended: \d turns/);
  assert.deepEqual(page.faults, []);
});

on('an answer is shown as it grows, and once when it is there', async bench => {
  const text = ['The ', 'answer ', 'grows **word', ' by word**.'];
  await bench.serves([{ thinking: 'Slowly.', text, chunk_delay_ms: 600 }]);
  const page = await bench.open();
  await send(page, 'Go.');
  const draft = page.getByRole('article', { name: 'Answer in progress' });
  await draft.getByText('The answer').waitFor();
  assert.equal(await page.locator('article.assistant:not(.draft)').count(), 0);
  await page.locator('article.assistant:not(.draft)', { hasText: 'word by word.' }).waitFor();
  assert.equal(await draft.count(), 0);
  assert.equal(await page.locator('article').count(), 2);
  assert.deepEqual(page.faults, []);
});

on('a run is interrupted', async bench => {
  await bench.serves([uses('bash', { command: 'sleep 600' }), says('unused')]);
  const page = await bench.open();
  await send(page, 'Wait.');
  await page.locator('.call').waitFor();
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await page.locator('#means:not(.failed)', { hasText: 'The run was interrupted.' }).waitFor();
});

/// Waits until the page has been painted twice, so that what follows a change is done.
const painted = page => page.evaluate(() => new Promise(done => { requestAnimationFrame(() => requestAnimationFrame(done)); }));

const isAtEnd = page => page.waitForFunction(() => {
  const list = document.querySelector('#messages');
  const last = list.querySelector('article:last-of-type');
  return list.scrollHeight > list.clientHeight && last.getBoundingClientRect().bottom <= list.getBoundingClientRect().bottom + 1;
});

on('a session opens at its end, and what comes stays in view', async bench => {
  const long = word => `${`${word} `.repeat(600)}\n\n`.repeat(2);
  await bench.serves([...Array.from({ length: 6 }, (_, at) => says(long(`word${at}`))), uses('bash', { command: 'echo here' }), says(long('last'))]);
  const session = await bench.session('First.');
  for (let at = 1; at < 6; at += 1) await bench.prompt(session, `Prompt ${at}.`);
  for (const width of [1280, 375]) {
    const page = await bench.open({ viewport: { width, height: 720 } });
    await page.goto(`${bench.link.split('#')[0]}#/${session}`);
    await article(page, 'word5').waitFor();
    await isAtEnd(page);
    // Whoever reads further up stays there.
    if (width === 375) continue;
    await send(page, 'Once more.');
    await article(page, 'Once more.').waitFor();
    await article(page, 'last').waitFor();
    await isAtEnd(page);
    await page.locator('#messages').evaluate(list => { list.scrollTop -= 1000; });
    await painted(page);
    const top = await page.locator('#messages').evaluate(list => list.scrollTop);
    await page.locator('#messages').evaluate(list => { list.append(Object.assign(document.createElement('p'), { textContent: 'more' })); });
    await painted(page);
    assert.equal(await page.locator('#messages').evaluate(list => list.scrollTop), top);
    assert.deepEqual(page.faults, []);
  }
});

on('what was typed and not sent is there again', async bench => {
  await bench.serves([says('One.'), says('Two.')]);
  await bench.session('First.');
  const page = await bench.open();
  const field = page.getByLabel('Message', { exact: true });
  await field.fill('For a new one.');
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  assert.equal(await field.inputValue(), '');
  await field.fill('For the first.');
  await page.reload();
  await article(page, 'One.').waitFor();
  assert.equal(await field.inputValue(), 'For the first.');
  await page.getByRole('button', { name: 'New session' }).click();
  await page.getByText('Say what to do. The session').waitFor();
  assert.equal(await field.inputValue(), 'For a new one.');
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  await page.keyboard.press('c');
  await page.keyboard.press('Enter');
  await article(page, 'Two.').waitFor();
  await page.reload();
  await article(page, 'Two.').waitFor();
  assert.equal(await field.inputValue(), '');
});

on('calls of an answer that another branch shares are done there too', async bench => {
  await bench.serves([uses('bash', { command: 'echo shared' }, { text: 'I look.' }), says('One.'), says('Other.')]);
  await bench.session('First.');
  const page = await bench.open();
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  const look = article(page, 'I look.');
  await look.hover();
  await look.getByRole('button', { name: 'Fork' }).click();
  await send(page, 'Otherwise.');
  await article(page, 'Other.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  assert.equal(await page.locator('.call .running').count(), 0);
  assert.equal(await page.locator('.call .done').count(), 1);
});

on('a question is answered from two tabs at once, and counts once', async bench => {
  await bench.serves([uses('write', { path: join(bench.cwd, 'a.txt'), content: 'one\ntwo\n' }), says('Written.')], ASKING);
  const one = await bench.open();
  await send(one, 'Write it.');
  const allow = page => page.getByRole('form', { name: 'Question' }).getByRole('button', { name: 'Allow', exact: true });
  await allow(one).waitFor();
  const other = await bench.open();
  await other.goto(one.url());
  await allow(other).waitFor();
  await accessible(one, 'a question');
  // The list and the browser's tab say that it asks, and a no does not look like a yes.
  await one.locator('#list .asks', { hasText: 'asks you' }).waitFor();
  assert.match(await one.title(), /^\(\?\) /);
  assert.equal(await one.locator('.question button.stop', { hasText: 'Deny' }).count(), 1);
  const answers = [];
  for (const page of [one, other]) {
    page.on('response', response => { if (response.url().includes('/questions/')) answers.push(response.status()); });
  }
  // Both are pressed before either is told.
  await Promise.all([one, other].map(page => allow(page).evaluate(button => button.click())));
  await Promise.all([one, other].map(page => article(page, 'Written.').waitFor()));
  assert.deepEqual(answers.sort(), [200, 409]);
  assert.equal(await one.getByRole('form', { name: 'Question' }).count(), 0);
  assert.equal(bench.read('a.txt'), 'one\ntwo\n');
  // The change is shown when it is asked for.
  const call = one.locator('.call');
  assert.equal(await call.locator('.diff').count(), 0);
  await call.locator('summary').click();
  await call.locator('.diff').waitFor();
  assert.deepEqual(await call.locator('.diff tr.added td:last-child').allTextContents(), ['Added: +one', 'Added: +two']);
});

on('questions with several picks are answered', async bench => {
  const option = label => ({ label, description: `It is ${label}.` });
  await bench.serves([
    uses('AskUserQuestion', { questions: [
      { question: 'Which colour?', header: 'Colour', options: ['red', 'blue'].map(option), multiSelect: false },
      { question: 'Which sizes?', header: 'Sizes', options: ['small', 'large'].map(option), multiSelect: true },
    ] }),
    says('Thank you.'),
  ]);
  const page = await bench.open();
  await send(page, 'Ask me.');
  const form = page.getByRole('form', { name: 'Question' });
  await form.getByRole('radio', { name: 'blue' }).check();
  await form.getByRole('checkbox', { name: 'small' }).check();
  await form.getByRole('checkbox', { name: 'large' }).check();
  await form.getByRole('button', { name: 'Answer', exact: true }).click();
  await article(page, 'Thank you.').waitFor();
  await page.locator('.call summary').first().click();
  await page.locator('.call pre').first().waitFor();
  const said = await page.locator('.call').first().innerText();
  assert.match(said, /blue/);
  assert.match(said, /small, large/);
});

on('the tree shows every branch, and any message can be forked', async bench => {
  await bench.serves([says('One.'), says('Two.'), says('Other.'), says('Copied.')]);
  const session = await bench.session('First.');
  const page = await bench.open();
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  await send(page, 'Second.');
  await article(page, 'Two.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  // From the end of the first exchange, as another branch.
  const first = article(page, 'One.');
  await first.hover();
  await first.getByRole('button', { name: 'Fork' }).click();
  assert.match(await page.locator('#means').innerText(), /after @1, as another branch/);
  await send(page, 'Otherwise.');
  await article(page, 'Other.').waitFor();
  assert.equal(await article(page, 'Two.').count(), 0);
  assert.equal((await bench.call(`/${session}/tree`)).json.nodes.length, 6);
  await page.waitForFunction(() => document.querySelectorAll('[role=treeitem]').length === 6);
  const told = await rows(page).evaluateAll(all => all.map(row =>
    [row.querySelector('.words').textContent, row.getAttribute('aria-level'), row.getAttribute('aria-current')]));
  assert.deepEqual(told, [
    ['First.', '1', null], ['One.', '1', null], ['Second.', '2', null], ['Two.', '2', null],
    ['Otherwise.', '1', null], ['Other.', '1', 'true'],
  ]);
  // Another branch is looked at, and gone on from in a copy.
  await rows(page).filter({ hasText: 'Second.' }).click();
  await article(page, 'Two.').waitFor();
  await page.getByText('This branch is not the current one').waitFor();
  await accessible(page, 'another branch');
  await page.getByLabel('in a copy').check();
  await send(page, 'Further.');
  await article(page, 'Copied.').waitFor();
  assert.ok(!page.url().includes(session));
  assert.equal(await article(page, 'Two.').count(), 1);
  assert.equal(await page.locator('#list a').count(), 2);
  assert.deepEqual(page.faults, []);
});

on('sessions are searched, and code is copied', async bench => {
  await bench.serves([...Array.from({ length: 8 }, () => says('One.')), says('So:\n\n```sh\nmake all\n```')]);
  for (let at = 0; at < 7; at += 1) await bench.session(`Task ${at}.`);
  const page = await bench.open();
  await page.locator('#list a').nth(6).waitFor();
  const search = page.getByRole('searchbox', { name: 'Search sessions' });
  assert.equal(await search.count(), 0);
  await bench.session('Paint the shed.');
  await search.fill('shed PAINT');
  await page.waitForFunction(() => document.querySelectorAll('#list a').length === 1);
  await accessible(page, 'a search');
  await page.locator('#list a').click();
  await article(page, 'One.').waitFor();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await send(page, 'How?');
  const block = article(page, 'make all').locator('.code');
  await block.hover();
  await block.getByRole('button', { name: 'Copy' }).click();
  await block.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'make all');
  assert.deepEqual(page.faults, []);
});

on('cost and context are plotted', async bench => {
  await bench.serves([says('One.', used(1000, 0, 50)), says('Two.', used(200, 1000, 400))]);
  await bench.session('First.');
  const page = await bench.open();
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  await page.getByRole('img', { name: /Tokens of each request, 1 in all/ }).waitFor();
  await send(page, 'Second.');
  await page.getByRole('img', { name: /Tokens of each request, 2 in all; the last has 1\.2k/ }).waitFor();
  await page.getByRole('img', { name: /Cost of the session so far/ }).waitFor();
  assert.equal(await page.locator('#usage rect').count(), 6);
  await page.locator('#usage summary').click();
  await page.locator('#usage tbody tr').nth(1).waitFor();
});

on('all of it is done with the keyboard', async bench => {
  await bench.serves([uses('bash', { command: 'echo found' }), says('One.'), says('Two.'), says('Three.')]);
  const page = await bench.open();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.type('First.');
  await page.keyboard.press('Enter');
  await article(page, 'One.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  assert.match(await focused(), /First\./);
  await page.keyboard.press('j');
  await page.keyboard.press('o');
  await page.locator('.call[open]', { hasText: 'found' }).waitFor();
  await page.keyboard.press('j');
  assert.match(await focused(), /One\./);
  await page.keyboard.press('f');
  await page.keyboard.type('Second.');
  await page.keyboard.press('Enter');
  await article(page, 'Two.').waitFor();
  await page.locator('body:not(.running)').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('t');
  await page.keyboard.press('Home');
  assert.match(await focused(), /First\./);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  assert.match(await page.evaluate(() => document.activeElement.closest('article').textContent), /echo found/);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('n');
  await page.getByRole('heading', { name: 'New session' }).waitFor();
  await page.keyboard.type('Third.');
  await page.keyboard.press('Enter');
  await article(page, 'Three.').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('#list a').nth(1).waitFor();
  await page.keyboard.press('s');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await article(page, 'Two.').waitFor();
  // Who needs none can turn the keys of one letter off.
  await page.getByRole('button', { name: 'Keys' }).click();
  await page.getByRole('checkbox', { name: 'Use these keys' }).uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('n');
  assert.equal(await page.getByRole('heading', { name: 'New session' }).count(), 0);
  assert.deepEqual(page.faults, []);
});

on('a narrow window, dark and light, and readers of the screen', async bench => {
  const long = `${'word '.repeat(400)}\n\n\`${'x'.repeat(500)}\`\n\n| ${'column | '.repeat(30)}\n| ${'--- | '.repeat(30)}\n| ${'cell | '.repeat(30)}\n\n# Heading\n\n- [x] done\n- [ ] open\n\n> quoted`;
  await bench.serves([
    uses('write', { path: join(bench.cwd, 'a.txt'), content: `${'y'.repeat(300)}\n` }, { thinking: 'Well.', ...used(10, 0, 5) }),
    uses('bash', { command: 'false' }), says(long, used(20, 10, 5)),
  ]);
  const session = await bench.session('Write it.');
  for (const theme of THEMES) {
    for (const width of [1280, 375]) {
      const view = `${theme}, ${width}`;
      const page = await bench.open({ colorScheme: theme, viewport: { width, height: 720 } });
      await page.getByText('Say what to do. The session').waitFor();
      await accessible(page, `${view}: new`);
      await fits(page, `${view}: new`);
      await page.goto(`${new URL(bench.link).origin}${new URL(bench.link).pathname}#/${session}`);
      await article(page, 'quoted').waitFor();
      for (const fold of await page.locator('#messages details > summary').all()) await fold.click();
      await accessible(page, `${view}: session`);
      await fits(page, `${view}: session`);
      if (width === 375) {
        await page.getByRole('button', { name: 'Tree' }).click();
        await rows(page).first().waitFor();
        await accessible(page, `${view}: tree`);
        await fits(page, `${view}: tree`);
        await page.getByRole('button', { name: 'Sessions' }).click();
        await page.locator('#list a').first().waitFor();
        await accessible(page, `${view}: sessions`);
        await fits(page, `${view}: sessions`);
      } else {
        await page.locator('#usage summary').click();
        await accessible(page, `${view}: usage`);
        await page.keyboard.press('?');
        await accessible(page, `${view}: keys`);
        await page.keyboard.press('Escape');
        const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const before = await back();
        await page.getByLabel('Colours').selectOption(theme === 'dark' ? 'light' : 'dark');
        assert.notEqual(await back(), before);
        await page.reload();
        assert.notEqual(await back(), before);
      }
      assert.deepEqual(page.faults, [], view);
      await page.context().close();
    }
  }
  const locked = await bench.page();
  await locked.goto(bench.link.split('#')[0]);
  await locked.getByLabel('Paste the link').waitFor();
  await accessible(locked, 'locked');
  // What comes is told in one place, in a few words.
  const regions = await locked.locator('[aria-live], [role=status], [role=log]').count();
  assert.equal(regions, 1);
});

const HOSTILE = [
  '<script>window.bad = 1</script><img src=x onerror="window.bad = 2"><svg onload="window.bad = 3">',
  '[press](javascript:window.bad=4) [me](data:text/html,<script>window.bad=5</script>) ![x](http://evil.example/a.png)',
  '<http://evil.example/"onmouseover="window.bad=6> [a](https://ok.example/"x) [b](  jAvAsCrIpT:window.bad=7 )',
  'before \u202eevil\u202c after \u001b[31mred\u0007 \u200bhidden \u{e0041}tag \u0000null',
  '</script></style></textarea></title><base href=//evil.example><form action=//evil.example><input name=a>',
  `${'*'.repeat(3000)} ${'_a'.repeat(3000)} ${'['.repeat(3000)} ${'`'.repeat(3001)} ${'> '.repeat(500)}x`,
  `${'- '.repeat(300)}x`,
].join('\n\n');

async function harmless(page, what) {
  assert.equal(await page.evaluate(() => window.bad), undefined, what);
  const found = await page.evaluate(() => ({
    scripts: document.querySelectorAll('main script, main iframe, main object, main base, main link, main style, main form:not(.composer)').length,
    handlers: [...document.querySelectorAll('*')].filter(it => it.getAttributeNames().some(name => name.startsWith('on'))).length,
    links: [...document.querySelectorAll('main a')].map(it => it.protocol).filter(it => !/^https?:$/.test(it)),
    pictures: [...document.querySelectorAll('img')].filter(it => !it.src.startsWith('data:image/')).length,
    text: document.body.innerText,
  }));
  assert.deepEqual({ ...found, text: '' }, { scripts: 0, handlers: 0, links: [], pictures: 0, text: '' }, what);
  assert.doesNotMatch(found.text, /[\u202a-\u202e\u200b\u0000\u001b\u0007]/, what);
  assert.match(found.text, /<U\+202E>evil/, what);
}

on('hostile texts do nothing', async bench => {
  const large = 3_000_000;
  bench.write('hostile.txt', HOSTILE);
  await bench.serves([
    uses('bash', { command: 'cat hostile.txt', description: HOSTILE }, { thinking: HOSTILE, text: HOSTILE }),
    uses('bash', { command: `head -c ${large} /dev/zero | tr '\\0' x` }),
    uses(HOSTILE.slice(0, 60), { '<img src=x onerror=alert(1)>': HOSTILE, nested: Array.from({ length: 5000 }, () => 'z'.repeat(100)) }),
    says(HOSTILE),
  ]);
  const session = await bench.session(HOSTILE);
  const page = await bench.open();
  await page.locator('#list a').first().click();
  await article(page, 'evil').last().waitFor();
  for (const fold of await page.locator('#messages details > summary').all()) await fold.click();
  await page.getByRole('button', { name: 'Whole output' }).nth(1).click();
  await page.getByRole('group', { name: 'Whole output' }).waitFor();
  await harmless(page, 'the page');
  // Nothing that a list tells is large.
  const { messages } = (await bench.call(`/${session}/messages`)).json;
  for (const message of messages) assert.ok(JSON.stringify(message).length < 300_000);
  assert.ok(messages.some(message => message.cut));
  const cut = page.getByRole('button', { name: 'Long texts are cut here. Show all' });
  const before = await cut.count();
  await cut.last().click();
  await page.waitForFunction(count => [...document.querySelectorAll('button')].filter(it => it.textContent.startsWith('Long texts')).length < count, before);
  await harmless(page, 'all of it');
  assert.deepEqual(page.asked.map(it => it.url()).filter(url => url.includes('evil')), []);
  assert.deepEqual(page.faults, []);

  // The same in a file.
  const file = join(bench.folder, 'session.html');
  writeFileSync(file, await bench.ah('-r', session, 'export', '--html'));
  const document = await bench.page();
  await document.goto(String(pathToFileURL(file)));
  await article(document, 'evil').last().waitFor();
  for (const fold of await document.locator('#messages details > summary').all()) await fold.click();
  await harmless(document, 'the file');
  assert.deepEqual(document.asked.map(it => it.url()).filter(url => !url.startsWith('file:') && url !== 'data:,'), []);
  assert.deepEqual(document.faults, []);
});

on('an exported session is the same view in one file', async bench => {
  await bench.serves([
    uses('write', { path: join(bench.cwd, 'a.txt'), content: 'one\n' }, used(100, 0, 10)), says('Written.', used(20, 100, 10)),
  ]);
  const session = await bench.session('Write it.');
  const file = join(bench.folder, 'session.html');
  writeFileSync(file, await bench.ah('-r', session, 'export', '--html'));
  for (const theme of THEMES) {
    for (const width of [1280, 375]) {
      const page = await bench.page({ colorScheme: theme, viewport: { width, height: 720 } });
      await page.goto(String(pathToFileURL(file)));
      await article(page, 'Written.').waitFor();
      await page.locator('.call summary').click();
      await page.locator('.diff tr.added').waitFor();
      assert.equal(await page.getByRole('textbox').count(), 0);
      await accessible(page, `${theme}, ${width}: file`);
      await fits(page, `${theme}, ${width}: file`);
      if (width > 375) {
        assert.equal(await rows(page).count(), 3);
        await page.getByRole('img', { name: /Tokens of each request, 2 in all/ }).waitFor();
      }
      assert.deepEqual(page.faults, []);
    }
  }
});

on('an exported session has every branch', async bench => {
  await bench.serves([says('One.'), says('Two.'), says('Other.')]);
  const session = await bench.session('First.');
  await bench.prompt(session, 'Second.');
  const { nodes } = (await bench.call(`/${session}/tree`)).json;
  await bench.prompt(session, 'Otherwise.', nodes.find(it => it.seq === 1).id);
  const file = join(bench.folder, 'session.html');
  writeFileSync(file, await bench.ah('-r', session, 'export', '--html'));
  const page = await bench.page();
  await page.goto(String(pathToFileURL(file)));
  await article(page, 'Other.').waitFor();
  assert.match(await page.title(), /^First\. · ah/);
  assert.equal(await article(page, 'Two.').count(), 0);
  assert.equal(await rows(page).count(), 6);
  await rows(page).filter({ hasText: 'Two.' }).click();
  await article(page, 'Two.').waitFor();
  await page.getByRole('button', { name: 'Show the current branch' }).click();
  await article(page, 'Other.').waitFor();
  assert.deepEqual(page.faults, []);
});

on('another site and another name get nothing', async bench => {
  await bench.serves([says('unused')]);
  const page = await bench.page();
  const place = bench.link.split('#')[0];
  // A page of another origin, which even knows the token.
  await page.route('http://evil.example/', route => route.fulfill({ contentType: 'text/html', body: '<p>evil' }));
  await page.goto('http://evil.example/');
  const told = await page.evaluate(async ([url, token]) => {
    const ask = options => fetch(url, options).then(it => it.text(), error => String(error));
    return [await ask({ headers: { Authorization: `Bearer ${token}` } }), await ask({ mode: 'no-cors' })];
  }, [`${bench.url}/v1/sessions`, bench.token]);
  assert.match(told[0], /Failed to fetch/);
  assert.doesNotMatch(told[1], /sessions/);
  const framed = await page.evaluate(url => new Promise(resolve => {
    const frame = document.createElement('iframe');
    frame.onload = () => { try { resolve(frame.contentDocument?.body.innerText ?? 'closed'); } catch { resolve('closed'); } };
    frame.src = url;
    document.body.append(frame);
  }), place);
  assert.equal(framed, 'closed');
  const status = async headers => (await fetch(place, { headers })).status;
  assert.equal(await status({}), 200);
  assert.equal(await status({ Origin: 'http://evil.example' }), 403);
});

on('a lost connection is taken up where it was, and a server that has ended is said', async bench => {
  await bench.serves([says('One.'), says('Two.')]);
  const session = await bench.session('First.');
  const page = await bench.page();
  let lost = 0;
  await page.route('**/events', async route => {
    lost += 1;
    if (lost > 3) return route.continue();
    return route.fulfill({ contentType: 'text/event-stream', body: 'event: state\ndata: {"running":false,"questions":[],"ended":null}\n\n' });
  });
  await page.goto(bench.link);
  await page.locator('#list a').first().click();
  await article(page, 'One.').waitFor();
  await send(page, 'Second.');
  await article(page, 'Two.').waitFor();
  assert.equal(await page.locator('article').count(), 4);
  const asked = page.asked.filter(request => request.url().endsWith('/events'));
  assert.ok(asked.length > 3);
  for (const request of asked.slice(0, 4)) assert.match((await request.allHeaders())['last-event-id'], /^1-/);
  bench.stop();
  await page.locator('body.lost').waitFor();
  await page.getByText('The server does not answer.').first().waitFor();
  assert.equal(await page.locator('article').count(), 4);
  assert.ok(session);
});
