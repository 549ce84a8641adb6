// LangChain's chat model over the program: its tools are deferred calls, and its sessions are resumed by other processes.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { on, says, uses } from '../sdk/typescript/bench.mjs';
import { run } from './program.mjs';

const PYTHON = join(process.env.PROGRAMS_PYTHON, 'bin', 'python');
const SCRIPT = new URL('langchain.py', import.meta.url).pathname;

on('langchain: a tool of the application, and a session of another process', async bench => {
  await bench.plays(
    uses(['t1', 'mcp__lc__weather', { city: 'Ulm' }]),
    says('It is sunny in Ulm.'),
    // The client asks once more, with the result in its prompt.
    says(' Enjoy it.'),
    says('I remember.'),
    says('Seven.'),
  );
  const { code, out, err } = await run(bench, PYTHON, [SCRIPT]);
  assert.equal(code, 0, err);
  const { tool, over } = JSON.parse(out.trim().split('\n').at(-1));
  assert.deepEqual(tool, { calls: [['weather', { city: 'Ulm' }]], answer: 'It is sunny in Ulm. Enjoy it.' });
  assert.deepEqual(over, { answer: 'I remember.', other: 'Seven.' });
  assert.ok(JSON.stringify((await bench.requests()).at(1)).includes('sunny in Ulm'), 'the model was told');
});
