import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { findSockets, podOfSocket } from '../../../src/launcher-client/sockets.ts';

const sockets = 'volumes/kubernetes.io~empty-dir/sockets';

/** A pod with a socket, and one like it beside the pods. */
async function node(t: TestContext) {
  const base = mkdtempSync(path.join(tmpdir(), 'sockets-'));
  const podsDir = path.join(base, 'pods');
  const servers = ['pods/pod-1', 'evil'].map((pod) => {
    const directory = path.join(base, pod, sockets);
    mkdirSync(directory, { recursive: true });
    return createServer().listen(path.join(directory, 'launcher-sock'));
  });
  await Promise.all(servers.map((server) => once(server, 'listening')));
  t.after(() => {
    for (const server of servers) server.close();
    rmSync(base, { recursive: true, force: true });
  });
  const find = (...pods: string[]) => {
    const activePods = Object.fromEntries(pods.map((pod) => [pod, 'node1']));
    return findSockets({ key: 'default/vm', uid: 'u', activePods }, { podsDir, nodeName: 'node1' });
  };
  return { base, podsDir, find };
}

test('a socket is looked for in directories of pods only, whatever an object calls its pods', async (t) => {
  const { podsDir, find } = await node(t);
  const own = path.join(podsDir, 'pod-1', sockets, 'launcher-sock');
  assert.deepEqual(find('pod-1'), [own]);
  for (const pod of ['../evil', '..', '.', '', 'pod-1/../../evil', '/evil', 'a\0', 'pod-1/../pod-1', 'x'.repeat(300)]) {
    assert.deepEqual(find(pod, 'pod-1'), [own], pod);
  }
});

test('a pod that is a link to somewhere else has no socket', async (t) => {
  const { base, podsDir, find } = await node(t);
  symlinkSync(path.join(base, 'evil'), path.join(podsDir, 'linked'));
  assert.deepEqual(find('linked'), []);
});

test('the pod of a socket is told by its place', () => {
  assert.equal(podOfSocket(`/var/lib/kubelet/pods/abc/${sockets}/launcher-sock`), 'abc');
  assert.equal(podOfSocket('/run/launcher-sock'), undefined);
});
