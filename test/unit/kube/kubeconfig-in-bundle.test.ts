import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bundleAsProgram } from '../../../scripts/bundle.mjs';

const dir = mkdtempSync(path.resolve('.build', 'kubeconfig-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const program = path.join(dir, 'kubeconfig.mjs');
await bundleAsProgram('src/kube/kubeconfig.ts', program);

const headersWith = async (user: object) => {
  const file = path.join(dir, 'config');
  const cluster = { name: 'c', cluster: { server: 'https://127.0.0.1:1' } };
  const context = { name: 'x', context: { cluster: 'c', user: 'u' } };
  const kinds = { apiVersion: 'v1', kind: 'Config', 'current-context': 'x' };
  writeFileSync(
    file,
    JSON.stringify({ ...kinds, clusters: [cluster], contexts: [context], users: [{ name: 'u', user }] }),
  );
  const { loadKubeconfig } = await import(pathToFileURL(program).href);
  const access = await loadKubeconfig(file);
  return (await access.credentials.current()).headers;
};

describe('the part of client-node that is in a bundle', () => {
  it('has no types of all of Kubernetes', () => {
    assert.equal(readFileSync(program, 'utf8').includes('V1PodSpec'), false);
  });

  it('takes a token, and one that a plug-in gives', async () => {
    assert.deepEqual(await headersWith({ token: 'abc' }), { authorization: 'Bearer abc' });
    const plugin = path.join(dir, 'plugin');
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'def' },
    };
    writeFileSync(plugin, `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`);
    chmodSync(plugin, 0o755);
    const exec = { apiVersion: credential.apiVersion, command: plugin, interactiveMode: 'Never' };
    assert.deepEqual(await headersWith({ exec }), { authorization: 'Bearer def' });
  });
});
