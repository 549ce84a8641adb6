// What programs on the TypeScript SDK rely on, tried through the SDK itself. `node --test` runs them.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { Prompts, answered, bash, on, said, sdk, says, textOf, uses, z } from './bench.mjs';

const allow = async (name, input) => ({ behavior: 'allow', updatedInput: input });
const hook = (answer, matcher) => [{ matcher, hooks: [async input => answer(input) ?? {}] }];
const specific = (hookEventName, output) => ({ hookSpecificOutput: { hookEventName, ...output } });

// Port 12 a and h, row R2: the SDK starts the program, talks to it, and reads it to its end.
on('hello', async bench => {
  await bench.plays(says('Hello.', { usage: { input_tokens: 12, output_tokens: 3 } }));
  const seen = await bench.asks('Say hello.');
  assert.equal(seen.text, 'Hello.');
  assert.equal(await bench.sent(0), 'Say hello.');
  const { subtype, is_error, result, num_turns, session_id, usage } = seen.result;
  assert.deepEqual([subtype, is_error, result, num_turns], ['success', false, 'Hello.', 1]);
  assert.equal(session_id, seen.init.session_id);
  assert.equal(usage.output_tokens, 3);
  assert.equal(seen.init.cwd, bench.cwd);
});

on('the system prompt and what is appended to it', async bench => {
  await bench.plays(says('Aye.'), says('Aye.'));
  await bench.asks('Speak.', { systemPrompt: 'You are a pirate.' });
  await bench.asks('Speak.', {
    systemPrompt: { type: 'preset', preset: 'claude_code', append: 'Be brief.' },
  });
  const [whole, appended] = (await bench.requests()).map(it => textOf(it.system));
  assert.match(whole, /You are a pirate\./);
  assert.match(appended, /Be brief\./);
  assert.ok(appended.length > whole.length, 'the preset is there as well');
});

on('a tool runs once it is allowed', async bench => {
  const asked = [];
  await bench.plays(uses(bash('one', 'touch made')), says('Made.'));
  const seen = await bench.asks('Go.', {
    canUseTool: async (name, input) => {
      asked.push([name, input.command]);
      return allow(name, input);
    },
  });
  assert.deepEqual(asked, [['Bash', 'touch made']]);
  assert.deepEqual(bench.made, ['made']);
  assert.equal(seen.result.result, 'Made.');
});

on('a tool that is denied does not run', async bench => {
  await bench.plays(uses(bash('one', 'touch made')), says('A pity.'));
  const seen = await bench.asks('Go.', {
    canUseTool: async () => ({ behavior: 'deny', message: 'not on a Sunday' }),
  });
  assert.deepEqual(bench.made, []);
  assert.ok(seen.toolResult('one').is_error);
  assert.match(await bench.sent(1), /not on a Sunday/);
  assert.deepEqual(seen.result.permission_denials.map(it => it.tool_use_id), ['one']);
});

on('what runs is the updated input', async bench => {
  await bench.plays(uses(bash('one', 'touch made')), says('Made.'));
  const command = 'touch other';
  await bench.asks('Go.', { canUseTool: () => allow('Bash', { command }) });
  assert.deepEqual(bench.made, ['other']);
});

on('a denial can end the run', async bench => {
  await bench.plays(uses(bash('one', 'touch made')), says('never'));
  const seen = await bench.asks('Go.', {
    canUseTool: async () => ({ behavior: 'deny', message: 'stop', interrupt: true }),
  });
  assert.equal(seen.result.subtype, 'error_during_execution');
  assert.equal((await bench.requests()).length, 1);
  assert.deepEqual(bench.made, []);
});

on('a hook denies, and the next one is told of nothing', async bench => {
  const told = [];
  const tell = answer => input => {
    told.push([input.hook_event_name, input.tool_use_id]);
    return answer;
  };
  const deny = specific('PreToolUse', {
    permissionDecision: 'deny', permissionDecisionReason: 'too early',
  });
  await bench.plays(uses(bash('one', 'touch made')), says('Later.'));
  await bench.asks('Go.', {
    allowedTools: ['Bash'],
    hooks: { PreToolUse: hook(tell(deny), 'Bash'), PostToolUse: hook(tell()), Stop: hook(tell()) },
  });
  assert.deepEqual(told.map(([event]) => event), ['PreToolUse', 'Stop']);
  assert.equal(told[0][1], 'one');
  assert.match(await bench.sent(1), /too early/);
  assert.deepEqual(bench.made, []);
});

