// What the cases of all programs share: a bench whose model also answers what a program asks beside the conversation,
// and processes that speak JSON-RPC in lines over their standard streams.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { on as onBench } from '../sdk/typescript/bench.mjs';

/// The program that stands where the original is looked for.
export const CLI = process.env.AGENT_CLI;
/// A Node of version 22, which the newest programs need.
export const NODE = process.env.PROGRAMS_NODE;
/// Where the largest programs are installed.
export const LARGE = join(process.env.PROGRAMS_LARGE, 'node_modules');

/// Answer to requests for a title, which the original makes as JSON.
const ASIDE = '{"title": "A title"}';

/// Variables that keep the original to itself: no update, no report, no thinking that the scenarios do not have.
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: 'false',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_TELEMETRY: '1',
  ENABLE_TOOL_SEARCH: 'false',
  MAX_THINKING_TOKENS: '0',
};

/// A check with a bench of its own; its name is the row of the table. `aside: null` is for programs whose prompts offer no tools.
export const on = (name, act, more) => onBench(name, act, { aside: ASIDE, ...more });

/// The variables of a program on `bench`.
export const environment = (bench, more) => bench.environment({ ...QUIET, ...more });

/// The variables of a program that looks for `claude` in its path.
export function named(bench) {
  const programs = join(bench.folder, 'bin');
  mkdirSync(programs);
  symlinkSync(CLI, join(programs, 'claude'));
  return { PATH: `${programs}:${process.env.PATH}` };
}

/// Runs a program to its end; gives its exit code, its output and its errors.
export async function run(bench, program, args, { env, input } = {}) {
  const child = spawn(program, args, { cwd: bench.cwd, env: environment(bench, env), stdio: 'pipe' });
  const [out, err] = [child.stdout, child.stderr].map(text);
  child.stdin.end(input);
  const code = await new Promise(resolve => { child.on('close', resolve); });
  return { code, out: await out, err: await err };
}

/// A port that nobody uses now.
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function text(stream) {
  let all = '';
  for await (const piece of stream.setEncoding('utf8')) all += piece;
  return all;
}

/// A program that speaks JSON-RPC, one message a line.
export class Peer {
  /// The notifications so far, in order.
  told = [];
  #asked = 0;
  #open = new Map();
  #waiting = [];

  #errors = '';
  #spawn;
  #answer;

  /// `answer(method, params)` answers what the program asks of us.
  constructor(bench, program, args, { env, answer = () => ({}) } = {}) {
    this.#spawn = () => spawn(program, args, { cwd: bench.cwd, env: environment(bench, env), stdio: 'pipe' });
    this.#answer = answer;
  }

  /// Starts the program; the model has to be there.
  start() {
    this.child = this.#spawn();
    this.child.stderr.setEncoding('utf8').on('data', piece => { this.#errors += piece; });
    createInterface(this.child.stdout).on('line', line => this.#read(JSON.parse(line)));
    this.child.on('exit', () => {
      for (const { reject } of this.#open.values()) reject(new Error(`the program ended: ${this.#errors}`));
    });
  }

  ask(method, params) {
    const id = ++this.#asked;
    const answered = new Promise((resolve, reject) => { this.#open.set(id, { resolve, reject }); });
    this.#write({ id, method, params });
    return answered;
  }

  tell(method, params) { this.#write({ method, params }); }

  /// The first notification that `is` likes, once it has come.
  until(is) {
    const there = this.told.find(is);
    return there ? Promise.resolve(there) : new Promise(resolve => { this.#waiting.push({ is, resolve }); });
  }

  end() {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode) return null;
    const ended = new Promise(resolve => { this.child.on('close', resolve); });
    this.child.stdin.end();
    this.child.kill();
    return ended;
  }

  #write(message) { this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`); }

  async #read({ id, method, params, result, error }) {
    if (method && id !== undefined) {
      this.#write({ id, result: await this.#answer(method, params) });
    } else if (method) {
      const told = { method, params };
      this.told.push(told);
      this.#waiting.filter(({ is }) => is(told)).forEach(({ resolve }) => resolve(told));
    } else {
      const { resolve, reject } = this.#open.get(id);
      this.#open.delete(id);
      if (error) reject(new Error(`${error.message} ${JSON.stringify(error.data ?? '')}`));
      else resolve(result);
    }
  }
}
