// A front end over the program, by the AG-UI protocol: tools that run in the browser, and approvals that outlive a restart.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { bash, says, uses } from '../sdk/typescript/bench.mjs';
import { on, run } from './program.mjs';

const PYTHON = join(process.env.PROGRAMS_PYTHON, 'bin', 'python');
const SCRIPT = new URL('frontend.py', import.meta.url).pathname;

on('ag-ui: a tool of the front end and two approvals, each after a restart', async bench => {
  await bench.plays(
    uses(['t1', 'mcp__ag_ui__paint', { colour: 'red' }]),
    says('Now it is red.'),
    uses(bash('allowed-call', 'touch allowed')),
    says('It ran.'),
    uses(bash('denied-call', 'touch denied')),
    says('It did not run.'),
  );
  const { code, out, err } = await run(bench, PYTHON, [SCRIPT]);
  assert.equal(code, 0, err);
  const told = JSON.parse(out.trim().split('\n').at(-1));
  for (const [name, text] of [['tool', 'Now it is red.'], ['allowed', 'It ran.'], ['denied', 'It did not run.']]) {
    const [asked, answered] = told[name];
    assert.equal(asked.end, 'RUN_FINISHED', `${name}: ${asked.message}`);
    assert.deepEqual([answered.end, answered.text], ['RUN_FINISHED', text], `${name}: ${answered.message}`);
  }
  assert.deepEqual(told.tool[0].outcome, { type: 'success', pendingToolCallIds: ['t1'] });
  assert.equal(told.allowed[0].outcome.interrupts[0].toolCallId, 'allowed-call');
  assert.match(await bench.sent(1), /It is red\./);
  assert.deepEqual(bench.made, ['allowed']);
});
