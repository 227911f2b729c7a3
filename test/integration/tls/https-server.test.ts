import assert from 'node:assert/strict';
import { once } from 'node:events';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import {
  type Authorities,
  clientCommonName,
  createTlsServer,
  FollowedAuthorities,
  type KeyPair,
  type PeerRule,
  type PemPair,
  RefusalLog,
  readTlsSettings,
  SettableValue,
  serverCommonName,
  TlsContext,
  type TlsSettings,
} from '../../../src/tls/index.ts';
import { readKeyPair } from '../../../src/tls/key-pair.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { isRefused, tlsRequest } from '../../fixtures/tls-request.ts';

const stock: PeerRule = { commonNames: [clientCommonName], allowIntermediates: false };

/** A server with values that a test changes; `sockets` are those that were let in. */
class Served {
  readonly keyPair = new SettableValue<KeyPair>();
  readonly bundle = new SettableValue<string>();
  readonly settings = new SettableValue<TlsSettings>(readTlsSettings(undefined));
  readonly authorities: SettableValue<Authorities> | FollowedAuthorities;
  readonly context: TlsContext;
  readonly refusals = new RefusalLog({ log: silentLogger, clock: systemClock });
  readonly server: https.Server;

  constructor(rule: PeerRule | 'anyone' = stock) {
    this.authorities = new FollowedAuthorities(this.bundle, { log: silentLogger });
    const { keyPair, authorities, settings, refusals } = this;
    const verify = rule === 'anyone' ? 'none' : 'peers';
    this.context = new TlsContext({ verify }, { keyPair, authorities, settings, log: silentLogger });
    this.server = createTlsServer(
      { clients: rule, handshakeTimeoutMs: 5_000, protocols: ['http/1.1'] },
      {
        context: this.context,
        create: (options) => https.createServer(options, (request, response) => response.end(`hello ${request.url}`)),
        refusals,
      },
    );
  }

  async listen(): Promise<this> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return this;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}

