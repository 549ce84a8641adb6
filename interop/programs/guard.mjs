// A guard of other people's sessions: its hook asks the program itself for a verdict on each edit, with the user's key.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { installed, says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, named, on, run } from './program.mjs';

const GUARD = join(dirname(installed.resolve('tdd-guard/package.json')), 'dist', 'cli', 'tdd-guard.js');

on('tdd-guard: an edit is refused and allowed by a hook that asks the model', async bench => {
  const file = join(bench.cwd, 'sum.js');
  const write = (id, content) => uses([id, 'Write', { file_path: file, content }]);
  await bench.plays(
    write('t1', 'all at once'),
    says('{"decision": "block", "reason": "Write a failing test first."}'),
    write('t2', 'little by little'),
    says('{"decision": null, "reason": "A test wants it."}'),
    says('Done.'),
  );
  const command = `${process.execPath} ${GUARD}`;
  const hooks = { PreToolUse: [{ matcher: 'Write|Edit|MultiEdit|TodoWrite', hooks: [{ type: 'command', command }] }] };
  mkdirSync(join(bench.home, '.claude'));
  writeFileSync(join(bench.home, '.claude', 'settings.json'), JSON.stringify({ hooks }));
  const env = { ...named(bench), USE_SYSTEM_CLAUDE: 'true' };
  const { code, out, err } = await run(bench, CLI, ['-p', '--permission-mode', 'acceptEdits', 'Write it.'], { env });
  assert.equal(code, 0, err);
  assert.match(out, /Done\./);
  assert.ok(existsSync(file), 'the second edit was allowed');
  assert.equal(readFileSync(file, 'utf8'), 'little by little');
  assert.match(await bench.sent(2), /Write a failing test first\./);
});
