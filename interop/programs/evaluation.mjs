// An evaluation of prompts, whose provider is the SDK: what was said, its tokens and its cost.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, LARGE, NODE, on, run } from './program.mjs';

const EVALUATION = join(LARGE, 'promptfoo', 'dist', 'src', 'entrypoint.js');
/// No report, no look for a newer version, nothing asked beyond this machine.
const ALONE = { PROMPTFOO_DISABLE_TELEMETRY: '1', PROMPTFOO_DISABLE_UPDATE: '1', PROMPTFOO_DISABLE_REMOTE_GENERATION: '1' };
const usage = { input_tokens: 1000, output_tokens: 100 };

const onEvaluation = (name, act) => on(`promptfoo: ${name}`, act);

/// Evaluates a question about each of `places`; gives the exit code and what the file of results has of each.
async function evaluated(bench, places, settings) {
  // The SDK is looked for beside the file.
  symlinkSync(LARGE, join(bench.folder, 'node_modules'));
  const [file, results] = ['evaluation.json', 'results.json'].map(it => join(bench.folder, it));
  const config = { path_to_claude_code_executable: CLI, working_dir: bench.cwd, model: 'claude-sonnet-4-5', ...settings };
  writeFileSync(file, JSON.stringify({
    prompts: ['What grows in the {{place}}?'],
    providers: [{ id: 'anthropic:claude-agent-sdk', config }],
    tests: places.map(place => ({ vars: { place }, assert: [{ type: 'icontains', value: 'pumpkin' }] })),
  }));
  const args = ['eval', '--no-cache', '--no-progress-bar', '--max-concurrency', '1', '--config', file, '--output', results];
  const { code, out, err } = await run(bench, NODE, [EVALUATION, ...args], { env: ALONE });
  assert.match(out, /Eval complete/, out + err);
  return { code, results: JSON.parse(readFileSync(results, 'utf8')).results.results };
}

onEvaluation('answers, tokens and cost', async bench => {
  const garden = join(bench.cwd, 'garden.md');
  writeFileSync(garden, 'a pumpkin');
  await bench.plays({ ...uses(['t1', 'Read', { file_path: garden }]), usage }, says('A pumpkin.', { usage }), says('A turnip.', { usage }));
  const { code, results } = await evaluated(bench, ['garden', 'field']);
  assert.equal(code, 100, 'a test has failed');
  assert.deepEqual(results.map(it => [it.response.output, it.success]), [['A pumpkin.', true], ['A turnip.', false]]);
  assert.deepEqual(results.map(it => it.response.tokenUsage.total), [2200, 1100]);
  assert.deepEqual(results.map(it => it.cost.toFixed(4)), ['0.0090', '0.0045']);
});

onEvaluation('an object of a schema', async bench => {
  await bench.plays(uses(['o1', 'StructuredOutput', { plant: 'pumpkin' }]), says('Given.'));
  const schema = { type: 'object', properties: { plant: { type: 'string' } }, required: ['plant'] };
  const { code, results } = await evaluated(bench, ['garden'], { output_format: { type: 'json_schema', schema } });
  assert.equal(code, 0);
  assert.deepEqual(results.map(it => it.response.output), [{ plant: 'pumpkin' }]);
});

onEvaluation('a run that reaches its limit is an error of its test', async bench => {
  const read = uses(['t1', 'Read', { file_path: join(bench.cwd, 'garden.md') }]);
  await bench.plays({ ...read, usage }, says('A pumpkin.', { usage }));
  const { code, results } = await evaluated(bench, ['garden', 'field'], { max_turns: 1 });
  assert.equal(code, 100);
  assert.match(results[0].error, /maximum number of turns \(1\)/);
  assert.equal(results[1].response.output, 'A pumpkin.');
});
