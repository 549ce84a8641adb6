// `ah serve` against its description: requests made up from it, by Schemathesis. None may fail in the server, and every response is
// as described.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { on, says } from '../browser/bench.mjs';

const DESCRIPTION = fileURLToPath(new URL('../../docs/openapi.json', import.meta.url));
const CHECKS = ['not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_schema_conformance'];

on('no request fails in the server', async bench => {
  await bench.serves([{ ...says('One.'), repeat: 100_000 }]);
  await bench.session('Greet me.');
  const fuzzer = spawn(process.env.SCHEMATHESIS, ['run', DESCRIPTION, '--url', bench.url,
    '--header', `Authorization: Bearer ${bench.token}`, '--checks', CHECKS.join(','), '--seed', '1',
    '--max-examples', process.env.AH_TEST_EXAMPLES ?? '10',
    // A stream has no end, and more requests than a second has are refused.
    '--exclude-path-regex', 'events$', '--rate-limit', '90/s', '--request-timeout', '10', '--generation-database', 'none', '--no-color'],
  { cwd: bench.folder, stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  for await (const piece of fuzzer.stdout.setEncoding('utf8')) told += piece;
  assert.match(told, /(\d+) generated, \1 passed/, told);
  console.log(told.match(/\d+ generated, \d+ passed/)[0]);
  const { status } = await bench.call('');
  assert.equal(status, 200);
});
