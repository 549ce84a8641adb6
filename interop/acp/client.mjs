// An editor by the official client of the Agent Client Protocol: runs one session with everything that `ah acp` offers, in
// version 1 or 2 of the protocol, and holds each message, both ways, against the protocol's own JSON schema.
//
//     node client.mjs FOLDER VERSION COMMAND...
//
// FOLDER has the packages, COMMAND starts the agent. What the model says is scripted by cli/tests/it/acp/client.rs.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { Readable, Transform, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [folder, version, ...command] = process.argv.slice(2);
const second = version === "2";
const packages = createRequire(path.join(folder, "package.json"));
const sdk = path.join(folder, "node_modules/@agentclientprotocol/sdk");
const entry = second ? "dist/v2/unstable/acp.js" : "dist/v1/unstable/acp.js";
const acp = await import(pathToFileURL(path.join(sdk, entry)));
const schema = JSON.parse(fs.readFileSync(path.join(sdk, `schema/v${version}/schema.unstable.json`)));

// ---- The schema.

const Ajv = packages("ajv/dist/2020.js").default;
const ajv = new Ajv({ strict: false, validateFormats: false, discriminator: false });
ajv.addSchema(schema, "acp");
const named = new Map();
for (const [name, entry] of Object.entries(schema.$defs)) {
  if (entry["x-method"]) {
    const kind = /(Request|Response|Notification)$/.exec(name)[1];
    named.set(`${entry["x-side"]} ${entry["x-method"]} ${kind}`, name);
  }
}
const checked = new Map();
const wrong = [];
const waiting = { client: new Map(), agent: new Map() };

function check(side, method, kind, value) {
  const name = named.get(`${side} ${method} ${kind}`);
  if (!name) {
    if (!method.startsWith("$/")) wrong.push(`no ${kind} of ${side} ${method} in the schema`);
    return;
  }
  checked.set(name, (checked.get(name) ?? 0) + 1);
  const validate = ajv.getSchema(`acp#/$defs/${name}`);
  if (!validate(value)) {
    wrong.push(`${name}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value).slice(0, 600)}`);
  }
}

/** Looks at a line that `from` has written. */
function look(from, line) {
  const message = JSON.parse(line);
  const to = from === "client" ? "agent" : "client";
  if (message.method && message.id !== undefined) {
    waiting[from].set(message.id, message.method);
    check(to, message.method, "Request", message.params);
  } else if (message.method) {
    check(to, message.method, "Notification", message.params);
  } else {
    const method = waiting[to].get(message.id);
    if (message.result !== undefined) check(from, method, "Response", message.result);
  }
}

function lookedAt(from) {
  let rest = "";
  return new Transform({
    transform(bytes, _, done) {
      const lines = (rest + bytes.toString()).split("\n");
      rest = lines.pop();
      lines.filter((line) => line.trim()).forEach((line) => look(from, line));
      done(null, bytes);
    },
  });
}

// ---- The editor.

const told = [];
const asked = [];
const filled = [];
const written = [];
const buffers = new Map();
const news = new Set();
let answer = "allow_once";

function tell() {
  for (const wake of news) wake();
}

/** Waits until `found` returns something; returns it. */
async function until(found) {
  for (;;) {
    const value = found();
    if (value) return value;
    await new Promise((wake) => news.add(wake));
  }
}

const of = (kind) => told.filter((update) => update.sessionUpdate === kind);
const words = (kind) => of(kind).map((update) => update.content.text).join("");

function call(name) {
  const calls = told.filter((update) => update.name === name);
  const id = calls.at(-1)?.toolCallId;
  return Object.assign({}, ...told.filter((update) => update.toolCallId === id));
}

const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const output = lookedAt("client");
output.pipe(child.stdin);
const stream = acp.ndJsonStream(
  Writable.toWeb(output),
  Readable.toWeb(child.stdout.pipe(lookedAt("agent"))),
);

