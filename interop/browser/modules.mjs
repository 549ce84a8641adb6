// The modules of the page without a browser: each can be read, and finds what it imports.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const FOLDER = new URL('../../serve/src/page/', import.meta.url);
const modules = readdirSync(FOLDER).filter(name => name.endsWith('.js'));

/// What a module exports, without running it.
const exported = source => new Set([...source.matchAll(/^export (?:async )?(?:const|function\*?|class) (\w+)/gm)].map(found => found[1]));

test('there are modules', () => assert.ok(modules.includes('main.js')));

for (const name of modules) {
  test(name, () => {
    const source = readFileSync(new URL(name, FOLDER), 'utf8');
    const folder = mkdtempSync(join(tmpdir(), 'ah-page-'));
    try {
      // Its ending says that it is a module.
      const copy = join(folder, 'module.mjs');
      writeFileSync(copy, source);
      const { status, stderr } = spawnSync(process.execPath, ['--check', copy], { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
    } finally {
      rmSync(folder, { recursive: true });
    }
    for (const [line, names, from] of source.matchAll(/^import \{ ([^}]*) \} from '\.\/([^']*)';$/gm)) {
      const known = exported(readFileSync(new URL(from, FOLDER), 'utf8'));
      for (const wanted of names.split(', ')) assert.ok(known.has(wanted), line);
    }
  });
}
