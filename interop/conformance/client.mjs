// The client of the MCP conformance suite: uses `ah` as its user would. It looks at the server, signs in if the server wants
// it, and has a scripted model call every tool.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || "{}");
const ROUNDS = 3;

const world = mkdtempSync(join(tmpdir(), "ah-conformance-"));
const home = join(world, "home");
const work = join(world, "work");
mkdirSync(join(home, ".ah"), { recursive: true });
mkdirSync(work);

// The browser follows redirects, as the suite's issuers want it, and ends at the address of `ah`.
const browser = join(world, "browser");
const visit = `const answer = await fetch(process.argv.at(-1)); process.exit(answer.ok ? 0 : 1)`;
writeFileSync(browser, `#!/bin/sh\nexec '${process.execPath}' --input-type=module -e '${visit}' "$1"\n`, { mode: 0o755 });
// Questions are accepted as they are.
const accept = JSON.stringify({
  hookSpecificOutput: { hookEventName: "Elicitation", action: "accept", content: {} },
});

const oauth = { clientMetadataUrl: "https://conformance-test.local/client-metadata.json" };
if (scenario === "auth/pre-registration") {
  Object.assign(oauth, { clientId: context.client_id, clientSecret: context.client_secret });
}
const settings = {
  mcpServers: { c: { type: "http", url, oauth } },
  toolSearch: "off",
  hooks: { Elicitation: [{ hooks: [{ type: "command", command: `printf '%s' '${accept}'` }] }] },
};
writeFileSync(join(home, ".ah", "settings.json"), JSON.stringify(settings));

const env = { PATH: process.env.PATH, HOME: home, BROWSER: browser };

function ah(...words) {
  return new Promise((resolve) => {
    const child = execFile(process.env.AH, words, { cwd: work, env, timeout: 60_000 }, (error, stdout, stderr) => {
      console.error(`ah ${words.join(" ")}: ${error?.code ?? 0}\n${stdout}${stderr}`);
      resolve({ code: error?.code ?? 0, stdout });
    });
    child.stdin.end();
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns an input that fits the schema of a tool. */
function input(schema) {
  const value = ({ type, enum: known }) =>
    known?.[0] ?? { string: "text", number: 5, integer: 5, boolean: true, array: [], object: {} }[type] ?? "text";
  const required = (schema?.required ?? []).filter((name) => schema.properties?.[name]);
  return Object.fromEntries(required.map((name) => [name, value(schema.properties[name])]));
}

/** Returns the calls of a run: those that the suite asks for, else one of every tool. */
function calls(tools) {
  const name = (own) => `mcp__c__${own}`;
  if (context.toolCalls) {
    // A null is no value of these schemas, so a model cannot give one; what is left out means the same.
    const given = (input) => Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
    return context.toolCalls.map((call) => ({ name: name(call.name), input: given(call.arguments) }));
  }
  const own = tools.filter((tool) => tool.server === "c");
  return own.map((tool) => {
    const echoed = tool.input_schema?.properties?.schema && own.find((other) => other !== tool);
    return { name: tool.name, input: echoed ? { schema: echoed.input_schema } : input(tool.input_schema) };
  });
}

async function run() {
  const tools = parsed((await ah("tools", "--json")).stdout) ?? [];
  const asked = calls(tools);
  if (tools.some((tool) => tool.name === "mcp_resources")) {
    asked.push({ name: "mcp_resources", input: {} });
  }
  const turns = [asked.length ? { tools: asked } : { text: "None." }, { text: "Done." }];
  const model = join(world, "model.json");
  writeFileSync(model, JSON.stringify({ turns }));
  await ah("-m", `script:${model}`, "--no-sandbox", "--dangerously-skip-permissions", "call the tools");
}

async function isConnected() {
  return parsed((await ah("mcp", "test", "c", "--json")).stdout)?.state === "connected";
}

for (let round = 0; round < ROUNDS; round += 1) {
  if (!(await isConnected())) {
    const { code } = await ah("mcp", "login", "c");
    if (code !== 0 || !(await isConnected())) {
      continue;
    }
  }
  await run();
  const known = parsed((await ah("mcp", "status", "c", "--json")).stdout)?.signedIn;
  if (known?.wantedScopes?.length) {
    await ah("mcp", "login", "c");
  } else if (!known || (await isConnected())) {
    break;
  }
}
rmSync(world, { recursive: true, force: true });
