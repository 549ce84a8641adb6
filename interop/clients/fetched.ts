// A session by `openapi-fetch` and the types of `openapi-typescript`: arguments are the address and the token.
import createClient from 'openapi-fetch';
import type { components, paths } from './types.js';

type Block = components['schemas']['Block'];

const [address, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${token}` } });
const had = <T>({ data, error }: { data?: T; error?: unknown }): T => {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
const { session } = had(await client.POST('/v1/sessions', { body: { prompt: 'Look.' } }));
const path = { session };
while (had(await client.GET('/v1/sessions/{session}', { params: { path } })).state.running);
const { nodes } = had(await client.GET('/v1/sessions/{session}/tree', { params: { path } }));
const at = nodes.at(-1)!.id;
const { messages } = had(await client.GET('/v1/sessions/{session}/messages', { params: { path, query: { at } } }));
const blocks: Block[] = messages.flatMap(message => message.content);
const words = blocks.map(block => (block.type === 'text' ? block.text : block.type === 'tool_use' ? block.name : ''));
console.log(words.filter(Boolean).join(' '), messages.at(-1)!.response!.usage.output_tokens >= 0);
