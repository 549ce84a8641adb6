// A provider of the AI SDK that starts the program for each answer, as applications use it.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bash, installed, says, uses, z } from '../sdk/typescript/bench.mjs';
import { CLI, environment, on } from './program.mjs';

const load = name => import(pathToFileURL(installed.resolve(name)));
const { generateText, generateObject, streamText } = await load('ai');
const { createClaudeCode } = await load('ai-sdk-provider-claude-code');

const onProvider = (name, act) => on(`ai-sdk-provider: ${name}`, act);

/// A model on `bench`, with settings of the provider.
const model = (bench, settings) => createClaudeCode({
  defaultSettings: {
    pathToClaudeCodeExecutable: CLI,
    cwd: bench.cwd,
    env: environment(bench),
    settingSources: [],
    ...settings,
  },
})('sonnet');

onProvider('a text', async bench => {
  await bench.plays(says('A text.'));
  const { text, usage } = await generateText({ model: model(bench), prompt: 'say it' });
  assert.equal(text, 'A text.');
  assert.ok(usage.inputTokens >= 0);
});

onProvider('a text in pieces', async bench => {
  await bench.plays(says('A text in pieces.', { pieces: 4 }));
  const { textStream } = streamText({ model: model(bench), prompt: 'say it' });
  let text = '';
  for await (const piece of textStream) text += piece;
  assert.equal(text, 'A text in pieces.');
});

onProvider('an object', async bench => {
  await bench.plays(uses(['o1', 'StructuredOutput', { name: 'Ada', age: 36 }]), says('Given.'));
  const schema = z.object({ name: z.string(), age: z.number() });
  const { object } = await generateObject({ model: model(bench), schema, prompt: 'whom' });
  assert.deepEqual(object, { name: 'Ada', age: 36 });
});

onProvider('a command that the application allows', async bench => {
  const asked = [];
  await bench.plays(uses(bash('t1', 'touch made')), says('Done.'));
  const canUseTool = async (name, input) => {
    asked.push(name);
    return { behavior: 'allow', updatedInput: input };
  };
  const { text } = await generateText({
    model: model(bench, { canUseTool, streamingInput: 'always' }), prompt: 'make it',
  });
  assert.equal(text, 'Done.');
  assert.deepEqual(asked, ['Bash']);
  assert.ok(existsSync(join(bench.cwd, 'made')));
});

onProvider('an answer that is aborted', async bench => {
  await bench.plays(says('It begins', { hang: true }));
  const abort = new AbortController();
  const { fullStream } = streamText({ model: model(bench), prompt: 'begin', abortSignal: abort.signal });
  const kinds = [];
  for await (const { type } of fullStream) {
    kinds.push(type);
    if (type === 'text-delta') abort.abort();
  }
  assert.equal(kinds.at(-1), 'abort');
});

onProvider('a session that goes on', async bench => {
  await bench.plays(says('The first answer'), says('The second answer'));
  const first = await generateText({ model: model(bench), prompt: 'first' });
  const { sessionId } = first.providerMetadata['claude-code'];
  const second = await generateText({ model: model(bench, { resume: sessionId }), prompt: 'second' });
  assert.equal(second.text, 'The second answer');
  const request = (await bench.requests()).filter(it => it.tools?.length).at(-1);
  assert.match(JSON.stringify(request.messages), /The first answer/);
});