describe('a TLS server that follows its certificates', () => {
  let authority: TestAuthority;
  let other: TestAuthority;
  let serverPair: PemPair;
  let client: PemPair;
  let served: Served;

  before(async () => {
    [authority, other] = await Promise.all([TestAuthority.make(), TestAuthority.make()]);
    serverPair = await authority.issue({ commonName: serverCommonName, usage: 'serverAuth' });
    client = await authority.issue();
  });
  after(() => Promise.all([authority.remove(), other.remove()]));
  beforeEach(async () => {
    served = await new Served().listen();
  });
  afterEach(() => served.close());

  const makeReady = () => {
    served.keyPair.set(readKeyPair(serverPair.cert, serverPair.key));
    served.bundle.set(authority.pair.cert);
  };
  const askStock = (who: PemPair | undefined = client, options: tls.ConnectionOptions = {}) =>
    tlsRequest({ port: served.port, client: who, ca: authority.pair.cert, tls: options });

  test('serves a client with the right name, over HTTP/1.1 and TLS 1.3', async () => {
    makeReady();
    const answer = await askStock(client, { ALPNProtocols: ['h2', 'http/1.1'] });
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.deepEqual([answer.body, answer.protocol], ['hello /x', 'TLSv1.3']);
  });

  test('handshakes fail until there are a key pair and a bundle, and succeed from then on', async () => {
    assert.ok(isRefused(await askStock()));
    assert.deepEqual(served.context.state, { kind: 'waiting', missing: ['key pair', 'bundle of authorities'] });
    served.keyPair.set(readKeyPair(serverPair.cert, serverPair.key));
    assert.ok(isRefused(await askStock()));
    assert.deepEqual(served.context.state, { kind: 'waiting', missing: ['bundle of authorities'] });
    served.bundle.set(authority.pair.cert);
    assert.equal(served.context.state.kind, 'ready');
    assert.ok(!isRefused(await askStock()));
    assert.ok(served.refusals.total >= 2);
  });

  test('a server for anyone needs a key pair and no bundle, and asks nobody for a certificate', async () => {
    const open = await new Served('anyone').listen();
    try {
      const ask = () => tlsRequest({ port: open.port, client: undefined, ca: authority.pair.cert });
      assert.ok(isRefused(await ask()));
      assert.deepEqual(open.context.state, { kind: 'waiting', missing: ['key pair'] });
      open.keyPair.set(readKeyPair(serverPair.cert, serverPair.key));
      const answer = await ask();
      assert.ok('body' in answer, JSON.stringify(answer));
      open.bundle.set('no bundle at all');
      assert.ok(!isRefused(await ask()));
      const { state } = open.context;
      open.bundle.set(authority.pair.cert);
      assert.equal(open.context.state, state, 'nothing is loaded anew for authorities that nobody is judged by');
    } finally {
      await open.close();
    }
  });

  test('refuses whoever has no right to it: nothing, expired, foreign, misnamed, for another use, self-signed', async () => {
    makeReady();
    const wrong: Record<string, PemPair | undefined> = {
      'no certificate': undefined,
      expired: await authority.issue({ days: -1 }),
      'of another authority of the same name': await other.issue(),
      'another name': await authority.issue({ commonName: 'kubevirt.io:system:client:migration' }),
      'a longer name': await authority.issue({ commonName: `${clientCommonName}.x` }),
      'a shorter name': await authority.issue({ commonName: clientCommonName.slice(0, -1) }),
      'other case': await authority.issue({ commonName: clientCommonName.toUpperCase() }),
      'right name, for servers only': await authority.issue({ usage: 'serverAuth' }),
      'through an intermediate': await authority.issueByIntermediate(),
      'the authority itself': authority.pair,
    };
    for (const [name, pair] of Object.entries(wrong)) {
      for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
        const { port } = served;
        const answer = await tlsRequest({ port, client: pair, ca: authority.pair.cert, tls: { maxVersion } });
        assert.ok(isRefused(answer), `${name}, ${maxVersion}`);
      }
    }
    assert.ok(!isRefused(await askStock()), 'the right one is still served');
  });

  test('the client sees whom it talks to: the name of the server is checked, its host name is not', async () => {
    const misnamed = await authority.issue({ commonName: 'kubevirt.io:system:node:other', usage: 'serverAuth' });
    served.keyPair.set(readKeyPair(misnamed.cert, misnamed.key));
    served.bundle.set(authority.pair.cert);
    assert.ok(isRefused(await askStock()));
    makeReady();
    assert.ok(!isRefused(await askStock()));
  });

  test('while authorities of one name are exchanged clients of both are served, then those of the old one are not', async () => {
    const late = await other.issue();
    makeReady();
    assert.ok(isRefused(await askStock(late)));
    served.bundle.set(`${other.pair.cert}${authority.pair.cert}`);
    for (const who of [client, late]) assert.ok(!isRefused(await askStock(who)));
    served.bundle.set(other.pair.cert);
    assert.ok(isRefused(await askStock(client)), 'its authority was taken out');
    assert.ok(!isRefused(await askStock(late)));
  });

  test('a bundle that became garbage leaves the last good one in use', async () => {
    makeReady();
    for (const garbage of [
      '',
      'garbage',
      authority.pair.cert.slice(0, 300),
      `${other.pair.cert}${broken(client.cert)}`,
    ]) {
      served.bundle.set(garbage);
      assert.ok(!isRefused(await askStock()), JSON.stringify(garbage.slice(0, 30)));
    }
  });

  test('an open connection serves on when key pair, authorities and settings change', async () => {
    makeReady();
    const options = {
      cert: client.cert,
      key: client.key,
      ca: authority.pair.cert,
      checkServerIdentity: () => undefined,
    };
    const socket = tls.connect({ host: '127.0.0.1', port: served.port, ...options });
    await once(socket, 'secureConnect');
    const read = followText(socket);
    socket.write('GET /1 HTTP/1.1\r\nhost: x\r\n\r\n');
    await eventually(() => assert.match(read(), /hello \/1/));
    const renewed = await other.issue({ commonName: serverCommonName, usage: 'serverAuth' });
    served.keyPair.set(readKeyPair(renewed.cert, renewed.key));
    served.bundle.set(other.pair.cert);
    served.settings.set(readTlsSettings({ minTLSVersion: 'VersionTLS13' }));
    assert.ok(isRefused(await askStock(client)), 'a new connection meets the new rules');
    socket.write('GET /2 HTTP/1.1\r\nhost: x\r\n\r\n');
    await eventually(() => assert.match(read(), /hello \/2/));
    socket.destroy();
  });

  test('a session is never resumed, with or without a change', async () => {
    makeReady();
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      let session: Buffer | undefined;
      for (const turn of [1, 2]) {
        const socket = tls.connect({
          host: '127.0.0.1',
          port: served.port,
          cert: client.cert,
          key: client.key,
          ca: authority.pair.cert,
          checkServerIdentity: () => undefined,
          maxVersion,
          ...(session && { session }),
        });
        socket.on('session', (next: Buffer) => {
          session = next;
        });
        await once(socket, 'secureConnect');
        const read = followText(socket);
        socket.write('GET /x HTTP/1.1\r\nhost: x\r\n\r\n');
        await eventually(() => assert.match(read(), /hello/));
        assert.equal(socket.isSessionReused(), false, `${maxVersion}, turn ${turn}`);
        session ??= socket.getSession();
        socket.destroy();
      }
    }
  });

  test('the minimum version counts: TLS 1.1 is refused by default, 1.2 when 1.3 is asked for, 1.1 is spoken when asked for', async () => {
    makeReady();
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const;
    assert.ok(isRefused(await askStock(client, old)));
    assert.ok(!isRefused(await askStock(client, { maxVersion: 'TLSv1.2' })));
    served.settings.set(readTlsSettings({ minTLSVersion: 'VersionTLS13' }));
    assert.ok(isRefused(await askStock(client, { maxVersion: 'TLSv1.2' })));
    served.settings.set(readTlsSettings({ minTLSVersion: 'VersionTLS11' }));
    const answer = await askStock(client, old);
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.equal(answer.protocol, 'TLSv1.1');
  });

  test('the list of suites counts for TLS 1.2 and leaves TLS 1.3 as it is', async () => {
    makeReady();
    served.settings.set(readTlsSettings({ ciphers: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'] }));
    const answer = await askStock(client, { maxVersion: 'TLSv1.2' });
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.equal(answer.cipher, 'ECDHE-ECDSA-AES256-GCM-SHA384');
    const other = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' } as const;
    assert.ok(isRefused(await askStock(client, other)));
    assert.ok(!isRefused(await askStock(client)));
  });

  test('what cannot be used as a key pair does not end what works', async () => {
    makeReady();
    const pair = readKeyPair(serverPair.cert, serverPair.key);
    served.keyPair.set({ ...pair, cert: 'garbage' });
    assert.equal(served.context.state.kind, 'unusable');
    assert.ok(!isRefused(await askStock()));
    makeReady();
    assert.equal(served.context.state.kind, 'ready');
  });

  test('garbage, plain HTTP and a peer that says nothing cost nothing and are counted', async () => {
    makeReady();
    for (const text of ['GET / HTTP/1.1\r\n\r\n', '\x16\x03\x01\xff\xff', 'x'.repeat(70_000)]) {
      const socket = net.connect(served.port, '127.0.0.1');
      socket.on('error', () => undefined).resume();
      socket.write(text);
      await eventually(() => assert.ok(socket.destroyed || socket.closed));
    }
    assert.ok(served.refusals.total > 0);
    assert.ok(!isRefused(await askStock()));
  });

  test('externally managed: any name, and an intermediate in between, but not another authority', async () => {
    const rule: PeerRule = { commonNames: 'any', allowIntermediates: true };
    const external = await new Served(rule).listen();
    try {
      external.keyPair.set(readKeyPair(serverPair.cert, serverPair.key));
      external.bundle.set(authority.pair.cert);
      const let_ = async (client: PemPair | undefined) =>
        !isRefused(await tlsRequest({ port: external.port, client, ca: authority.pair.cert }));
      assert.ok(await let_(await authority.issue({ commonName: 'somebody' })));
      assert.ok(await let_(await authority.issueByIntermediate({ commonName: 'somebody' })));
      assert.ok(!(await let_(await other.issue())));
      assert.ok(!(await let_(await other.issueByIntermediate())));
      assert.ok(!(await let_(undefined)));
    } finally {
      await external.close();
    }
  });
});

/** Without a line of its base64. */
function broken(pem: string): string {
  return pem.split('\n').toSpliced(3, 1).join('\n');
}

function followText(socket: tls.TLSSocket): () => string {
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  return () => text;
}
