// A session by the client of `swagger-typescript-api`: arguments are the address and the token.
import { Api } from './api.js';

const [baseUrl, token] = process.argv.slice(2);
const { v1 } = new Api({ baseUrl, baseApiParams: { headers: { Authorization: `Bearer ${token}` } } });
const { session } = (await v1.create({ prompt: 'Look.' })).data;
while ((await v1.show(session)).data.state.running);
const { nodes } = (await v1.tree(session)).data;
const { messages } = (await v1.messages(session, { at: nodes.at(-1)!.id })).data;
const words = messages.flatMap(message => message.content)
  .map(block => (block.type === 'text' ? block.text : block.type === 'tool_use' ? block.name : ''));
console.log(words.filter(Boolean).join(' '), messages.at(-1)!.response!.usage.output_tokens >= 0);
