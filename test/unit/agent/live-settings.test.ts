import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { LiveSettings } from '../../../src/agent/live-settings.ts';
import { hasCpuManager } from '../../../src/agent/node/heartbeat/cpu-manager.ts';
import { createAdjustableLogger, silentLogger } from '../../../src/base/index.ts';
import { FakeSettings } from '../../fixtures/agent/fake-settings.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'duties-'));
});
after(() => rm(dir, { recursive: true }));

async function file(name: string, text: string): Promise<string> {
  await writeFile(path.join(dir, name), text);
  return path.join(dir, name);
}

test('the kubelet’s CPU manager is seen by the first state file that is there', async () => {
  const given = await file('static', '{"policyName":"static","defaultCpuSet":"0-3","checksum":1}');
  const none = await file('none', '{"policyName":"none"}');
  const missing = path.join(dir, 'missing');
  const see = (...files: string[]) => hasCpuManager(files, silentLogger);
  assert.equal(await see(given), true);
  assert.equal(await see(missing, given), true);
  assert.equal(await see(none, given), false);
  assert.equal(await see(missing), false);
  assert.equal(await see(path.join(given, 'below-a-file'), given), true);
});

test('a state file that is torn, no object, a directory or a link says that there is no CPU manager', async () => {
  const good = await file('good', '{"policyName":"static"}');
  for (const text of ['', '{"policyName":"sta', '[]', 'null', '{"policyName":["static"]}']) {
    assert.equal(await hasCpuManager([await file('bad', text), good], silentLogger), false, text);
  }
  await mkdir(path.join(dir, 'directory'));
  assert.equal(await hasCpuManager([path.join(dir, 'directory'), good], silentLogger), false);
  await symlink(good, path.join(dir, 'link'));
  assert.equal(await hasCpuManager([path.join(dir, 'link'), good], silentLogger), false);
});

test('log verbosity and request rate follow the configuration; without a word of it the command line counts', async () => {
  const settings = new FakeSettings();
  const heard: unknown[] = [];
  const client = { setRateLimit: (limit: object) => heard.push(limit) };
  const deps = { settings, clients: [client, client], log: silentLogger };
  const live = new LiveSettings(
    { verbosity: 3 },
    { ...deps, setVerbosity: (verbosity: number) => heard.push(verbosity) },
  );
  await live.start();
  const limit = { qps: 50, burst: 100 };
  assert.deepEqual(heard.splice(0), [3, limit, limit]);
  settings.setNode({ logVerbosity: 5 });
  settings.setNode({ rateLimit: { qps: 5, burst: 10 } });
  settings.setNode({ clusterProfiler: true });
  settings.setNode({ logVerbosity: undefined });
  assert.deepEqual(heard, [5, { qps: 5, burst: 10 }, { qps: 5, burst: 10 }, 3]);
  await live.stop();
  assert.equal(settings.listeners, 0);
});

test('verbosity changes for a logger and for the children it already has', async () => {
  const out = path.join(dir, 'log');
  const { log, setVerbosity } = createAdjustableLogger({ component: 'c', verbosity: 2, file: out });
  const child = log.child({ a: 1 });
  const grandchild = child.child({ b: 2 });
  const said = async () => (await readFile(out, 'utf8')).split('\n').length - 1;
  for (const one of [log, child, grandchild]) one.debug('too much');
  assert.equal(await said(), 0);
  setVerbosity(3);
  for (const one of [log, child, grandchild, log.child({ c: 3 })]) one.debug('not too much');
  assert.equal(await said(), 4);
  setVerbosity(0);
  for (const one of [log, child, grandchild]) one.debug('too much');
  assert.equal(await said(), 4);
});