on('hooks add context and refuse a stop', async bench => {
  await bench.plays(says('Done.'), says('They pass.'));
  const seen = await bench.asks('Go.', {
    hooks: {
      UserPromptSubmit: hook(() => specific('UserPromptSubmit', { additionalContext: 'It is raining.' })),
      Stop: hook(it => it.stop_hook_active ? {} : { decision: 'block', reason: 'And the tests?' }),
    },
  });
  assert.match(JSON.stringify((await bench.requests())[0].messages), /It is raining\./);
  assert.match(await bench.sent(1), /And the tests\?/);
  assert.equal(seen.result.result, 'They pass.');
});

on('a tool in the process', async bench => {
  const add = sdk.tool('add', 'Adds two numbers.', { a: z.number(), b: z.number() }, async ({ a, b }) => ({
    content: [{ type: 'text', text: `${a + b}` }],
  }));
  const fail = sdk.tool('fail', 'Fails.', {}, async () => { throw new Error('no luck today'); });
  const sums = sdk.createSdkMcpServer({ name: 'sums', tools: [add, fail] });
  await bench.plays(
    uses(['one', 'mcp__sums__add', { a: 2, b: 40 }], ['two', 'mcp__sums__fail', {}]),
    says('Done.'),
  );
  const seen = await bench.asks('Go.', { mcpServers: { sums }, allowedTools: ['mcp__sums'] });
  assert.equal(textOf(seen.toolResult('one').content), '42');
  assert.ok(seen.toolResult('two').is_error);
  assert.match(textOf(seen.toolResult('two').content), /no luck today/);
  const offered = (await bench.requests())[0].tools.map(it => it.name);
  assert.ok(offered.includes('mcp__sums__add'));
});

on('servers are set and disabled while a session goes on', async bench => {
  const server = name => sdk.createSdkMcpServer({
    name,
    tools: [sdk.tool('who', 'Says who it is.', {}, async () => ({
      content: [{ type: 'text', text: `I am ${name}.` }],
    }))],
  });
  await bench.plays(says('One.'), uses(['who', 'mcp__late__who', {}]), says('Two.'), says('Three.'));
  const prompts = new Prompts();
  const query = bench.query(prompts, { mcpServers: { early: server('early') }, allowedTools: ['mcp__late'] });
  prompts.say('Hello.');
  await answered(query);
  const changed = await query.setMcpServers({ late: server('late'), dead: { command: '/no/such/program' } });
  assert.deepEqual([changed.added.sort(), changed.removed], [['dead', 'late'], ['early']]);
  assert.match(changed.errors.dead, /not found/);
  prompts.say('Who is there?');
  const seen = await answered(query);
  assert.equal(textOf(seen.toolResult('who').content), 'I am late.');
  await query.toggleMcpServer('late', false);
  const states = (await query.mcpServerStatus()).map(it => [it.name, it.status]);
  assert.deepEqual(states.sort(), [['dead', 'failed'], ['late', 'disabled']]);
  prompts.say('And now?');
  await answered(query);
  prompts.end();
  assert.equal((await query.next()).done, true);
  const names = request => request.tools.map(it => it.name).filter(name => name.startsWith('mcp__'));
  const offered = (await bench.requests()).map(names);
  const [early, late] = [['mcp__early__who'], ['mcp__late__who']];
  assert.deepEqual(offered, [early, late, late, []]);
});

on('several prompts, and what is changed between them', async bench => {
  const write = ['w', 'Write', { file_path: `${bench.cwd}/a.txt`, content: 'a' }];
  await bench.plays(says('One.'), uses(write), says('Written.'));
  const prompts = new Prompts();
  const query = bench.query(prompts);
  prompts.say('Hello.');
  assert.equal((await answered(query)).result.result, 'One.');
  await query.setModel('claude-haiku-4-5');
  await query.setPermissionMode('acceptEdits');
  prompts.say('Write it.');
  const seen = await answered(query);
  prompts.end();
  assert.equal((await query.next()).done, true);
  assert.equal(seen.result.result, 'Written.');
  assert.equal(seen.init.permissionMode, 'acceptEdits');
  assert.deepEqual(bench.made, ['a.txt']);
  const [first, second] = (await bench.requests()).map(it => it.model);
  assert.doesNotMatch(first, /haiku/);
  assert.match(second, /haiku/);
});