let editor = acp
  .client({ name: "editor" })
  .onNotification("session/update", ({ params }) => {
    told.push(params.update);
    tell();
  })
  .onRequest("session/request_permission", ({ params }) => {
    asked.push(params);
    tell();
    const option = params.options.find((option) => option.kind === answer);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onRequest("elicitation/create", ({ params }) => {
    filled.push(params);
    tell();
    return { action: "accept", content: { question1: "red", question2_other: "as you like" } };
  });
if (!second) {
  editor = editor
    .onRequest("fs/read_text_file", ({ params }) => {
      const content = buffers.get(params.path) ?? fs.readFileSync(params.path, "utf8");
      return { content };
    })
    .onRequest("fs/write_text_file", ({ params }) => {
      written.push(params);
      buffers.delete(params.path);
      fs.writeFileSync(params.path, params.content);
      return {};
    });
}

process.on("exit", () => wrong.forEach((text) => console.error(text)));
await editor.connectWith(stream, async (agent) => {
  const cwd = process.cwd();
  const file = path.join(cwd, "a.txt");
  const info = { name: "editor", version: "1.0" };
  const first = await agent.request("initialize", second
    ? { protocolVersion: 2, info, capabilities: { auth: { terminal: {} }, elicitation: { form: {} } } }
    : {
        protocolVersion: 1,
        clientInfo: info,
        clientCapabilities: {
          fs: { readTextFile: true, writeTextFile: true },
          auth: { terminal: true },
          elicitation: { form: {} },
          session: { notices: {} },
          _meta: { terminal_output: true },
        },
      });
  assert.equal(first.protocolVersion, Number(version));
  assert.equal(first.authMethods[0].type, "terminal");

  const begun = await agent.request("session/new", { cwd, mcpServers: [] });
  const session = { sessionId: begun.sessionId };
  const id = second ? "configId" : "id";
  const options = Object.fromEntries(begun.configOptions.map((option) => [option[id], option]));
  assert.deepEqual(Object.keys(options).sort(), ["busy", "mode", "model"]);
  if (!second) assert.equal(begun.modes.currentModeId, "default");
  await until(() => of("available_commands_update").length);
  const set = (configId, value) =>
    agent.request("session/set_config_option", { ...session, configId, ...(second ? { type: "id" } : {}), value });
  const idle = () => of("state_update").filter((update) => update.state === "idle" && update.stopReason);
  let ended = 0;

  /** Runs a prompt; returns why the run has ended. */
  async function prompt(...blocks) {
    const content = blocks.map((block) => (typeof block === "string" ? { type: "text", text: block } : block));
    const done = await agent.request("session/prompt", { ...session, prompt: content });
    if (!second) return done.stopReason;
    await until(() => of("user_message").some((message) => message.messageId === done.messageId));
    ended += 1;
    return (await until(() => idle()[ended - 1])).stopReason;
  }

  // An edit is asked about, shows what it changes, and works on what the editor has.
  if (!second) buffers.set(file, "unsaved\ntwo\n");
  assert.equal(await prompt("Edit it"), "end_turn");
  assert.equal(asked.length, 1);
  const edit = call("edit");
  const diff = edit.content.find((part) => part.type === "diff");
  if (second) {
    assert.equal(asked[0].subject.toolCall.toolCallId, edit.toolCallId);
    assert.deepEqual(diff.changes, [{ operation: "modify", path: file, fileType: "text" }]);
    assert.match(diff.patch.text, /^diff --git [^]*\n-two\n\+zwei\n$/);
    assert.ok(of("state_update").some((update) => update.state === "requires_action"));
  } else {
    assert.equal(diff.newText, "unsaved\nzwei\n");
    assert.deepEqual(written.map((file) => file.content), ["unsaved\nzwei\n"]);
    assert.equal(fs.readFileSync(file, "utf8"), "unsaved\nzwei\n");
  }
  assert.equal(words("agent_message_chunk"), "Done.");
  assert.equal(words("agent_thought_chunk"), "Let me see.");
  assert.equal(of("session_info_update")[0].title, "Edit it");
  const usage = of("usage_update").at(-1);
  assert.ok(usage.used > 0 && usage.size > 0 && usage.cost.amount > 0, JSON.stringify(usage));

  // A command has a terminal.
  assert.equal(await prompt("Run it"), "end_turn");
  const terminal = call("bash").content.find((part) => part.type === "terminal");
  if (second) {
    const chunks = of("terminal_output_chunk").filter((chunk) => chunk.terminalId === terminal.terminalId);
    const output = Buffer.concat(chunks.map((chunk) => Buffer.from(chunk.data, "base64"))).toString();
    assert.equal(output, "ready\n");
    assert.equal(of("terminal_update").at(-1).exitStatus.exitCode, 0);
  } else {
    const notes = told.map((update) => update._meta).filter(Boolean);
    assert.equal(notes.map((note) => note.terminal_output?.data ?? "").join(""), "ready\n");
    assert.equal(notes.at(-1).terminal_exit.exit_code, 0);
  }

  // A task list is a plan, and questions are one form.
  assert.equal(await prompt("Plan"), "end_turn");
  const plan = second ? of("plan_update").at(-1).plan : of("plan").at(-1);
  assert.deepEqual(plan.entries.map((entry) => entry.content), ["read", "write"]);
  assert.equal(await prompt("Ask me"), "end_turn");
  assert.equal(filled.length, 1);
  assert.equal(filled[0].requestedSchema.properties.question1.title, "Which colour?");

  // Options, pictures, attached texts and links.
  const changed = await set("mode", "acceptEdits");
  assert.equal(changed.configOptions.find((option) => option[id] === "mode").currentValue, "acceptEdits");
  await set("model", "haiku");
  if (!second) await agent.request("session/set_mode", { ...session, modeId: "default" });
  const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const reason = await prompt(
    "Look at ",
    { type: "image", mimeType: "image/png", data },
    { type: "resource", resource: { uri: `file://${file}`, text: "attached words" } },
    { type: "resource_link", name: "a.txt", uri: `file://${file}` },
  );
  assert.equal(reason, "end_turn");

  // A prompt during a run steers it, if that is wanted.
  await set("busy", "steer");
  const running = prompt("Wait for me");
  await until(() => call("bash").rawInput?.command.includes("until") && call("bash").status === "in_progress");
  const steering = agent.request("session/prompt", { ...session, prompt: [{ type: "text", text: "Faster" }] });
  await agent.request("session/list", {});
  fs.writeFileSync(path.join(cwd, "go"), "");
  assert.equal(await running, "end_turn");
  const steered = await steering;
  if (second) {
    await until(() => of("user_message").some((message) => message.messageId === steered.messageId));
  } else {
    assert.equal(steered.stopReason, "end_turn");
  }
  await set("busy", "queue");

  // One that waits is cancelled with the run.
  const hanging = prompt("Hang");
  await until(() => words("agent_message_chunk").includes("Hanging"));
  const queued = agent.request("session/prompt", { ...session, prompt: [{ type: "text", text: "Later" }] });
  await agent.request("session/list", {});
  await agent.notify("session/cancel", session);
  assert.equal(await hanging, "cancelled");
  if (second) await assert.rejects(queued, /cancel/i);
  else assert.equal((await queued).stopReason, "cancelled");

  // Sessions are listed, copied, closed, told again and removed.
  const copy = await agent.request("session/fork", { ...session, cwd, mcpServers: [] });
  assert.notEqual(copy.sessionId, session.sessionId);
  await agent.request("session/close", session);
  const ids = async () => (await agent.request("session/list", { cwd })).sessions.map((it) => it.sessionId);
  assert.deepEqual((await ids()).sort(), [session.sessionId, copy.sessionId].sort());
  told.length = 0;
  if (second) await agent.request("session/resume", { ...session, cwd, mcpServers: [], replayFrom: { type: "start" } });
  else await agent.request("session/load", { ...session, cwd, mcpServers: [] });
  assert.match(words("user_message_chunk"), /^Edit it/);
  assert.match(words("agent_message_chunk"), /^Done\./);
  assert.equal(call("edit").status, "completed");
  await agent.request("session/delete", { sessionId: copy.sessionId });
  assert.deepEqual(await ids(), [session.sessionId]);
  await assert.rejects(agent.request("session/delete", { sessionId: copy.sessionId }));
  await agent.request("session/close", session);
});
child.stdin.end();
const code = await new Promise((ended) => child.on("close", ended));
assert.equal(code, 0);
assert.deepEqual(wrong, []);
assert.ok(checked.size > 20, "little was looked at");
console.log(`${[...checked.values()].reduce((sum, count) => sum + count, 0)} messages of ${checked.size} kinds`);
