// Clients that common generators make from the description of `ah serve`: each is generated, compiled, and runs a session.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { on, says, uses } from '../browser/bench.mjs';

const here = name => fileURLToPath(new URL(name, import.meta.url));
const DESCRIPTION = here('../../docs/openapi.json');
const { GENERATORS, PYTHON_GENERATORS } = process.env;
const runs = (program, args, cwd) => {
  const path = `${PYTHON_GENERATORS}:${process.env.PATH}`;
  return execFileSync(program, args, { cwd, encoding: 'utf8', env: { ...process.env, PATH: path }, stdio: ['ignore', 'pipe', 'inherit'] });
};
const turns = [uses('bash', { command: 'echo here' }), says('One.'), says('Two.')];

on('openapi-python-client', async bench => {
  await bench.serves(turns);
  runs(join(PYTHON_GENERATORS, 'openapi-python-client'), ['generate', '--path', DESCRIPTION, '--fail-on-warning'], bench.folder);
  const made = join(bench.folder, 'ah-serve-client');
  copyFileSync(here('generated.py'), join(made, 'session.py'));
  runs(join(PYTHON_GENERATORS, 'python'), ['session.py', bench.url, bench.token], made);
});

/// Compiles a program against what was generated beside it, and runs it.
function compiled(bench, name) {
  copyFileSync(here(`${name}.ts`), join(bench.folder, `${name}.ts`));
  symlinkSync(join(GENERATORS, 'node_modules'), join(bench.folder, 'node_modules'));
  writeFileSync(join(bench.folder, 'package.json'), '{"type":"module"}');
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2022,dom,dom.iterable', '--skipLibCheck'];
  writeFileSync(join(bench.folder, 'node.d.ts'), 'declare const process: { argv: string[] };\n');
  runs(join(GENERATORS, 'node_modules/.bin/tsc'), [...options, `${name}.ts`, 'node.d.ts'], bench.folder);
  assert.equal(runs('node', [`${name}.js`, bench.url, bench.token], bench.folder), 'Look. bash One. true\n');
}

on('openapi-typescript and openapi-fetch', async bench => {
  await bench.serves(turns);
  runs(join(GENERATORS, 'node_modules/.bin/openapi-typescript'), [DESCRIPTION, '-o', 'types.ts'], bench.folder);
  compiled(bench, 'fetched');
});

on('swagger-typescript-api', async bench => {
  await bench.serves(turns);
  runs(join(GENERATORS, 'node_modules/.bin/swagger-typescript-api'), ['generate', '-p', DESCRIPTION, '-o', '.', '-n', 'api.ts', '--silent'], bench.folder);
  compiled(bench, 'generated');
});