on('partial messages add up', async bench => {
  const words = 'one two three four five six seven eight';
  await bench.plays(says(words, { pieces: 8 }));
  const seen = await bench.asks('Count.', { includePartialMessages: true });
  const events = seen.of('stream_event').map(it => it.event);
  const deltas = events.filter(it => it.type === 'content_block_delta').map(it => it.delta.text);
  assert.ok(deltas.length > 1);
  assert.equal(deltas.join(''), words);
  assert.equal(events[0].type, 'message_start');
  assert.equal(events.at(-1).type, 'message_stop');
});

on('an interrupt ends the answer and not the session', async bench => {
  await bench.plays(says('Once upon a time', { hang: true }), says('As you wish.'));
  const prompts = new Prompts();
  const query = bench.query(prompts, { includePartialMessages: true });
  prompts.say('Tell me a long story.');
  const cut = await answered(query, async message => {
    if (message.type === 'stream_event' && message.event.delta?.text) await query.interrupt();
  });
  assert.equal(cut.result.subtype, 'error_during_execution');
  prompts.say('A short one, then.');
  assert.equal((await answered(query)).result.result, 'As you wish.');
  prompts.end();
  assert.match(await bench.sent(1), /A short one, then\./);
});

on('a megabyte from a command', async bench => {
  await bench.plays(uses(bash('big', "head -c 1048576 /dev/zero | tr '\\0' x")), says('Long.'));
  const seen = await bench.asks('Print much.', { allowedTools: ['Bash'] });
  assert.equal(seen.result.result, 'Long.');
  const shown = (await bench.sent(1)).length;
  assert.ok(shown > 1000 && shown < 200_000, `${shown}`);
});

on('a megabyte in the prompt', async bench => {
  const long = 'ü'.repeat(600_000);
  await bench.plays(says('Read.'));
  const seen = await bench.asks(long);
  assert.equal(seen.result.result, 'Read.');
  assert.equal(await bench.sent(0), long);
});

on('errors are results, and then exceptions', async bench => {
  await bench.plays(
    { error: { status: 400, type: 'invalid_request_error', message: 'no such thing' } },
    uses(bash('one', 'echo 1')),
  );
  const refused = await bench.asks('Fail.', { env: { CLAUDE_CODE_MAX_RETRIES: '0' } });
  assert.equal(refused.result.is_error, true);
  assert.match(refused.result.result, /no such thing/);
  assert.ok(refused.error);

  const limited = await bench.asks('Go on.', { maxTurns: 1, allowedTools: ['Bash'] });
  assert.equal(limited.result.subtype, 'error_max_turns');
  assert.ok(limited.result.errors.length > 0);
});

on('what the program offers', async bench => {
  await bench.plays(says('Hello.'));
  const prompts = new Prompts();
  const query = bench.query(prompts);
  prompts.say('Hello.');
  await answered(query);
  const [commands, models] = [await query.supportedCommands(), await query.supportedModels()];
  prompts.end();
  assert.ok(Array.isArray(commands));
  assert.ok(models.every(it => it.value && it.displayName));
  assert.ok(models.length > 0);
});

/// The functions of the SDK look in the home of this process.
async function inHome(bench, act) {
  const before = process.env.CLAUDE_CONFIG_DIR;
  process.env.CLAUDE_CONFIG_DIR = `${bench.home}/.claude`;
  try {
    return await act();
  } finally {
    if (before === undefined) delete process.env.CLAUDE_CONFIG_DIR;
    else process.env.CLAUDE_CONFIG_DIR = before;
  }
}

const rowWords = rows => rows.map(({ message: { content } }) =>
  typeof content === 'string' ? content : content.map(it => it.text ?? it.type).join('+'));

