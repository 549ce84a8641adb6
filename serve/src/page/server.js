// What the page knows of sessions: from the server, or from the document that holds one.

const AGAIN = 500;
const LATEST = 5_000;

/// A response that is no success; `status` is 0 if there was none.
export class Refusal extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/// The server that this page is from.
export class Server {
  #token;

  constructor(token) { this.#token = token; }

  isReadOnly = false;

  async #fetch(path, { method = 'GET', body, headers, signal } = {}) {
    const asked = { method, signal, cache: 'no-store', headers: { ...headers, Authorization: `Bearer ${this.#token}` } };
    if (body !== undefined) Object.assign(asked, { body: JSON.stringify(body) });
    let response;
    try {
      response = await fetch(`/v1/${path}`, asked);
    } catch (error) {
      throw error.name === 'AbortError' ? error : new Refusal(0, 'The server does not answer.');
    }
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    throw new Refusal(response.status, told.error ?? `The server says ${response.status}.`);
  }

  async list() { return (await (await this.#fetch('sessions')).json()).sessions; }

  /// Models and permission modes to choose from.
  async choices() { return (await this.#fetch('choices')).json(); }

  /// All of a session's tree.
  async tree(session) {
    const tree = { name: null, current: null, spent_usd: 0, nodes: [] };
    for (let from = 0; from !== null;) {
      const part = await (await this.#fetch(`sessions/${session}/tree?from=${from}`)).json();
      tree.nodes.push(...part.nodes);
      Object.assign(tree, { name: part.name, current: part.current, spent_usd: part.spent_usd });
      from = part.next;
    }
    return tree;
  }

  /// The last messages of a branch up to a message, and whether there are none before them.
  async messages(session, at) {
    const { messages, is_whole } = await (await this.#fetch(`sessions/${session}/messages?at=${encodeURIComponent(at)}`)).json();
    return { messages, isWhole: is_whole };
  }

  async message(session, id) { return (await this.#fetch(`sessions/${session}/messages/${encodeURIComponent(id)}`)).json(); }
  async output(session, call) { return (await this.#fetch(`sessions/${session}/calls/${encodeURIComponent(call)}/output`)).text(); }

  async #post(path, body, method = 'POST') { return (await this.#fetch(`sessions${path}`, { method, body })).json(); }

  // `with_` has what was chosen for the run: `model`, `mode`, `pictures`.
  begin(prompt, with_) { return this.#post('', { prompt, ...with_ }); }
  prompt(session, prompt, at, with_) { return this.#post(`/${session}/prompt`, at ? { prompt, at, ...with_ } : { prompt, ...with_ }); }
  fork(session, prompt, at, with_) { return this.#post(`/${session}/fork`, at ? { prompt, at, ...with_ } : { prompt, ...with_ }); }
  rename(session, name) { return this.#post(`/${session}`, { name }, 'PATCH'); }
  remove(session) { return this.#post(`/${session}`, undefined, 'DELETE'); }
  async files(session, at) { return (await this.#fetch(`sessions/${session}/files/${at}`)).json(); }
  restore(session, at, plan) { return this.#post(`/${session}/files/${at}`, { plan }); }
  async queue(session) { return (await (await this.#fetch(`sessions/${session}/queue`)).json()).messages; }
  withdraw(session, message) { return this.#post(`/${session}/queue/${encodeURIComponent(message)}`, undefined, 'DELETE'); }
  steer(session, message) { return this.#post(`/${session}/steer`, { message }); }
  interrupt(session) { return this.#post(`/${session}/interrupt`, {}); }
  answer(session, question, answers) { return this.#post(`/${session}/questions/${question}`, { answers }); }

  /// Follows a session from the message with the event id `last` on, over lost connections, until `signal` says stop.
  async follow(session, last, { on, lost, signal }) {
    let seen = last;
    let wait = AGAIN;
    while (!signal.aborted) {
      try {
        const headers = seen ? { 'Last-Event-ID': seen } : {};
        const response = await this.#fetch(`sessions/${session}/events`, { headers, signal });
        lost(null);
        for await (const event of events(response.body)) {
          wait = AGAIN;
          if (signal.aborted) return;
          if (event.id) seen = event.id;
          if (event.name === 'reset') seen = null;
          on(event.name, JSON.parse(event.data));
        }
      } catch (error) {
        if (signal.aborted) return;
        lost(error);
        if ([401, 403, 404].includes(error.status)) return;
      }
      await new Promise(resolve => { setTimeout(resolve, wait); });
      wait = Math.min(wait * 2, LATEST);
    }
  }
}

/// Reads server-sent events.
async function* events(body) {
  let rest = '';
  let event = { name: 'message', id: null, data: [] };
  for await (const piece of pieces(body)) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines.map(it => it.replace(/\r$/, ''))) {
      if (line) {
        field(event, line);
      } else {
        if (event.data.length) yield { ...event, data: event.data.join('\n') };
        event = { name: 'message', id: null, data: [] };
      }
    }
  }
}

function field(event, line) {
  const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
  if (name === 'event') event.name = value;
  else if (name === 'id') event.id = value;
  else if (name === 'data') event.data.push(value);
}

// Not all browsers iterate over streams.
async function* pieces(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/// A document that holds one session.
export class Archive {
  isReadOnly = true;
  #messages;
  #current;

  constructor({ name, messages, current }) {
    this.name = name;
    this.#messages = new Map(messages.map(message => [message.id, message]));
    this.#current = current ?? messages.at(-1)?.id ?? null;
  }

  async list() { return []; }
  async tree() { return { name: this.name, current: this.#current, nodes: [...this.#messages.values()].map(node) }; }
  async messages(_, at) {
    const branch = [];
    for (let message = this.#messages.get(at); message; message = this.#messages.get(message.parent)) branch.unshift(message);
    return { messages: branch, isWhole: true };
  }
  async follow() {}
}

/// Returns a message as a node of the tree.
export function node(message) {
  const command = message.content.find(block => block.type === 'text' && commandIn(block.text) !== null);
  const texts = command ? [{ text: commandIn(command.text) }] : message.content.filter(block => block.type === 'text' && !isNote(block.text));
  const { response } = message;
  const usage = response?.usage;
  return {
    id: message.id,
    parent: message.parent,
    seq: message.seq,
    role: message.role,
    origin: typeof message.origin === 'string' ? message.origin : Object.keys(message.origin)[0],
    text: texts.map(block => withoutMark(block.text)).join(' ').trim().slice(0, 120),
    tools: message.content.filter(block => block.type === 'tool_use').map(block => block.name),
    agent: null,
    at_ms: message.created_at,
    used: response && {
      model: response.model,
      input_tokens: usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens,
      cached_tokens: usage.cache_read_input_tokens,
      output_tokens: usage.output_tokens,
      // Costs are stored in millionths of a millionth of a dollar.
      cost_usd: response.cost === undefined || response.cost === null ? null : Number(response.cost) / 1e12,
      latency_ms: response.latency_ms,
    },
  };
}

/// Returns a text without the mark that tells the model where it comes from; people see that from who has said it.
export const withoutMark = text => text.replace(/^\[(?:STEERING|UPDATE)\]\s*/, '');

/// Returns the command that the text behind a note stands for, as it was typed; null if it is no such note.
export const commandIn = text => text.match(/^\[ah\] The user has called this command, whose text follows: (.*)$/s)?.[1] ?? null;

/// Returns whether nobody has typed a text: it tells the model what happened beside the conversation.
export const isNote = text => /^\[(ah|HOOK|NOTE)\]/.test(text);
