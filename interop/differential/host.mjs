// Plays the host of a program that speaks the Agent SDK protocol: `node host.mjs CASE…` runs each case with `AGENT_CLI`
// and prints what it said, one JSON object a line: `{"case", "line"}` for a line of it, `{"case", "exit"}` for its end,
// `{"case", "fault"}` where a case cannot be played to its end.
//
// A case is a file: `turns`, the answers of the model, as in docs/scripted-model.md; `files` of the working folder;
// `answers` to the program's requests; a `server` of the host; and `runs`, processes one after the other, each with
// `arguments`, `environment`, the fields of `initialize` and `steps`. `$CWD` stands for the folder, `$SESSION` for the
// session of the run before.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

/// Longest time of a case, in milliseconds.
const HUNG = 120_000;
/// Cases that run at once.
const AT_ONCE = 2;
/// Options of every run, as the SDKs give them.
const ARGUMENTS = [
  '--output-format', 'stream-json', '--verbose', '--input-format', 'stream-json',
  '--model', 'claude-sonnet-4-5', '--permission-prompt-tool', 'stdio',
];
/// Variables of every run: those of the SDKs, and those that keep the original to itself.
const ENVIRONMENT = {
  ANTHROPIC_API_KEY: 'sk-test',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  CLAUDE_CODE_ENTRYPOINT: 'sdk-py',
  CLAUDE_CODE_SDK_READS_SESSION_STATE: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_TELEMETRY: '1',
  ENABLE_TOOL_SEARCH: 'false',
  IS_SANDBOX: '1',
  MAX_THINKING_TOKENS: '0',
};
/// Answer to what a program asks the model beside the conversation, such as titles.
const ASIDE = '{"title": "A title"}';

const isObject = value => value !== null && typeof value === 'object';
/// Whether `value` has all that `pattern` has.
const matches = (pattern, value) => (isObject(pattern)
  ? isObject(value) && Object.entries(pattern).every(([name, part]) => matches(part, value[name]))
  : pattern === value);

/// One process of the program, with the lines it has written.
class Program {
  session = null;
  #lines = [];
  #read = 0;
  #wake = () => {};
  #requests = 0;
  #answered = {};

  constructor({ answers = {}, server }, { arguments: more = [], environment }, { cwd, home, url }, print) {
    this.answers = answers;
    this.server = server;
    const kept = Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC|CLAUDE|MAX_THINKING)/.test(name));
    const env = {
      ...Object.fromEntries(kept), ...ENVIRONMENT, HOME: home, ANTHROPIC_BASE_URL: url, ...environment,
    };
    this.child = spawn(process.env.AGENT_CLI, [...ARGUMENTS, ...more], { cwd, env, stdio: 'pipe' });
    this.child.stdin.on('error', () => {});
    this.child.stderr.on('data', piece => { if (process.env.SHOW_ERRORS) process.stderr.write(piece); });
    const lines = createInterface(this.child.stdout);
    lines.on('line', text => {
      const line = JSON.parse(text);
      this.session ??= line.session_id;
      print({ line });
      this.#lines.push(line);
      if (line.type === 'control_request') this.#answer(line);
      this.#wake();
    });
    this.ended = new Promise(resolve => {
      this.child.on('close', code => {
        this.code = code;
        this.#wake();
        resolve();
      });
    });
  }

  write(line) { this.child.stdin.write(`${JSON.stringify(line)}\n`); }

  async step({ prompt, request, until, ...more }) {
    if (prompt !== undefined) {
      this.write({
        type: 'user', session_id: '', message: { role: 'user', content: prompt }, parent_tool_use_id: null, ...more,
      });
    }
    if (request) await this.request(request);
    if (until) await this.until(until);
  }

  /// Sends a control request and waits for its answer.
  async request(request) {
    const id = `${request.subtype}-${++this.#requests}`;
    this.write({ type: 'control_request', request_id: id, request });
    const before = this.#read;
    await this.until({ type: 'control_response', response: { request_id: id } });
    this.#read = before;
  }

  /// Waits for a line behind the one that was waited for last.
  async until(pattern) {
    for (;;) {
      const found = this.#lines.findIndex((line, at) => at >= this.#read && matches(pattern, line));
      if (found >= 0) {
        this.#read = found + 1;
        return;
      }
      if (this.code !== undefined) throw new Error(`it ended before ${JSON.stringify(pattern)}`);
      await new Promise(resolve => { this.#wake = resolve; });
    }
  }

  #answer({ request_id: id, request }) {
    const response = this.#response(request);
    if (response) this.write({ type: 'control_response', response: { subtype: 'success', request_id: id, response } });
  }

  #response(request) {
    if (request.subtype === 'mcp_message') return { mcp_response: this.#served(request.message) };
    const name = request.callback_id ?? request.subtype;
    const list = this.answers[name] ?? [{}];
    const number = this.#answered[name] ?? 0;
    this.#answered[name] = number + 1;
    const answer = list[Math.min(number, list.length - 1)];
    if (answer?.behavior === 'allow') return { updatedInput: request.input, ...answer };
    return answer;
  }

  #served({ id, method, params }) {
    const { tools = [], result } = this.server ?? {};
    const results = {
      initialize: {
        protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'host', version: '1' },
      },
      'tools/list': { tools },
      'tools/call': result,
    };
    return { jsonrpc: '2.0', ...(id === undefined ? {} : { id }), result: results[method] ?? {} };
  }
}

/// A model that plays `turns`; gives its process and its address.
async function model(folder, turns, pick) {
  const scenario = join(folder, 'scenario.json');
  writeFileSync(scenario, JSON.stringify({ turns }));
  const options = ['--scenario', scenario, '--aside', ASIDE, ...(pick ? [`--${pick}`] : [])];
  const child = spawn(process.env.AH_TEST_LOOPBACK, options, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const url of createInterface(child.stdout)) return { child, url };
  throw new Error('the model did not start');
}

async function play(text, folder, print, started) {
  const place = { cwd: join(folder, 'work'), home: join(folder, 'home') };
  const theCase = JSON.parse(text.replaceAll('$CWD', place.cwd));
  Object.values(place).forEach(path => mkdirSync(path));
  for (const [name, content] of Object.entries(theCase.files ?? {})) {
    const path = join(place.cwd, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  const { child, url } = await model(folder, theCase.turns, theCase.pick);
  started.push(child);
  let session = '';
  for (const run of theCase.runs) {
    const named = JSON.parse(JSON.stringify(run).replaceAll('$SESSION', session));
    const program = new Program(theCase, named, { ...place, url }, print);
    started.push(program.child);
    await program.request({ subtype: 'initialize', hooks: null, ...named.initialize });
    for (const step of named.steps) await program.step(step);
    program.child.stdin.end();
    await program.ended;
    session = program.session;
    print({ exit: program.code });
  }
}

async function playAlone(file) {
  const name = basename(file, '.json');
  const folder = mkdtempSync(join(tmpdir(), 'ah-case-'));
  const started = [];
  const print = more => process.stdout.write(`${JSON.stringify({ case: name, ...more })}\n`);
  let timer;
  const hung = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('it does not end')), HUNG);
  });
  try {
    await Promise.race([play(readFileSync(file, 'utf8'), folder, print, started), hung]);
  } catch (error) {
    print({ fault: error.message });
  } finally {
    clearTimeout(timer);
    started.forEach(child => child.kill('SIGKILL'));
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

const files = process.argv.slice(2);
const next = async () => { for (let file = files.shift(); file; file = files.shift()) await playAlone(file); };
await Promise.all(Array.from({ length: AT_ONCE }, next));
process.exit(0);
