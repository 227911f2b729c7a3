import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  CertificateError,
  clientCommonName,
  ensureKubevirtCertificates,
  issue,
  makeAuthority,
  serverCommonName,
} from '../../../src/tls/index.ts';

const day = 24 * 3600 * 1000;

describe('certificates of a node without an operator', () => {
  let dir: string;
  before(async () => {
    dir = path.join(await mkdtemp(path.join(tmpdir(), 'kubevirt-certs-')), 'certificates');
  });
  after(() => rm(path.dirname(dir), { recursive: true, force: true }));

  test('have the names and usages that virt-api and the agent look for, and are signed by the bundle', async () => {
    const { caBundle, server, client } = await ensureKubevirtCertificates(dir);
    const authority = new X509Certificate(caBundle);
    const pairs = [
      [server, serverCommonName, '1.3.6.1.5.5.7.3.1'],
      [client, clientCommonName, '1.3.6.1.5.5.7.3.2'],
    ] as const;
    for (const [{ certFile }, name, usage] of pairs) {
      const certificate = new X509Certificate(await readFile(certFile));
      assert.equal(certificate.subject, `CN=${name}`);
      assert.deepEqual(certificate.keyUsage, [usage]);
      assert.ok(certificate.verify(authority.publicKey));
      assert.equal(certificate.publicKey.asymmetricKeyType, 'ec');
    }
  });

  test('keys and directories are for their owner only, also when they were open before, and no draft stays', async () => {
    await chmod(dir, 0o755);
    const { server, client } = await ensureKubevirtCertificates(dir);
    const files = [server.keyFile, client.keyFile, path.join(dir, 'ca.key'), path.dirname(server.keyFile), dir];
    for (const file of files) assert.equal((await stat(file)).mode & 0o077, 0, file);
    assert.deepEqual((await readdir(dir)).sort(), ['ca.crt', 'ca.key', 'client', 'server']);
    assert.deepEqual(await readdir(path.join(dir, 'server')), ['tls.crt', 'tls.key']);
  });

  test('stay as they are while they are good', async () => {
    const before = await ensureKubevirtCertificates(dir);
    const read = () => readFile(before.server.certFile, 'utf8');
    const cert = await read();
    assert.deepEqual(await ensureKubevirtCertificates(dir), before);
    assert.equal(await read(), cert);
  });

  test('a leaf that is torn, foreign, misnamed or about to expire is made again under the same authority', async () => {
    const { caBundle, server } = await ensureKubevirtCertificates(dir);
    const cert = () => readFile(server.certFile, 'utf8');
    const spoil = {
      torn: async () => writeFile(server.certFile, (await cert()).slice(0, 200)),
      'key of another': async () => writeFile(server.keyFile, await readFile(path.join(dir, 'ca.key'))),
      empty: async () => writeFile(server.keyFile, ''),
      missing: async () => rm(server.certFile),
      misnamed: async () => {
        const authority = { cert: caBundle, key: await readFile(path.join(dir, 'ca.key'), 'utf8') };
        const made = await issue(dir, authority, { commonName: 'somebody', usage: 'serverAuth', days: 800 });
        await writeFile(server.certFile, made.cert);
        await writeFile(server.keyFile, made.key);
      },
      'about to expire': async () => {
        const authority = { cert: caBundle, key: await readFile(path.join(dir, 'ca.key'), 'utf8') };
        const made = await issue(dir, authority, { commonName: serverCommonName, usage: 'serverAuth', days: 29 });
        await writeFile(server.certFile, made.cert);
        await writeFile(server.keyFile, made.key);
      },
    };
    for (const [name, break_] of Object.entries(spoil)) {
      await break_();
      const spoilt = await cert().catch(() => '');
      const { caBundle: bundle } = await ensureKubevirtCertificates(dir);
      assert.equal(bundle, caBundle, name);
      const made = new X509Certificate(await cert());
      assert.notEqual(made.toString(), spoilt, name);
      assert.ok(made.checkIssued(new X509Certificate(caBundle)), name);
      assert.ok(Date.parse(made.validTo) > Date.now() + 700 * day, name);
    }
  });

  test('a torn authority is made again, with everything that it had signed', async () => {
    const { caBundle, client } = await ensureKubevirtCertificates(dir);
    await writeFile(path.join(dir, 'ca.key'), 'garbage');
    const renewed = await ensureKubevirtCertificates(dir);
    assert.notEqual(renewed.caBundle, caBundle);
    const certificate = new X509Certificate(await readFile(client.certFile));
    assert.ok(certificate.verify(new X509Certificate(renewed.caBundle).publicKey));
  });

  test('a name that openssl would read as configuration is refused', async () => {
    for (const commonName of ['a\nCN = b', '$ENV::HOME', 'a#b', '', 'x'.repeat(65)]) {
      await assert.rejects(makeAuthority(dir, { commonName, days: 1 }), (error) => {
        assert.ok(error instanceof CertificateError);
        assert.equal(error.code, 'BAD_NAME');
        return true;
      });
    }
  });
});
