// A client of the Agent Client Protocol for the command line: it starts `ah acp`, and the original through Zed's adapter.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bash, installed, says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, NODE, on, run } from './program.mjs';

const CLIENT = join(dirname(installed.resolve('acpx/package.json')), 'dist', 'cli.js');
const ADAPTER = installed.resolve('@agentclientprotocol/claude-agent-acp/dist/index.js');
const AGENT = execFileSync(CLI, ['--version'], { encoding: 'utf8' }).includes('(ah ') ? `${CLI} acp` : `${process.execPath} ${ADAPTER}`;

/// A server of the Model Context Protocol with one tool, which lies outside of the project.
const SERVER = `
import { createInterface } from 'node:readline';
const tools = [{ name: 'shout', description: 'Shouts.', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }];
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'echo', version: '1' } }),
  'tools/list': () => ({ tools }),
  'tools/call': ({ arguments: { text } }) => ({ content: [{ type: 'text', text: text.toUpperCase() }] }),
};
for await (const line of createInterface(process.stdin)) {
  const { id, method, params } = JSON.parse(line);
  const answer = answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: 'no such method' } };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
}
`;

/// A check of the client, without the folder for sockets that it leaves behind for each home.
const onClient = (name, act) => on(`acpx: ${name}`, async bench => {
  try {
    await act(bench);
  } finally {
    const home = createHash('sha256').update(bench.home).digest('hex').slice(0, 10);
    rmSync(`/tmp/acpx-${home}`, { recursive: true, force: true });
  }
});

/// Runs the client to its end.
const ended = (bench, ...args) => run(bench, NODE, [CLIENT, '--agent', AGENT, '--format', 'text', ...args], {
  env: { CLAUDE_CODE_EXECUTABLE: CLI },
});

/// The same, where it has to succeed; gives what it printed.
async function acpx(bench, ...args) {
  const { code, out, err } = await ended(bench, ...args);
  assert.equal(code, 0, `${args}: ${out}${err}`);
  return out;
}

onClient('an edit is allowed, a command is refused, and a server of the client is used', async bench => {
  const server = join(bench.folder, 'echo.mjs');
  const config = join(bench.folder, 'servers.json');
  writeFileSync(server, SERVER);
  writeFileSync(config, JSON.stringify({ mcpServers: [{ name: 'echo', command: process.execPath, args: [server] }] }));
  await bench.plays(
    uses(['t1', 'Write', { file_path: join(bench.cwd, 'allowed'), content: 'x' }]),
    says('It is written.'),
    uses(bash('t2', 'touch ../refused')),
    says('It is not written.'),
    uses(['t3', 'mcp__echo__shout', { text: 'hello' }]),
    says('It was loud.'),
  );
  assert.match(await acpx(bench, '--approve-all', 'exec', 'Write it.'), /It is written\./);
  // The client ends with an error of its own where it has refused everything.
  await ended(bench, '--deny-all', 'exec', 'Write it.');
  assert.deepEqual([bench.made, existsSync(join(bench.folder, 'refused'))], [['allowed'], false]);
  assert.match(await acpx(bench, '--approve-all', '--mcp-config', config, 'exec', '--config-option', 'mode=default', 'Shout.'), /It was loud\./);
  assert.ok(JSON.stringify(await bench.requests()).includes('HELLO'), 'the model reads what the server said');
});

onClient('a session of several prompts', async bench => {
  await bench.plays(says('Seven it is.'), says('It was seven.'));
  await acpx(bench, 'sessions', 'new');
  try {
    assert.match(await acpx(bench, 'Remember seven.'), /Seven it is\./);
    assert.match(await acpx(bench, 'Which number?'), /It was seven\./);
    const asked = (await bench.requests()).find(it => JSON.stringify(it).includes('Which number?'));
    assert.ok(JSON.stringify(asked).includes('Remember seven.'), 'the second prompt has the first');
  } finally {
    await acpx(bench, 'sessions', 'close');
  }
});
