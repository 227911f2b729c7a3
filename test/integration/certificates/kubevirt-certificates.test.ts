import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { ensureCertificates } from '../../../src/apiserver/index.ts';
import {
  CertificateError,
  ensureKubevirtCertificates,
  ensureSigningAuthority,
  issue,
  makeAuthority,
} from '../../../src/certificates/index.ts';
import { clientCommonName, serverCommonName } from '../../../src/tls/index.ts';
import { madeByOpenssl } from '../../fixtures/openssl-certificates.ts';

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
        const made = await issue(authority, { commonName: 'somebody', usage: 'serverAuth', days: 800 });
        await writeFile(server.certFile, made.cert);
        await writeFile(server.keyFile, made.key);
      },
      'about to expire': async () => {
        const authority = { cert: caBundle, key: await readFile(path.join(dir, 'ca.key'), 'utf8') };
        const made = await issue(authority, { commonName: serverCommonName, usage: 'serverAuth', days: 29 });
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

  test('a name that programs read in ways of their own, or that is too long for X.520, is refused', async () => {
    for (const commonName of ['a\nCN = b', '$ENV::HOME', 'a#b', '', 'x'.repeat(65)]) {
      await assert.rejects(makeAuthority({ commonName, days: 1 }), (error) => {
        assert.ok(error instanceof CertificateError);
        assert.equal(error.code, 'BAD_NAME');
        return true;
      });
    }
  });

  test('a host may have as long a name as DNS allows', async () => {
    const authority = await makeAuthority({ commonName: 'a', days: 1 });
    const host = `${'x'.repeat(63)}.${'y'.repeat(63)}.svc.cluster.local`;
    const request = { commonName: 'a', usage: 'serverAuth', days: 1 } as const;
    const { cert } = await issue(authority, { ...request, hosts: [host] });
    assert.equal(new X509Certificate(cert).checkHost(host), host);
    for (const wrong of ['', 'a\nb', 'x'.repeat(254)])
      await assert.rejects(issue(authority, { ...request, hosts: [wrong] }), { code: 'BAD_NAME' });
  });

  test('the authority of exporter pods is kept, and made anew when it is torn', async () => {
    const own = path.join(dir, 'export-ca');
    const read = () => readFile(path.join(own, 'tls.crt'), 'utf8');
    await ensureSigningAuthority(own, 'export.kubevirt.io');
    const first = await read();
    assert.ok(new X509Certificate(first).ca);
    await ensureSigningAuthority(own, 'export.kubevirt.io');
    assert.equal(await read(), first);
    await writeFile(path.join(own, 'tls.key'), 'garbage');
    await ensureSigningAuthority(own, 'export.kubevirt.io');
    assert.notEqual(await read(), first);
  });

  test('an authority has what makes it one and nothing else; a leaf has its usage, its names, and no right to sign', async () => {
    const now = new Date('2027-03-01T12:00:00.500Z');
    const authority = await makeAuthority({ commonName: 'a b', days: 10 }, now);
    const hosts = ['localhost', '127.0.0.1', '::1'];
    const leaf = await issue(authority, { commonName: 'c:d', usage: 'serverAuth', hosts, days: 5 }, now);
    const [root, server] = [authority, leaf].map(({ cert }) => new X509Certificate(cert));
    assert.ok(root && server);
    assert.deepEqual([root.ca, server.ca], [true, false]);
    assert.deepEqual([root.subject, root.issuer], ['CN=a b', 'CN=a b']);
    assert.deepEqual([server.subject, server.issuer], ['CN=c:d', 'CN=a b']);
    assert.deepEqual([root.validFrom, server.validFrom], Array(2).fill('Mar  1 12:00:00 2027 GMT'));
    assert.deepEqual([root.validTo, server.validTo], ['Mar 11 12:00:00 2027 GMT', 'Mar  6 12:00:00 2027 GMT']);
    assert.deepEqual([root.keyUsage, server.keyUsage], [undefined, ['1.3.6.1.5.5.7.3.1']]);
    assert.equal(server.subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1');
    for (const { publicKey } of [root, server]) assert.equal(publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
    const again = new X509Certificate((await issue(authority, { commonName: 'c', usage: 'clientAuth', days: 5 })).cert);
    assert.notEqual(again.serialNumber, server.serialNumber);
    assert.ok(BigInt(`0x${server.serialNumber}`) > 2n ** 64n);
    assert.match(leaf.key, /^-----BEGIN PRIVATE KEY-----\n/);
  });

  test('an authority that a user made with another kind of key signs, too; one that cannot says so', async () => {
    const days = 90;
    const request = { commonName: serverCommonName, usage: 'serverAuth', days } as const;
    const own = await makeAuthority({ commonName: 'kubevirt.io', days });
    const ed25519 = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' });
    await assert.rejects(issue({ cert: own.cert, key: String(ed25519) }, request), { code: 'BAD_AUTHORITY' });
    await assert.rejects(issue({ cert: own.cert, key: 'garbage' }, request), { code: 'BAD_AUTHORITY' });
    for (const privateKey of [
      generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
      generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey,
    ]) {
      const key = String(privateKey.export({ format: 'pem', type: 'pkcs8' }));
      const { cert } = await issue({ cert: own.cert, key }, request);
      assert.ok(new X509Certificate(cert).verify(createPublicKey(privateKey)));
    }
  });

  test('every file is for its owner only, whatever the umask', async () => {
    const place = path.join(path.dirname(dir), 'open');
    const before = process.umask(0);
    try {
      await ensureKubevirtCertificates(place);
    } finally {
      process.umask(before);
    }
    for (const name of await readdir(place, { recursive: true })) {
      assert.equal((await stat(path.join(place, name))).mode & 0o077, 0, name);
    }
  });
});

describe('certificates that an older build made with openssl', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'openssl-certs-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const put = async (files: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(dir, name)), { recursive: true });
      await writeFile(path.join(dir, name), text, { mode: 0o600 });
    }
  };
  const text = (name: string) => readFile(path.join(dir, name), 'utf8');

  test('are kept while they last', async () => {
    const { agent, api } = madeByOpenssl;
    await put(agent);
    assert.equal((await ensureKubevirtCertificates(dir, new Date('2026-12-01'))).caBundle, agent['ca.crt']);
    for (const [name, before] of Object.entries(agent)) assert.equal(await text(name), before, name);
    await put(api);
    const kept = await ensureCertificates(dir, new Date('2026-12-01'));
    assert.deepEqual(kept, { ca: api['ca.crt'], cert: api['server.crt'], key: api['server.key'] });
  });

  test('are renewed under the same authority a month before their end, and verify in a handshake', async () => {
    const { agent } = madeByOpenssl;
    await put(agent);
    const now = new Date('2029-02-01');
    const { caBundle } = await ensureKubevirtCertificates(dir, now);
    assert.equal(caBundle, agent['ca.crt']);
    const authority = new X509Certificate(caBundle);
    for (const name of ['server', 'client']) {
      const made = new X509Certificate(await text(`${name}/tls.crt`));
      assert.notEqual(made.toString(), agent[`${name}/tls.crt` as 'server/tls.crt'], name);
      assert.ok(made.checkIssued(authority) && made.verify(authority.publicKey), name);
      assert.equal(made.validFrom, 'Feb  1 00:00:00 2029 GMT');
    }
    // With the clock of today, under the old authority.
    const key = await text('ca.key');
    const today = await issue({ cert: caBundle, key }, { commonName: serverCommonName, usage: 'serverAuth', days: 1 });
    const server = tls.createServer(today, (socket) => socket.end()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = tls.connect({ port, host: '127.0.0.1', ca: caBundle, checkServerIdentity: () => undefined });
    await once(socket, 'secureConnect');
    assert.ok(socket.authorized);
    socket.destroy();
    server.close();
  });

  test('are all made anew a month before the end of the authority', async () => {
    await put(madeByOpenssl.agent);
    const { caBundle } = await ensureKubevirtCertificates(dir, new Date('2036-11-01'));
    assert.notEqual(caBundle, madeByOpenssl.agent['ca.crt']);
    assert.ok(new X509Certificate(await text('server/tls.crt')).verify(new X509Certificate(caBundle).publicKey));
  });
});
