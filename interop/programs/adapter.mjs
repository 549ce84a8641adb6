// Zed's adapter from the Agent Client Protocol to the Agent SDK, driven by the messages that an editor sends.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bash, installed, says, uses } from '../sdk/typescript/bench.mjs';
import { CLI, Peer, on } from './program.mjs';

const ADAPTER = installed.resolve('@agentclientprotocol/claude-agent-acp/dist/index.js');
/// A command that does not end by itself, and is no `sleep`, which the original refuses.
const ENDLESS = `python3 -c "open('begun', 'w'); import time; time.sleep(600)"`;

/// An editor on the adapter, which answers every question with the option of one kind.
class Editor extends Peer {
  questions = [];

  constructor(bench, kind = 'allow_once') {
    super(bench, process.execPath, [ADAPTER], {
      env: { CLAUDE_CODE_EXECUTABLE: CLI },
      answer: (method, params) => {
        if (method !== 'session/request_permission') return {};
        this.questions.push(params);
        const option = params.options.find(it => it.kind === kind);
        return { outcome: { outcome: 'selected', optionId: option.optionId } };
      },
    });
    this.bench = bench;
  }

  async opens(method = 'session/new', more = {}) {
    this.start();
    await this.ask('initialize', { protocolVersion: 1, clientCapabilities: {} });
    const opened = await this.ask(method, { cwd: this.bench.cwd, mcpServers: [], ...more });
    this.session = opened.sessionId ?? more.sessionId;
    // The mode that a session begins with is a setting of the adapter.
    if (opened.modes.currentModeId !== 'default') await this.inMode('default');
    return opened;
  }
  inMode(modeId) { return this.ask('session/set_mode', { sessionId: this.session, modeId }); }
  says(text) {
    return this.ask('session/prompt', { sessionId: this.session, prompt: [{ type: 'text', text }] });
  }
  updates(kind) {
    return this.told.map(it => it.params?.update).filter(it => it?.sessionUpdate === kind);
  }
  chunks(kind = 'agent_message_chunk') { return this.updates(kind).map(it => it.content.text).join(''); }
  get options() { return this.updates('config_option_update').at(-1)?.configOptions; }
}

/// A check with an editor whose questions get the option of one kind.
const inEditor = (name, act, kind) => on(`adapter: ${name}`, async bench => {
  const editors = [];
  const opened = () => {
    const editor = new Editor(bench, kind);
    editors.push(editor);
    return editor;
  };
  try {
    await act(bench, opened(), opened);
  } finally {
    await Promise.all(editors.map(it => it.end()));
  }
});

inEditor('a session has modes and a choice of models', async (bench, editor) => {
  await bench.plays(says('unused'));
  const opened = await editor.opens();
  assert.ok(opened.sessionId);
  const modes = opened.modes.availableModes.map(it => it.id);
  for (const mode of ['default', 'acceptEdits', 'plan']) assert.ok(modes.includes(mode), `${modes}`);
  assert.ok(opened.configOptions.some(it => it.id === 'model' && it.options.length > 1));
});

inEditor('a prompt is answered', async (bench, editor) => {
  await bench.plays(says('Hello editor'));
  await editor.opens();
  const { stopReason } = await editor.says('hello there');
  assert.equal(stopReason, 'end_turn');
  assert.equal(editor.chunks(), 'Hello editor');
});

inEditor('a command is asked about and runs', async (bench, editor) => {
  await bench.plays(uses(bash('t1', 'touch made')), says('Done.'));
  await editor.opens();
  assert.equal((await editor.says('make it')).stopReason, 'end_turn');
  assert.equal(editor.questions.length, 1);
  assert.ok(existsSync(join(bench.cwd, 'made')));
  assert.ok(editor.updates('tool_call_update').some(it => it.status === 'completed'));
});

inEditor('a command that is refused does not run', async (bench, editor) => {
  await bench.plays(uses(bash('t1', 'touch made')), says('Not done.'));
  await editor.opens();
  await editor.says('make it');
  assert.equal(editor.questions.length, 1);
  assert.ok(!existsSync(join(bench.cwd, 'made')));
  assert.ok(editor.updates('tool_call_update').some(it => it.status === 'failed'));
}, 'reject_once');

inEditor('an edit shows its difference', async (bench, editor) => {
  const file = join(bench.cwd, 'text');
  await bench.plays(
    uses(['r1', 'Read', { file_path: file }]),
    uses(['e1', 'Edit', { file_path: file, old_string: 'one', new_string: 'two' }]),
    says('Done.'),
  );
  writeFileSync(file, 'one\n');
  await editor.opens();
  await editor.says('change it');
  assert.equal(readFileSync(file, 'utf8'), 'two\n');
  const shown = [...editor.updates('tool_call'), ...editor.updates('tool_call_update')];
  const diffs = shown.flatMap(it => it.content ?? []).filter(it => it.type === 'diff');
  assert.ok(diffs.some(it => it.oldText.includes('one') && it.newText.includes('two')), JSON.stringify(diffs));
});

