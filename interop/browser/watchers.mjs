// Many who watch one session, one of them reading nothing: how long its run takes with them, and without.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { on, says, uses } from './bench.mjs';

const WATCHERS = 200;
const TURNS = 30;

/// Runs a session, with so many watchers; gives the milliseconds of its run, and how many got all of it.
async function run(bench, watchers) {
  const { json: { session } } = await bench.call('', { prompt: 'Go.' });
  const path = `/v1/sessions/${session}/events`;
  const stop = new AbortController();
  let whole = 0;
  const watch = async () => {
    const response = await fetch(`${bench.url}${path}`, { headers: { Authorization: `Bearer ${bench.token}` }, signal: stop.signal });
    const all = [];
    // The machine that runs them is the one that is measured: they only keep what they get.
    for await (const piece of response.body) {
      all.push(piece);
      const end = Buffer.from(piece).subarray(-400).toString();
      if (all.length > 1 && end.includes('"running":false')) break;
    }
    const ids = [...Buffer.concat(all).toString().matchAll(/^id: (.*)$/gm)].map(it => it[1]);
    assert.equal(ids.length, 2 * TURNS + 4);
    assert.deepEqual(ids.map(id => Number(id.split('-')[0])), ids.map((_, at) => at));
    whole += 1;
  };
  const all = Array.from({ length: Math.max(watchers - 1, 0) }, watch);
  if (watchers) {
    const { hostname, port, host } = new URL(bench.url);
    const stalled = connect({ host: hostname, port: Number(port) });
    stalled.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${bench.token}\r\n\r\n`);
    stalled.pause();
    stop.signal.addEventListener('abort', () => stalled.destroy());
  }
  await new Promise(resolve => { setTimeout(resolve, watchers ? 1500 : 100); });
  const begun = Date.now();
  bench.write(`go-${session}`, '');
  bench.write('go', '');
  await bench.idle(session);
  const took = Date.now() - begun;
  await Promise.all(all);
  stop.abort();
  return { took, whole };
}

for (const watchers of [0, WATCHERS, 0, WATCHERS]) {
  on(`a run with ${watchers} watchers`, async bench => {
    const wait = uses('bash', { command: 'until [ -e go ]; do sleep 0.02; done' });
    const turns = Array.from({ length: TURNS }, (_, at) => uses('bash', { command: `sleep 0.2; seq ${at} 2000` }));
    await bench.serves([wait, ...turns, says('The end.')]);
    const { took, whole } = await run(bench, watchers);
    assert.equal(whole, Math.max(watchers - 1, 0));
    console.log(`${watchers} watchers: the run took ${took} ms`);
  });
}
