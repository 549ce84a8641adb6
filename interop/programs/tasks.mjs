// A list of tasks that the model writes, as objects of a schema, through the older SDK that the program brings.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, LARGE, named, on, run } from './program.mjs';

const TASKS = join(LARGE, 'task-master-ai', 'dist', 'task-master.js');
const MODEL = { provider: 'claude-code', modelId: 'sonnet', maxTokens: 64_000, temperature: 0.2 };
const PUMPKIN = {
  id: 1, title: 'Plant a pumpkin', description: 'In the garden.', details: 'In May.', testStrategy: 'It is seen.',
  priority: 'high', dependencies: [], status: 'pending',
};

const onTasks = (name, act) => on(`task-master: ${name}`, act);
const file = (bench, ...path) => join(bench.cwd, '.taskmaster', ...path);
/// The tasks of the project.
const list = bench => JSON.parse(readFileSync(file(bench, 'tasks', 'tasks.json'), 'utf8')).master.tasks;
/// A run whose answer is `object`.
const gives = object => [uses(['o1', 'StructuredOutput', object]), says('Given.')];

/// Makes a project of `tasks` whose model is asked through the program.
function project(bench, tasks) {
  mkdirSync(file(bench, 'tasks'), { recursive: true });
  writeFileSync(file(bench, 'config.json'), JSON.stringify({
    models: { main: MODEL, research: MODEL, fallback: MODEL },
    global: { projectName: 'Garden', anonymousTelemetry: false, enableCodebaseAnalysis: false },
    claudeCode: { pathToClaudeCodeExecutable: CLI },
  }));
  const metadata = { created: '2026-01-01T00:00:00.000Z', updated: '2026-01-01T00:00:00.000Z', description: '' };
  writeFileSync(file(bench, 'tasks', 'tasks.json'), JSON.stringify({ master: { tasks, metadata } }));
}

async function taskMaster(bench, ...args) {
  const env = { ...named(bench), CLAUDE_CODE_API_KEY: 'sk-test' };
  const { code, out, err } = await run(bench, process.execPath, [TASKS, ...args], { env });
  assert.equal(code, 0, `${args}: ${out}${err}`);
}

onTasks('the tasks of a document', async bench => {
  project(bench, []);
  writeFileSync(join(bench.cwd, 'garden.md'), 'A garden with a pumpkin.');
  await bench.plays(...gives({ tasks: [PUMPKIN] }));
  await taskMaster(bench, 'parse-prd', 'garden.md', '--num-tasks=1', '--force');
  const [{ title, status }, ...more] = list(bench);
  assert.deepEqual([title, status, more], [PUMPKIN.title, 'pending', []]);
  assert.match(JSON.stringify((await bench.requests())[0].messages), /A garden with a pumpkin\./);
});

onTasks('a task of a few words', async bench => {
  project(bench, [PUMPKIN]);
  const { description, details, testStrategy } = PUMPKIN;
  await bench.plays(...gives({ title: 'Water the pumpkin', description, details, testStrategy, dependencies: [1] }));
  await taskMaster(bench, 'add-task', '--prompt=water it');
  assert.deepEqual(list(bench).map(it => [it.title, it.dependencies]), [[PUMPKIN.title, []], ['Water the pumpkin', [1]]]);
});

onTasks('a task is taken apart', async bench => {
  project(bench, [PUMPKIN]);
  const subtask = (id, title) => ({
    id, title, description: 'With a spade, well.', dependencies: [], details: 'It takes half an hour.', status: 'pending', testStrategy: 'It is seen.',
  });
  await bench.plays(...gives({ subtasks: [subtask(1, 'Dig a hole'), subtask(2, 'Put in the seed')] }));
  await taskMaster(bench, 'expand', '--id=1', '--num=2');
  assert.deepEqual(list(bench)[0].subtasks.map(it => it.title), ['Dig a hole', 'Put in the seed']);
});
