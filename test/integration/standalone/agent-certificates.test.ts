import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { issue } from '../../../src/certificates/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { AgentCertificates } from '../../../src/standalone/index.ts';
import { serverCommonName } from '../../../src/tls/index.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

interface ConfigMap extends KubeObject {
  data: Record<string, string>;
}

const ref = { namespace: 'kubevirt', name: 'kubevirt-ca' };

describe('certificates of the agent on the standalone node', () => {
  let api: EmbeddedApi;
  let client: KubeClient;
  let dir: string;
  let certificates: AgentCertificates;

  beforeEach(async () => {
    api = await startEmbeddedApi();
    dir = path.join(api.dir, 'kubevirt-certificates');
    const access = await loadKubeAccess({ kubeconfig: api.kubeconfig });
    client = new KubeClient({ userAgent: 'test' }, { access });
    certificates = new AgentCertificates(dir, { client, log: silentLogger });
  });
  afterEach(async () => {
    client.close();
    await api.stop();
  });

  const bundle = async () => (await client.get<ConfigMap>(resources.configMaps, ref)).data['ca-bundle'] ?? '';

  test('the bundle in the ConfigMap verifies both pairs, and stays from start to start', async () => {
    const { server, client: caller } = await certificates.ensure();
    const authority = new X509Certificate(await bundle());
    for (const { certFile } of [server, caller]) {
      assert.ok(new X509Certificate(await readFile(certFile)).verify(authority.publicKey));
    }
    const before = await Promise.all([bundle(), readFile(server.certFile, 'utf8')]);
    await certificates.ensure();
    assert.deepEqual(await Promise.all([bundle(), readFile(server.certFile, 'utf8')]), before);
  });

  test('a pair that is about to expire is renewed, by the same authority', async () => {
    const { server, client: caller } = await certificates.ensure();
    const authority = { cert: await bundle(), key: await readFile(path.join(dir, 'ca.key'), 'utf8') };
    const short = await issue(authority, { commonName: serverCommonName, usage: 'serverAuth', days: 20 });
    await writeFile(server.keyFile, short.key);
    await writeFile(server.certFile, short.cert);
    const other = await readFile(caller.certFile, 'utf8');
    await certificates.ensure();
    assert.notEqual(await readFile(server.certFile, 'utf8'), short.cert);
    assert.equal(await readFile(caller.certFile, 'utf8'), other);
    assert.equal(await bundle(), authority.cert);
  });

  test('a bundle that somebody has replaced, and another one’s keys, are put right', async () => {
    await certificates.ensure();
    const right = await bundle();
    await client.patch(resources.configMaps, ref, { data: { 'ca-bundle': 'nonsense', mine: 'stays' } }, 'merge');
    await certificates.ensure();
    const { data } = await client.get<ConfigMap>(resources.configMaps, ref);
    assert.deepEqual(data, { 'ca-bundle': right, mine: 'stays' });
  });

  test('a directory that everybody may read is closed, and torn files in it are replaced', async () => {
    await mkdir(path.join(dir, 'server'), { recursive: true, mode: 0o777 });
    await chmod(dir, 0o777);
    await writeFile(path.join(dir, 'ca.crt'), '-----BEGIN CERTIFICATE-----\nMII');
    await writeFile(path.join(dir, 'server/tls.key'), '');
    const { server } = await certificates.ensure();
    for (const place of [dir, path.join(dir, 'server')]) assert.equal((await stat(place)).mode & 0o777, 0o700, place);
    assert.equal((await stat(server.keyFile)).mode & 0o777, 0o600);
    assert.ok(
      new X509Certificate(await readFile(server.certFile)).verify(new X509Certificate(await bundle()).publicKey),
    );
  });

  test('it ends when it is told to, while it waits for the next look', async () => {
    await certificates.start();
    await certificates.stop();
  });
});
