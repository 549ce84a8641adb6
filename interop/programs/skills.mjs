// A collection of skills, subagents and hooks, as its own installer puts it into a person's folder.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { installed, says, uses } from '../sdk/typescript/bench.mjs';
import { NODE, environment, on, run } from './program.mjs';

const INSTALLER = join(dirname(installed.resolve('get-shit-done-cc/package.json')), 'bin', 'install.js');

on('get-shit-done: its skills, subagents and hooks are those of a session', async bench => {
  await bench.plays(
    uses(['t1', 'Write', { file_path: join(bench.cwd, 'made'), content: 'new' }]),
    says('That is the help.'),
  );
  const { code, err } = await run(bench, NODE, [INSTALLER, '--claude', '--global']);
  assert.equal(code, 0, err);
  const seen = await bench.asks('/gsd-help --brief', {
    env: environment(bench),
    settingSources: ['user'],
    permissionMode: 'acceptEdits',
    includeHookEvents: true,
  });
  assert.equal(seen.result.result, 'That is the help.');
  const { slash_commands: commands, agents } = seen.init;
  assert.deepEqual(['gsd-help', 'gsd-plan-phase', 'gsd-debug'].filter(it => !commands.includes(it)), []);
  assert.deepEqual(['gsd-planner', 'gsd-executor', 'gsd-verifier'].filter(it => !agents.includes(it)), []);
  const hooks = seen.of('system', 'hook_response');
  assert.deepEqual(hooks.filter(it => it.exit_code).map(it => it.stderr), []);
  const events = new Set(hooks.map(it => it.hook_event));
  assert.deepEqual(['SessionStart', 'PreToolUse', 'PostToolUse'].filter(it => !events.has(it)), []);
  assert.match(JSON.stringify((await bench.requests())[0].messages), /Display the complete GSD command reference/);
});
