// An MCP server that lets other agents ask the program, by `claude -p`.
import assert from 'node:assert/strict';
import { installed, says } from '../sdk/typescript/bench.mjs';
import { CLI, Peer, on } from './program.mjs';

const SERVER = installed.resolve('@steipete/claude-code-mcp/dist/server.js');

on('claude-code-mcp: a prompt is answered', async bench => {
  await bench.plays(says('Answered through a server.'));
  const server = new Peer(bench, process.execPath, [SERVER], { env: { CLAUDE_CLI_NAME: CLI } });
  server.start();
  try {
    await server.ask('initialize', {
      protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' },
    });
    server.tell('notifications/initialized');
    const { tools } = await server.ask('tools/list', {});
    assert.deepEqual(tools.map(it => it.name), ['claude_code']);
    const { content } = await server.ask('tools/call', {
      name: 'claude_code', arguments: { prompt: 'answer this prompt', workFolder: bench.cwd },
    });
    assert.equal(content[0].text.trim(), 'Answered through a server.');
  } finally {
    await server.end();
  }
});
