// A gateway that keeps sessions of the program open behind the API of OpenAI.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, environment, freePort, on } from './program.mjs';

const GATEWAY = join(process.env.PROGRAMS_PYTHON, 'bin', 'claudegate');
const LOOKUP = {
  type: 'function',
  function: { name: 'lookup', description: 'Looks up a code.', parameters: { type: 'object', properties: { of: { type: 'string' } } } },
};

const user = content => ({ role: 'user', content });

/// Starts the gateway; gives a function that asks it, and reads an answer as an object or as its pieces.
async function started(bench) {
  const port = await freePort();
  const env = environment(bench, { CLAUDEGATE_CLI_PATH: CLI, CLAUDEGATE_WORKSPACE: bench.cwd, PYTHONUNBUFFERED: '1' });
  const server = spawn(GATEWAY, ['serve', '--port', String(port)], { cwd: bench.cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  for await (const line of createInterface(server.stderr)) if (line.includes('Uvicorn running')) break;
  server.stderr.resume();
  const ask = (messages, more) => fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'claude-sonnet-4-5', messages, ...more }),
  });
  return { ask, end: () => server.kill('SIGKILL') };
}

on('claudegate: a text, a conversation, pieces, and a tool of the client', async bench => {
  await bench.plays(
    says('Pong.'),
    says('Ulm.'),
    says('One two three.'),
    uses(['t1', 'mcp__client__lookup', { of: 'db' }]),
    says('It is 512.'),
  );
  const gateway = await started(bench);
  const answered = async (messages, more) => (await (await gateway.ask(messages, more)).json()).choices[0];
  try {
    const { message } = await answered([user('Ping')]);
    assert.equal(message.content, 'Pong.');
    const where = await answered([user('Ping'), message, user('Where?')]);
    assert.equal(where.message.content, 'Ulm.');
    const lines = (await (await gateway.ask([user('Count.')], { stream: true })).text()).split('\n');
    const chunks = lines.filter(it => it.startsWith('data: {')).map(it => JSON.parse(it.slice(6)));
    assert.equal(chunks.map(it => it.choices[0]?.delta.content ?? '').join(''), 'One two three.');
    const called = await answered([user('Which code?')], { tools: [LOOKUP] });
    assert.equal(called.finish_reason, 'tool_calls');
    const [call] = called.message.tool_calls;
    assert.equal(call.function.name, 'lookup');
    const result = { role: 'tool', tool_call_id: call.id, content: '512' };
    const code = await answered([user('Which code?'), called.message, result], { tools: [LOOKUP] });
    assert.equal(code.message.content, 'It is 512.');
    assert.match(await bench.sent(4), /512/);
  } finally {
    gateway.end();
  }
}, { aside: null });