// Port 11 a, c and d, row S6: what is listed is what was said, and a copy of the SDK goes on.
on('sessions are listed, read, named, copied and resumed', async bench => {
  await bench.plays(uses(bash('one', 'echo 1')), says('One.'), says('Two.'), says('Three.'));
  const options = { allowedTools: ['Bash'], title: 'Mine' };
  const first = await bench.asks('first', options);
  const id = first.result.session_id;
  await bench.asks('second', { ...options, resume: id });
  await inHome(bench, async () => {
    const dir = bench.cwd;
    const [info, ...others] = await sdk.listSessions({ dir });
    assert.deepEqual([info.sessionId, info.customTitle, others.length], [id, 'Mine', 0]);
    assert.equal((await sdk.getSessionInfo(id, { dir })).sessionId, id);
    const rows = await sdk.getSessionMessages(id, { dir });
    const before = ['first', 'tool_use', 'tool_result', 'One.'];
    assert.deepEqual(rowWords(rows), [...before, 'second', 'Two.']);
    const streamed = first.of('assistant').map(it => it.uuid);
    assert.deepEqual(streamed, [rows[1].uuid, rows[3].uuid]);
    const copy = await sdk.forkSession(id, { dir, upToMessageId: rows[3].uuid });
    const seen = await bench.asks('third', { ...options, resume: copy.sessionId });
    assert.equal(seen.result.session_id, copy.sessionId);
    const sent = (await bench.requests())[3].messages.flatMap(said);
    assert.deepEqual(sent.map(it => it.text ?? it.type), [...before, 'third']);
    await sdk.renameSession(id, 'Ours', { dir });
    await sdk.tagSession(id, 'kept', { dir });
    const { customTitle, tag } = await sdk.getSessionInfo(id, { dir });
    assert.deepEqual([customTitle, tag], ['Ours', 'kept']);
    await sdk.deleteSession(id, { dir });
    assert.deepEqual((await sdk.listSessions({ dir })).map(it => it.sessionId), [copy.sessionId]);
  });
});

on('a session goes on behind a message', async bench => {
  await bench.plays(says('One.'), says('Two.'), says('Three.'));
  const first = await bench.asks('first');
  const { session_id: resume } = first.result;
  await bench.asks('second', { resume });
  await bench.asks('again', { resume, resumeSessionAt: first.of('assistant')[0].uuid });
  const sent = (await bench.requests())[2].messages.flatMap(said);
  assert.deepEqual(sent.map(it => it.text), ['first', 'One.', 'again']);
});

on('servers and plugins that are named with initialize', async bench => {
  const server = `${bench.folder}/server.mjs`;
  const tool = { name: 'who', description: 'Says who.', inputSchema: { type: 'object' } };
  writeFileSync(server, `
    import { createInterface } from 'node:readline';
    const answers = {
      initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } },
      'tools/list': { tools: [${JSON.stringify(tool)}] },
      'tools/call': { content: [{ type: 'text', text: 'It is I.' }] },
    };
    for await (const line of createInterface(process.stdin)) {
      const { id, method } = JSON.parse(line);
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method] ?? {} }));
    }`);
  mkdirSync(`${bench.folder}/shop/commands`, { recursive: true });
  writeFileSync(`${bench.folder}/shop/commands/greet.md`, 'Greet $ARGUMENTS warmly.');
  await bench.plays(uses(['ask', 'mcp__till__who', {}]), says('Hello, Ada.'));
  const seen = await bench.asks('/shop:greet Ada', {
    mcpServers: { till: { command: process.execPath, args: [server] } },
    mcpServersDelivery: 'initialize',
    plugins: [{ type: 'local', path: `${bench.folder}/shop` }],
    pluginDelivery: 'initialize',
    allowedTools: ['mcp__till'],
  });
  assert.equal(textOf(seen.toolResult('ask').content), 'It is I.');
  assert.equal(seen.init.plugins[0].name, 'shop');
  const [{ messages }] = await bench.requests();
  assert.match(textOf(messages[0].content), /Greet Ada warmly\./);
});

on('a warm program answers when it is asked', async bench => {
  await bench.plays(says('Hello.'));
  const { ANTHROPIC_API_KEY, HOME, PATH } = { ...process.env, ANTHROPIC_API_KEY: 'sk-test', HOME: bench.home };
  const warm = await sdk.startup({
    options: {
      cwd: bench.cwd,
      model: 'claude-sonnet-4-5',
      settingSources: [],
      pathToClaudeCodeExecutable: process.env.AGENT_CLI,
      env: { ANTHROPIC_BASE_URL: bench.url, ANTHROPIC_API_KEY, HOME, PATH, IS_SANDBOX: '1' },
    },
  });
  const seen = [];
  for await (const message of warm.query('Say hello.')) seen.push(message);
  assert.equal(seen.at(-1).result, 'Hello.');
});
