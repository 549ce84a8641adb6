// An agent of Microsoft's Agent Framework over the program.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { says, uses } from '../sdk/typescript/bench.mjs';
import { on, run } from './program.mjs';

const PYTHON = join(process.env.PROGRAMS_PYTHON, 'bin', 'python');
const SCRIPT = new URL('framework.py', import.meta.url).pathname;
/// What the framework calls the server of its tools.
const tool = name => `mcp___agent_framework_tools__${name}`;

on('agent-framework: tools, an approval, a session, pieces and an object', async bench => {
  await bench.plays(
    uses(['t1', tool('weather'), { city: 'Ulm' }], ['t2', tool('forget'), { city: 'Ulm' }]),
    says('It is sunny.'),
    says('Ulm.'),
    says('Piece by piece.'),
    uses(['t3', 'StructuredOutput', { city: 'Ulm' }]),
    says('There it is.'),
  );
  const { code, out, err } = await run(bench, PYTHON, [SCRIPT]);
  assert.equal(code, 0, err);
  const { asked, object, ...texts } = JSON.parse(out.trim().split('\n').at(-1));
  assert.deepEqual(texts, { tools: 'It is sunny.', session: 'Ulm.', pieces: 'Piece by piece.' });
  assert.deepEqual([asked, object], [['forget'], { city: 'Ulm' }]);
  assert.match(await bench.sent(1), /sunny in Ulm[\s\S]*denied/);
  assert.ok(JSON.stringify((await bench.requests())[2]).includes('It is sunny.'), 'the second run has the first');
});
