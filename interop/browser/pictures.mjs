// Takes the pictures in the documentation: one session, on a wide window by day and by night, and on a narrow one.
import { join } from 'node:path';
import { on, says, send, uses } from './bench.mjs';

const used = (fresh, cached, output) => ({ usage: { input_tokens: fresh, cache_read_input_tokens: cached, output_tokens: output } });
const SLUG = `def slug(title):
    return title.lower().replace(" ", "-")
`;
const TEST = `from slug import slug

assert slug("Hello World") == "hello-world"
assert slug("Ça va?") == "ca-va", slug("Ça va?")
print("2 passed")
`;
const FIXED = `import re
import unicodedata


def slug(title):
    plain = unicodedata.normalize("NFKD", title)
    plain = plain.encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
`;

on('pictures', async bench => {
  const file = join(bench.cwd, 'slug.py');
  bench.write('slug.py', SLUG);
  bench.write('test.py', TEST);
  await bench.serves([
    uses('bash', { command: 'python3 test.py' }, { thinking: 'The test says what is missing.', text: 'I run the test first.', ...used(4200, 0, 90) }),
    uses('read', { path: file }, used(260, 4200, 60)),
    uses('write', { path: file, content: FIXED }, { text: 'Letters with accents are kept as they are. I take them apart and keep what is ASCII.', ...used(420, 4460, 380) }),
    uses('bash', { command: 'python3 test.py' }, used(640, 4880, 70)),
    says('Both cases pass now. `slug`\n\n- takes letters and their accents apart, and drops the accents,\n- makes one dash of whatever is no letter or digit,\n- leaves none at the ends.', used(180, 5520, 140)),
    says('With a table, only the letters in it are replaced: `ç` → `c`. Other scripts stay, so titles in Greek keep their words.', used(160, 5700, 130)),
    says('Done: the docstring has two examples, and `python3 -m doctest slug.py` runs them.', used(220, 5840, 110)),
    uses('bash', { command: 'git diff --stat' }, { text: 'One look at all that has changed.', ...used(300, 6060, 80) }), says('Two files.', used(100, 6400, 30)),
  ]);
  const session = await bench.session('`slug("Ça va?")` should be `ca-va`. Make test.py pass.');
  const { json: { current } } = await bench.call(`/${session}/tree`);
  await bench.call(`/${session}/prompt`, { prompt: 'And with a table instead?' });
  await bench.idle(session);
  await bench.call(`/${session}/prompt`, { prompt: 'Add examples to the docstring.', at: current });
  await bench.idle(session);
  const place = `${bench.link.split('#')[0]}#/${session}`;
  for (const [name, options] of [
    ['page-light', { colorScheme: 'light', viewport: { width: 1280, height: 820 } }],
    ['page-dark', { colorScheme: 'dark', viewport: { width: 1280, height: 820 } }],
    ['page-narrow', { colorScheme: 'light', viewport: { width: 375, height: 760 } }],
    ['page-narrow-dark', { colorScheme: 'dark', viewport: { width: 375, height: 760 } }],
  ]) {
    const page = await bench.open({ locale: 'en-GB', timezoneId: 'UTC', ...options });
    await page.goto(place);
    await page.locator('article', { hasText: 'doctest' }).waitFor();
    const written = page.locator('.call', { hasText: 'write' });
    await written.locator('summary').click();
    await written.locator('.diff').waitFor();
    await page.locator('article', { hasText: 'Letters with accents' }).evaluate(it => it.scrollIntoView({ block: 'start' }));
    await page.mouse.move(0, 0);
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: join(process.env.DOCS, `${name}.png`) });
  }
});
