// Programs that read the transcripts which the program leaves below the home: what was said, and how many tokens it took.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { bash, says, sdk, uses } from '../sdk/typescript/bench.mjs';
import { CLI, on, run } from './program.mjs';

const PYTHON = join(process.env.PROGRAMS_PYTHON, 'bin');
const subagent = {
  description: 'look', prompt: 'look well', subagent_type: 'general-purpose', run_in_background: false,
};
const CCUSAGE = join(process.env.SDK_TS_DIR, 'node_modules/.bin/ccusage');
const usage = { input_tokens: 100, output_tokens: 50 };

/// A session of two prompts: text and a call in one answer, so that its usage stands in several lines; then a subagent.
async function talks(bench) {
  await bench.plays(
    { ...says('I look.'), ...uses(bash('t1', 'echo looked')), usage },
    says('It is a pumpkin.', { usage }),
    { ...uses(['a1', 'Task', subagent]), usage },
    says('The subagent sees a turnip.', { usage }),
    says('It is a turnip.', { usage }),
  );
  const asked = ['--output-format', 'json', '--dangerously-skip-permissions', '--model', 'sonnet'];
  const first = await run(bench, CLI, ['-p', 'what is it?', ...asked]);
  assert.equal(first.code, 0, first.err + first.out);
  const session = JSON.parse(first.out).session_id;
  const second = await run(bench, CLI, ['-p', 'look again', '--resume', session, ...asked]);
  assert.equal(second.code, 0, second.err + second.out);
  return session;
}

const afterTalk = (name, act) => on(`readers: ${name}`, async bench => act(bench, await talks(bench)));
/// Runs `act` with the bench's home in the place of ours, for readers within this process.
async function within(bench, act) {
  const before = process.env.HOME;
  process.env.HOME = bench.home;
  try {
    await act();
  } finally {
    process.env.HOME = before;
  }
}

afterTalk('ccusage counts each token once', async bench => {
  const { code, out, err } = await run(bench, CCUSAGE, ['session', '--json', '--offline']);
  assert.equal(code, 0, err);
  const { totals } = JSON.parse(out);
  assert.equal(totals.inputTokens, 500);
  assert.equal(totals.outputTokens, 250);
});

afterTalk('claude-code-log shows the session', async bench => {
  const made = await run(bench, join(PYTHON, 'claude-code-log'), [join(bench.home, '.claude/projects'), '--all-projects']);
  assert.equal(made.code, 0, made.err);
  const pages = readdirSync(bench.home, { recursive: true }).filter(it => it.endsWith('.html'));
  const page = pages.map(it => readFileSync(join(bench.home, it), 'utf8')).join('');
  for (const words of ['what is it?', 'It is a pumpkin.', 'echo looked', 'It is a turnip.']) {
    assert.ok(page.includes(words), words);
  }
});

afterTalk('claude-code-transcripts shows the session', async (bench, session) => {
  const folder = join(bench.home, '.claude/projects');
  const file = readdirSync(folder, { recursive: true }).find(it => it.endsWith(`${session}.jsonl`));
  const args = ['json', join(folder, file), '-o', join(bench.cwd, 'out')];
  const made = await run(bench, join(PYTHON, 'claude-code-transcripts'), args);
  assert.equal(made.code, 0, made.err);
  const pages = readdirSync(join(bench.cwd, 'out')).filter(it => it.endsWith('.html'));
  const page = pages.map(it => readFileSync(join(bench.cwd, 'out', it), 'utf8')).join('');
  for (const words of ['what is it?', 'It is a pumpkin.', 'echo looked']) assert.ok(page.includes(words), words);
});

afterTalk('claude-conversation-extractor shows the session', async bench => {
  const args = ['--all', '--output', join(bench.cwd, 'out')];
  const made = await run(bench, join(PYTHON, 'claude-extract'), args);
  assert.equal(made.code, 0, made.err);
  const pages = readdirSync(join(bench.cwd, 'out')).map(it => readFileSync(join(bench.cwd, 'out', it), 'utf8'));
  for (const words of ['what is it?', 'It is a pumpkin.']) assert.ok(pages.join('').includes(words), words);
});

// One check for both, since the SDK looks for the home only once.
afterTalk('the SDK lists the session, its subagent, and what they said', (bench, session) => within(bench, async () => {
  const listed = await sdk.listSessions({ dir: bench.cwd });
  assert.deepEqual(listed.map(it => it.sessionId), [session]);
  assert.equal(listed[0].firstPrompt, 'what is it?');
  const messages = JSON.stringify(await sdk.getSessionMessages(session, { dir: bench.cwd }));
  assert.match(messages, /It is a pumpkin\./);
  assert.match(messages, /It is a turnip\./);
  const subagents = await sdk.listSubagents(session, { dir: bench.cwd });
  assert.equal(subagents.length, 1);
  const said = JSON.stringify(await sdk.getSubagentMessages(session, subagents[0], { dir: bench.cwd }));
  assert.match(said, /look well/);
  assert.match(said, /The subagent sees a turnip\./);
}));
