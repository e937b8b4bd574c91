// A client of the official TypeScript SDK goes once through the surface:
//
//	node client.mjs v1|v2 stdio COMMAND WORKSPACE
//	node client.mjs v1|v2 http URL TOKEN
//
// v1 is the SDK that most hosts ship; v2 speaks the newest revision of the
// protocol where the server does. The SDK itself checks every structured reply
// against the output schema of the tool.
import assert from 'node:assert/strict';

const [, , sdk, transport, where, secret] = process.argv;

async function connect() {
  const info = { name: `interop-${sdk}`, version: '1' };
  if (sdk === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return [new Client(info, { capabilities: {} }), StdioClientTransport, StreamableHTTPClientTransport];
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  return [new Client(info, { capabilities: {}, versionNegotiation: { mode: 'auto' } }), StdioClientTransport, StreamableHTTPClientTransport];
}

const [client, Stdio, Http] = await connect();
await client.connect(
  transport === 'stdio'
    ? new Stdio({ command: where, args: ['serve', '--tier', 'full'], env: { ...process.env, RW_WORKSPACE: secret } })
    : new Http(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${secret}` } } }),
);

/** call calls a tool and returns its structured reply. */
async function call(name, args) {
  const res = await client.callTool({ name, arguments: args });
  assert.ok(res.structuredContent, `${name} has no structured content`);
  assert.deepEqual(JSON.parse(res.content[0].text), res.structuredContent, `${name}: text and structure differ`);
  assert.equal(res.isError ?? false, !res.structuredContent.ok, `${name}: isError`);
  return res.structuredContent;
}

const dir = `${sdk}-${transport}`;
const path = `${dir}/notes.md`;

const { tools } = await client.listTools();
assert.ok(tools.length > 20, `${tools.length} tools`);
for (const tool of tools) {
  assert.match(tool.name, /^rw_[a-z_]{1,61}$/);
  assert.ok(tool.description && tool.title && tool.inputSchema && tool.outputSchema, tool.name);
}

let r = await call('rw_safe_write', { path, content: '# Notes – ünïcödé 🙂\n' });
assert.equal(r.mode_applied, 'create');
const { sha256 } = r;
r = await call('rw_safe_write', { path, content: 'again' });
assert.equal(r.context.reason, 'file_already_exists');
assert.equal(r.context.next_actions[0].tool, 'rw_read');
r = await call('rw_read', { path });
assert.equal(r.sha256, sha256);
assert.equal(r.content, '# Notes – ünïcödé 🙂\n');
r = await call('rw_edit', { path, edits: [{ old: '# Notes', new: '# Notices' }], expected_prev_sha256: sha256 });
assert.equal(r.replacements, 1);
r = await call('rw_safe_write', { path, content: 'stale', mode: 'overwrite', expected_prev_sha256: sha256 });
assert.equal(r.context.reason, 'hash_mismatch');
r = await call('rw_tx', { ops: [{ op: 'write', path: `${dir}/a.txt`, content: 'a' }, { op: 'move', path, to: `${dir}/moved.md` }] });
assert.equal(r.results.length, 2);
for (let i = 1; i <= 20; i++) {
  r = await call('rw_chunk_append', { session: dir, content: `part ${i}\n`, expect_index: i });
}
r = await call('rw_chunk_compose', { session: dir, output_path: `${dir}/parts.txt` });
assert.equal(r.chunk_count, 20);
r = await call('rw_safe_write', { path: `${dir}/key.env`, content: `KEY=${['AKIA', 'QWERTYUIOPAS2345'].join('')}\n` });
assert.equal(r.error, 'blocked');
r = await call('rw_redact', { draft_ref: r.context.draft_ref });
assert.ok(!r.content.includes('QWERTY'));
r = await call('rw_undo', {});
if (r.context?.reason === 'nothing_to_undo') { // without sessions no commit is known to be one's own
  assert.ok(sdk === 'v2' && transport === 'http');
  r = await call('rw_undo', { caller: `interop-${sdk}` });
}
assert.equal(r.status, 'succeeded');
r = await call('rw_history', { path: `${dir}/moved.md` });
assert.ok(r.versions.length >= 3);
r = await call('rw_checkpoint', { name: dir, data: { at: [1, 2.5, null, '✓'] } });
r = await call('rw_checkpoint_read', { name: dir });
assert.deepEqual(r.data, { at: [1, 2.5, null, '✓'] });
r = await call('rw_describe', {});
assert.equal(r.surface.tier, 'full');
r = await call('rw_safe_wirte', {}).catch((e) => ({ context: { did_you_mean: String(e).includes('rw_safe_write') ? 'rw_safe_write' : String(e) } }));
assert.equal(r.context.did_you_mean, 'rw_safe_write');
r = await call('rw_read', { path, max_bytes: 'many' });
assert.equal(r.context.reason, 'invalid_argument');

const { resources } = await client.listResources();
assert.ok(resources.some((x) => x.uri === 'rw://journal'), 'no rw://journal');
const { contents } = await client.readResource({ uri: 'rw://journal' });
assert.ok(contents[0].text.includes(`${dir}/parts.txt`));
const { resourceTemplates } = await client.listResourceTemplates();
assert.ok(resourceTemplates.length > 0);
const { prompts } = await client.listPrompts();
assert.ok(prompts.length > 0 && prompts.every((p) => p.description));
const prompt = await client.getPrompt({ name: 'resume_task', arguments: {} });
assert.ok(prompt.messages.length > 0);

const many = await Promise.all(Array.from({ length: 32 }, (_, i) => call('rw_safe_write', { path: `${dir}/log.txt`, content: `${i}\n`, mode: 'append' })));
assert.equal(new Set(many.map((x) => x.journal_id)).size, 32);
r = await call('rw_read', { path: `${dir}/log.txt` });
assert.equal(r.content.split('\n').length, 33);

await client.close();
console.log(`ok ${sdk} ${transport}: ${client.getNegotiatedProtocolVersion?.() ?? 'legacy'}`);
process.exit(0);
