// A loop over a list of tasks, each of which is a run of `claude -p --output-format stream-json`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { says, uses } from '../sdk/typescript/bench.mjs';
import { LARGE, named, on, run } from './program.mjs';

const LOOP = join(LARGE, 'ralphy-cli', 'bin.js');

const onLoop = (name, act) => on(`ralphy: ${name}`, act);
const list = (...tasks) => `# Tasks\n${tasks.map(it => `- ${it}\n`).join('')}`;
const left = bench => readFileSync(join(bench.cwd, 'PRD.md'), 'utf8');
const plant = (bench, id, name) => uses([id, 'Write', { file_path: join(bench.cwd, name), content: name }]);

/// Starts the loop in a repository of the bench, on what `tasks` has.
function ralphy(bench, tasks, ...args) {
  execFileSync('git', ['init', '--quiet', bench.cwd]);
  writeFileSync(join(bench.cwd, 'PRD.md'), tasks);
  const quick = ['--fast', '--no-commit', '--retry-delay', '0'];
  return run(bench, process.execPath, [LOOP, ...quick, ...args], { env: { ...named(bench), CLAUDE_CODE_MAX_RETRIES: '0' } });
}

onLoop('a list of tasks, a run for each', async bench => {
  await bench.plays(plant(bench, 't1', 'pumpkin'), says('It grows.'), plant(bench, 't2', 'turnip'), says('It grows, too.'));
  const { code, out, err } = await ralphy(bench, list('[ ] plant a pumpkin', '[x] plant a bean', '[ ] plant a turnip'));
  assert.equal(code, 0, out + err);
  assert.deepEqual(['pumpkin', 'turnip'].filter(it => !bench.made.includes(it)), []);
  assert.equal(left(bench), list('[x] plant a pumpkin', '[x] plant a bean', '[x] plant a turnip'));
  assert.match(out, /Completed: 2\s+Failed:\s+0/);
  const [first, , second] = (await bench.requests()).filter(it => it.tools?.length).map(it => JSON.stringify(it.messages));
  assert.ok(first.includes('plant a pumpkin') && second.includes('plant a turnip'), 'each has a prompt of its own');
  assert.ok(!second.includes('It grows.'), 'the second run knows nothing of the first');
});

// The words of a failure decide whether the list goes on.
for (const [name, error, end] of [
  ['a server that is overloaded ends the list for now', { status: 529, type: 'overloaded_error', message: 'Overloaded' }, 'Temporary failure, stopping early'],
  ['a wrong key ends the list', { status: 401, type: 'authentication_error', message: 'invalid x-api-key' }, 'Fatal error: Invalid API key'],
]) {
  onLoop(name, async bench => {
    await bench.plays({ error }, plant(bench, 't1', 'pumpkin'), says('It grows.'));
    const tasks = list('[ ] plant a pumpkin', '[ ] plant a turnip');
    const { code, out, err } = await ralphy(bench, tasks);
    assert.equal(code, 1, out + err);
    assert.ok((out + err).includes(end), out + err);
    assert.equal(left(bench), tasks);
    assert.ok(!bench.made.includes('pumpkin'), 'no other run has begun');
  });
}

onLoop('a single task, its answer and its tokens', async bench => {
  const usage = { input_tokens: 100, output_tokens: 50 };
  await bench.plays({ ...plant(bench, 't1', 'pumpkin'), usage }, says('It grows.', { usage }));
  const { code, out, err } = await ralphy(bench, '', '--model', 'claude-sonnet-4-5', 'plant a pumpkin');
  assert.equal(code, 0, out + err);
  assert.match(out, /Result:\s+It grows\./);
  assert.match(err, /200 in \/ 100 out/);
  const [asked] = (await bench.requests()).filter(it => it.tools?.length);
  assert.match(asked.model, /^claude-sonnet-4-5/);
});
