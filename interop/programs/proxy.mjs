// A server with OpenAI's interface, which passes what a person writes as the last argument of `claude --print`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { installed, says } from '../sdk/typescript/bench.mjs';
import { environment, freePort, named, on } from './program.mjs';

const SERVER = join(dirname(installed.resolve('claude-max-api-proxy')), 'server', 'standalone.js');
/// Words that people write, and that are subcommands of one program or the other.
const WORDS = ['undo', 'login', 'serve', 'export', 'worker', 'update', 'help', 'hello'];

on('claude-max-api-proxy: a message of one word is answered', async bench => {
  await bench.plays(...WORDS.map(word => says(`About ${word}.`)));
  writeFileSync(join(bench.cwd, 'kept'), 'as it was');
  const port = await freePort();
  const env = environment(bench, named(bench));
  const server = spawn(process.execPath, [SERVER, String(port)], { cwd: bench.cwd, env, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    for await (const line of createInterface(server.stdout)) if (line.startsWith('Server ready')) break;
    for (const word of WORDS) {
      const body = JSON.stringify({ model: 'claude-sonnet-4', messages: [{ role: 'user', content: word }] });
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', headers, body });
      const { choices } = await response.json();
      assert.equal(choices?.[0].message.content.trim(), `About ${word}.`);
    }
    assert.deepEqual(bench.made, ['kept']);
  } finally {
    server.kill('SIGKILL');
  }
});
