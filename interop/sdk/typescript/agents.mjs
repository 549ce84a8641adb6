// Subagents as programs on the TypeScript SDK see them: issue 9, rows A1 and A2, port 08. `node --test` runs them.
import assert from 'node:assert/strict';
import { Prompts, answered, bash, on, says, textOf, uses } from './bench.mjs';

const allow = async (name, input) => ({ behavior: 'allow', updatedInput: input });

const digger = { description: 'Digs.', prompt: 'You dig.', tools: ['Bash'], model: 'haiku' };
const delegate = (id, more = {}) => [id, 'Agent', {
  description: 'dig it', prompt: 'Find gold.', subagent_type: 'digger', run_in_background: false, ...more,
}];

// Issue 9, row A1: definitions of the options, messages that name the call, questions with the name of who asks.
on('a subagent works below its call and asks the host', async bench => {
  const asked = [];
  await bench.plays(
    uses(delegate('a')), uses(bash('b', 'touch made')), says('Gold.'), says('It found gold.'),
  );
  const seen = await bench.asks('Go.', {
    agents: { digger },
    canUseTool: async (name, input, { agentID }) => {
      asked.push([name, typeof agentID]);
      return allow(name, input);
    },
  });
  assert.deepEqual(asked, [['Bash', 'string']]);
  assert.deepEqual(bench.made, ['made']);
  assert.equal(seen.result.result, 'It found gold.');
  const below = [...seen.of('assistant'), ...seen.of('user')].filter(it => it.parent_tool_use_id);
  assert.deepEqual([...new Set(below.map(it => it.parent_tool_use_id))], ['a']);
  const tasks = seen.of('system').map(it => it.subtype).filter(name => name.startsWith('task_'));
  assert.deepEqual(tasks, ['task_started', 'task_progress', 'task_updated', 'task_notification']);
  const requests = await bench.requests();
  assert.match(textOf(requests[1].system), /You dig\./);
  assert.match(requests[1].model, /haiku/);
  assert.deepEqual(requests[1].tools.map(it => it.name), ['Bash']);
});

on('the host ends a subagent and a command in the background', async bench => {
  const sleep = ['b', 'Bash', { command: 'sleep 300', description: 'Sleeps', run_in_background: true }];
  await bench.plays(
    uses(sleep), uses(delegate('a')), uses(bash('c', 'sleep 300')), says('Both were stopped.'),
  );
  const prompts = new Prompts();
  const query = bench.query(prompts, { agents: { digger }, allowedTools: ['Bash'] });
  prompts.say('Go.');
  const ids = {};
  const seen = await answered(query, async it => {
    if (it.subtype === 'task_started') ids[it.task_type] = it.task_id;
    if (it.subtype === 'task_progress' && it.last_tool_name === 'Bash') {
      await query.stopTask(ids.local_bash);
      await query.stopTask(it.task_id);
    }
  });
  prompts.end();
  const ended = seen.of('system', 'task_notification').map(it => [it.task_id, it.status]);
  assert.deepEqual(ended, [[ids.local_bash, 'stopped'], [ids.local_agent, 'stopped']]);
  assert.equal(seen.result.result, 'Both were stopped.');
});

on('the conversation itself runs as a definition of the options', async bench => {
  await bench.plays(says('Hm.'));
  const seen = await bench.asks('Go.', { agents: { digger }, agent: 'digger' });
  assert.equal(seen.result.result, 'Hm.');
  const [request] = await bench.requests();
  assert.match(textOf(request.system), /You dig\./);
  assert.deepEqual(request.tools.map(it => it.name), ['Bash']);
});

on('what subagents there are', async bench => {
  await bench.plays(says('Hello.'));
  const prompts = new Prompts();
  const query = bench.query(prompts, { agents: { digger } });
  prompts.say('Hello.');
  await answered(query);
  const agents = await query.supportedAgents();
  prompts.end();
  assert.deepEqual(
    agents.map(it => it.name).sort(),
    ['Explore', 'Plan', 'digger', 'general-purpose'],
  );
  assert.deepEqual(agents.find(it => it.name === 'digger'), { name: 'digger', description: 'Digs.', model: 'haiku' });
});