inEditor('a mode is changed', async (bench, editor) => {
  const file = join(bench.cwd, 'text');
  await bench.plays(uses(['w1', 'Write', { file_path: file, content: 'new\n' }]), says('Done.'));
  await editor.opens();
  await editor.inMode('acceptEdits');
  await editor.says('write it');
  assert.equal(editor.questions.length, 0);
  assert.equal(readFileSync(file, 'utf8'), 'new\n');
});

inEditor('a plan is asked about', async (bench, editor) => {
  await bench.plays(uses(['p1', 'ExitPlanMode', { plan: '# The plan' }]), says('Planned.'));
  await editor.opens();
  await editor.inMode('plan');
  await editor.says('plan it');
  assert.equal(editor.questions.length, 1);
  assert.equal(editor.questions[0].toolCall.kind, 'switch_mode');
  assert.ok(editor.updates('current_mode_update').length > 0);
});

inEditor('an effort and a model are chosen', async (bench, editor) => {
  await bench.plays(says('Chosen.'));
  const { configOptions } = await editor.opens();
  const choose = (configId, value) =>
    editor.ask('session/set_config_option', { sessionId: editor.session, configId, value });
  const model = configOptions.find(it => it.id === 'model').options.find(it => it.value === 'opus');
  const chosen = await choose('model', model.value);
  const effort = chosen.configOptions.find(it => it.id === 'effort');
  assert.ok(effort, JSON.stringify(chosen.configOptions.map(it => it.id)));
  await choose('effort', 'low');
  await editor.says('with less effort');
  const request = (await bench.requests()).find(it => it.tools?.length);
  assert.match(request.model, /opus/);
  assert.equal(request.output_config?.effort, 'low');
});

inEditor('a cancel ends an answer', async (bench, editor) => {
  await bench.plays(says('It begins', { hang: true }), says('And goes on.'));
  await editor.opens();
  const answered = editor.says('begin');
  await editor.until(it => it.params?.update?.sessionUpdate === 'agent_message_chunk');
  editor.tell('session/cancel', { sessionId: editor.session });
  assert.equal((await answered).stopReason, 'cancelled');
  assert.equal((await editor.says('go on')).stopReason, 'end_turn');
  assert.match(editor.chunks(), /And goes on\./);
});

inEditor('a cancel before the answer ends it too', async (bench, editor) => {
  await bench.plays(says('It never begins', { delay_ms: 600_000 }), says('And goes on.'));
  await editor.opens();
  const answered = editor.says('begin');
  editor.tell('session/cancel', { sessionId: editor.session });
  assert.equal((await answered).stopReason, 'cancelled');
});

inEditor('a cancel ends a command', async (bench, editor) => {
  await bench.plays(uses(bash('t1', ENDLESS)), says('Over.'));
  await editor.opens();
  const answered = editor.says('run it');
  while (!existsSync(join(bench.cwd, 'begun'))) await new Promise(resolve => { setImmediate(resolve); });
  editor.tell('session/cancel', { sessionId: editor.session });
  assert.equal((await answered).stopReason, 'cancelled');
});

inEditor('a session is loaded by another process', async (bench, editor, another) => {
  await bench.plays(says('The first answer'), says('The second answer'));
  await editor.opens();
  await editor.says('the first prompt');
  await editor.end();
  const next = another();
  await next.opens('session/load', { sessionId: editor.session });
  assert.match(next.chunks('user_message_chunk'), /the first prompt/);
  assert.match(next.chunks(), /The first answer/);
  assert.equal((await next.says('and the second')).stopReason, 'end_turn');
  assert.match(JSON.stringify((await bench.requests()).at(-1).messages), /The first answer/);
});

inEditor('a session is forked', async (bench, editor) => {
  await bench.plays(says('The first answer'), says('The fork answers'));
  await editor.opens();
  await editor.says('the first prompt');
  const of = { sessionId: editor.session, cwd: bench.cwd, mcpServers: [] };
  const { sessionId } = await editor.ask('session/fork', of);
  assert.notEqual(sessionId, editor.session);
  await editor.ask('session/prompt', { sessionId, prompt: [{ type: 'text', text: 'in the fork' }] });
  assert.match(JSON.stringify((await bench.requests()).at(-1).messages), /The first answer/);
});

inEditor('sessions are listed', async (bench, editor) => {
  await bench.plays(says('The first answer'));
  await editor.opens();
  await editor.says('the first prompt');
  const { sessions } = await editor.ask('session/list', { cwd: bench.cwd });
  assert.deepEqual(sessions.map(it => it.sessionId), [editor.session]);
});

inEditor('a command of the user is expanded', async (bench, editor) => {
  await bench.plays(says('Greeted.'));
  mkdirSync(join(bench.cwd, '.claude/commands'), { recursive: true });
  writeFileSync(join(bench.cwd, '.claude/commands/greet.md'), 'Greet $ARGUMENTS kindly.');
  await editor.opens();
  await editor.says('/greet Ada');
  const request = (await bench.requests()).find(it => it.tools?.length);
  assert.match(JSON.stringify(request.messages), /Greet Ada kindly\./);
});
