// A model that plays what a test says, `ah serve` in a folder of its own, and a Chromium in front of it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';

/// What is installed outside the repository; tests without a browser need none of it.
const installed = () => createRequire(join(process.env.BROWSER_DIR, 'package.json'));

export const says = (text, more = {}) => ({ text, ...more });
/// A turn of one tool call.
export const uses = (name, input, more = {}) => ({ tool: { name, input }, ...more });

/// Options of a server whose runs ask nothing.
const FREE = ['--no-sandbox', '--dangerously-skip-permissions'];
const KEY = { ANTHROPIC_API_KEY: 'sk-test', IS_SANDBOX: '1' };

let browser;
after(() => browser?.close());

async function launched() {
  browser ??= await installed()('playwright-core').chromium.launch({
    executablePath: join(process.env.BROWSER_DIR, 'chromium'), headless: true,
    env: { ...process.env, LD_LIBRARY_PATH: join(process.env.BROWSER_DIR, 'lib') },
    // The sandbox of Chromium does not work for root, and the pages are ours.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  return browser;
}

export class Bench {
  #children = [];
  #contexts = [];

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'ah-browser-'));
    this.cwd = join(this.folder, 'work');
    this.home = join(this.folder, 'home');
    mkdirSync(this.cwd);
    mkdirSync(this.home);
  }

  write(name, text) { writeFileSync(join(this.cwd, name), text); }
  read(name) { return readFileSync(join(this.cwd, name), 'utf8'); }

  async #lines(child, isLast) {
    const lines = [];
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (isLast(line)) return lines;
    }
    throw new Error(`it ended: ${lines.join('\n')}`);
  }

  #spawn(program, args, more) {
    const child = spawn(program, args, { cwd: this.cwd, env: this.environment, stdio: ['ignore', 'pipe', 'inherit'], ...more });
    this.#children.push(child);
    return child;
  }

  get environment() {
    const kept = Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC|CLAUDE|AH_)/.test(name));
    return { ...Object.fromEntries(kept), ...KEY, ANTHROPIC_BASE_URL: this.model, HOME: this.home };
  }

  /// Starts a model that answers with these turns, and a server.
  async serves(turns, options = FREE) {
    const scenario = join(this.folder, 'scenario.json');
    writeFileSync(scenario, JSON.stringify({ turns }));
    const loopback = this.#spawn(process.env.AH_TEST_LOOPBACK, ['--scenario', scenario]);
    [this.model] = await this.#lines(loopback, () => true);
    this.server = this.#spawn(process.env.AH_BINARY, [...options, 'serve'], { stdio: ['ignore', 'pipe', 'ignore'] });
    const lines = await this.#lines(this.server, line => line.startsWith('page: '));
    this.url = lines[0];
    this.token = lines[1].slice('token: '.length);
    this.link = lines[2].slice('page: '.length);
  }

  stop() { this.server.kill('SIGKILL'); }

  /// Runs the program to its end; gives its output.
  async ah(...args) {
    const child = this.#spawn(process.env.AH_BINARY, args);
    let out = '';
    for await (const piece of child.stdout.setEncoding('utf8')) out += piece;
    return out;
  }

  /// A page in a context of its own, or in that of another page. What it complains about is kept in `faults`.
  async page(options = {}, context) {
    const own = context ?? await (await launched()).newContext({ viewport: { width: 1280, height: 800 }, ...options });
    if (!context) this.#contexts.push(own);
    // The page as it is on disk, in the place of the one in the binary: for who changes it.
    const { PAGE } = process.env;
    if (PAGE && !context) {
      await own.route(url => url.href.startsWith(this.url) && /\.(js|css)$/.test(url.pathname), async route => {
        const response = await route.fetch({ headers: { ...route.request().headers(), 'if-none-match': '' } }).catch(() => null);
        const name = new URL(route.request().url()).pathname.split('/').at(-1);
        const contentType = name.endsWith('.css') ? 'text/css' : 'text/javascript';
        return route.fulfill({ headers: response?.headers(), contentType, body: readFileSync(join(PAGE, name), 'utf8') });
      });
      await own.route(url => url.href.startsWith(this.url) && url.pathname.endsWith('/') && url.pathname !== '/', async route =>
        route.fulfill({ response: await route.fetch(), body: readFileSync(join(PAGE, 'index.html'), 'utf8') }));
    }
    const page = await own.newPage();
    page.setDefaultTimeout(15_000);
    page.faults = [];
    page.asked = [];
    page.on('pageerror', error => page.faults.push(String(error)));
    page.on('console', message => { if (message.type() === 'error') page.faults.push(message.text()); });
    page.on('dialog', dialog => { page.faults.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on('request', request => page.asked.push(request));
    return page;
  }

  /// A page of the server.
  async open(options, context) {
    const page = await this.page(options, context);
    await page.goto(this.link);
    return page;
  }

  async call(path, body) {
    const asked = { headers: { Authorization: `Bearer ${this.token}` } };
    if (body) Object.assign(asked, { method: 'POST', body: JSON.stringify(body) });
    const response = await fetch(`${this.url}/v1/sessions${path}`, asked);
    return { status: response.status, json: await response.json() };
  }

  /// Begins a session, and waits for the end of its run.
  async session(prompt) {
    const { json: { session } } = await this.call('', { prompt });
    await this.idle(session);
    return session;
  }

  /// Continues a session, after the message with the id `at` or the current one, and waits for the end of the run.
  async prompt(session, prompt, at) {
    const { status } = await this.call(`/${session}/prompt`, { prompt, at });
    assert.equal(status, 201);
    await this.idle(session);
  }

  async idle(session) {
    for (;;) {
      const { json: { state } } = await this.call(`/${session}`);
      if (!state.running) return;
      await new Promise(resolve => { setTimeout(resolve, 20); });
    }
  }

  async end() {
    for (const context of this.#contexts) await context.close();
    for (const child of this.#children) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/// Types a message and sends it.
export async function send(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
}

/// Fails if the checker of accessibility finds something.
export async function accessible(page, what) {
  // By the driver, since the page's policy lets no script in.
  await page.evaluate(readFileSync(installed().resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(node => `${node.html} ${node.failureSummary}`).slice(0, 3).join(' | ')}`);
  assert.deepEqual(found, [], what);
}

/// Fails if the page is wider than the window.
export async function fits(page, what) {
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(wide <= room, `${what}: ${wide} > ${room}`);
}

/// A test with a bench of its own.
export function on(name, act) {
  test(name, { timeout: 120_000 }, async () => {
    const bench = new Bench();
    try {
      await act(bench);
    } finally {
      await bench.end();
    }
  });
}
