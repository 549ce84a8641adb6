// A model that plays what a test says, a home and a folder of its own for each test, and the SDK on the binary.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

// Installed beside the other programs that we test with, not beside this file.
export const installed = createRequire(join(process.env.SDK_TS_DIR, 'package.json'));
export const sdk = await import(pathToFileURL(installed.resolve('@anthropic-ai/claude-agent-sdk')));
export const { z } = await import(pathToFileURL(installed.resolve('zod')));

export const says = (text, more = {}) => ({ text, ...more });
/// A turn of tool calls, each an id, a name and an input.
export const uses = (...calls) => ({ tools: calls.map(([id, name, input]) => ({ id, name, input })) });
export const bash = (id, command) => [id, 'Bash', { command, description: 'a test' }];
export const prompt = text => ({
  type: 'user', message: { role: 'user', content: text }, parent_tool_use_id: null, session_id: '',
});

/// All words of a text, a block, or a list of them.
export function textOf(content) {
  if (Array.isArray(content)) return content.map(textOf).join('\n');
  if (content && typeof content === 'object') return textOf(content.text ?? content.content ?? '');
  return content;
}

/// The blocks of a message without the context that a session begins with.
export function said({ content }) {
  const blocks = Array.isArray(content) ? content : [{ type: 'text', text: content }];
  return blocks.filter(it => !it.text?.startsWith('[CONTEXT]'));
}

/// The messages of a run, and the exception that ended it.
export class Seen {
  messages = [];
  error = null;

  of(type, subtype) {
    return this.messages.filter(it => it.type === type && (!subtype || it.subtype === subtype));
  }
  get init() { return this.of('system', 'init')[0]; }
  get result() {
    const result = this.of('result').at(-1);
    if (!result) throw new Error(`no result, but ${this.error}`, { cause: this.error });
    return result;
  }
  get text() {
    const blocks = this.of('assistant').flatMap(it => it.message.content);
    return blocks.filter(it => it.type === 'text').map(it => it.text).join('');
  }
  toolResult(id) {
    const blocks = this.of('user').map(it => it.message.content).filter(Array.isArray).flat();
    return blocks.find(it => it.tool_use_id === id);
  }
}

/// A stream of prompts that a test writes to.
export class Prompts {
  #waiting = [];
  #wake = () => {};
  #ended = false;

  say(text) { this.#waiting.push(prompt(text)); this.#wake(); }
  end() { this.#ended = true; this.#wake(); }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#waiting.length) yield this.#waiting.shift();
      if (this.#ended) return;
      await new Promise(resolve => { this.#wake = resolve; });
    }
  }
}

/// The messages of one prompt of a query that goes on.
export async function answered(query, watch = () => {}) {
  const seen = new Seen();
  for (;;) {
    const { value, done } = await query.next();
    if (done) return seen;
    seen.messages.push(value);
    await watch(value);
    if (value.type === 'result') return seen;
  }
}

export class Bench {
  /// `aside`: the answer to requests that offer no tools, which programs make beside the conversation for titles and
  /// the like; without it they get a turn of the scenario.
  constructor({ aside } = {}) {
    this.aside = aside;
    this.folder = mkdtempSync(join(tmpdir(), 'ah-sdk-'));
    this.cwd = join(this.folder, 'work');
    this.home = join(this.folder, 'home');
    mkdirSync(this.cwd);
    mkdirSync(this.home);
  }

  async plays(...turns) {
    const scenario = join(this.folder, 'scenario.json');
    writeFileSync(scenario, JSON.stringify({ turns }));
    const stdio = ['ignore', 'pipe', 'inherit'];
    const aside = this.aside ? ['--aside', this.aside] : [];
    this.server = spawn(process.env.AH_TEST_LOOPBACK, ['--scenario', scenario, ...aside], { stdio });
    for await (const line of createInterface(this.server.stdout)) {
      this.url = line;
      return;
    }
  }
  /// The bodies of the requests so far.
  async requests() { return (await fetch(`${this.url}/requests`)).json(); }
  /// The words of the last message of a request, from 0.
  async sent(number) {
    return textOf(said((await this.requests()).at(number).messages.at(-1)));
  }
  /// The files that a run has made, but for those of the session.
  get made() { return readdirSync(this.cwd).filter(name => name !== '.ah'); }

  /// The variables of a program: none of ours that speak of models, and those of this bench.
  environment(more) {
    const kept = Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC|CLAUDE)/.test(name));
    return {
      ...Object.fromEntries(kept),
      ANTHROPIC_BASE_URL: this.url,
      ANTHROPIC_API_KEY: 'sk-test',
      HOME: this.home,
      IS_SANDBOX: '1',
      ...more,
    };
  }

  query(prompt, { env, ...options } = {}) {
    return sdk.query({
      prompt,
      options: {
        cwd: this.cwd,
        model: 'claude-sonnet-4-5',
        settingSources: [],
        pathToClaudeCodeExecutable: process.env.AGENT_CLI,
        env: this.environment(env),
        ...options,
      },
    });
  }
  /// One prompt, to the end.
  async asks(prompt, options) {
    const seen = new Seen();
    try {
      for await (const message of this.query(prompt, options)) seen.messages.push(message);
    } catch (error) {
      seen.error = error;
    }
    return seen;
  }

  end() {
    this.server?.kill('SIGKILL');
    // A program that was ended may still be writing.
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 8 });
  }
}

/// A test with a bench of its own.
export function on(name, act, options) {
  test(name, { timeout: 300_000 }, async () => {
    const bench = new Bench(options);
    try {
      await act(bench);
    } finally {
      bench.end();
    }
  });
}
