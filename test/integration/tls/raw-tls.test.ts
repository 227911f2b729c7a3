import assert from 'node:assert/strict';
import { once } from 'node:events';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import tls from 'node:tls';
import { errorCode, silentLogger, systemClock } from '../../../src/base/index.ts';
import {
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

const migrationCommonName = 'kubevirt.io:system:client:migration';
const fromAgents: PeerRule = { commonNames: [clientCommonName, migrationCommonName], allowIntermediates: false };
const toAgents: PeerRule = { commonNames: [serverCommonName], allowIntermediates: false };

/** One side of a connection between two agents, with values that a test changes. */
class Side {
  readonly keyPair = new SettableValue<KeyPair>();
  readonly bundle = new SettableValue<string>();
  readonly settings = new SettableValue<TlsSettings>(readTlsSettings(undefined));
  readonly context: TlsContext;

  constructor(pair?: PemPair, bundle?: string) {
    const { keyPair, settings } = this;
    const authorities = new FollowedAuthorities(this.bundle, { log: silentLogger });
    this.context = new TlsContext({ verify: 'peers' }, { keyPair, authorities, settings, log: silentLogger });
    if (pair) this.use(pair);
    if (bundle !== undefined) this.bundle.set(bundle);
  }

  use({ cert, key }: PemPair): void {
    this.keyPair.set(readKeyPair(cert, key));
  }
}

/** A raw server that sends back what it gets, and only to clients that it was given. */
class Echo {
  readonly refusals = new RefusalLog({ log: silentLogger, clock: systemClock });
  readonly server: tls.Server;
  served = 0;

  constructor(side: Side, rule: PeerRule = fromAgents) {
    const serve = (socket: tls.TLSSocket) => {
      this.served++;
      socket.on('error', () => undefined);
      socket.pipe(socket);
    };
    this.server = createTlsServer(
      { clients: rule, handshakeTimeoutMs: 5_000 },
      {
        context: side.context,
        create: (options) => tls.createServer({ ...options, allowHalfOpen: true }, serve),
        refusals: this.refusals,
      },
    );
  }

  async listen(): Promise<this> {
    await once(this.server.listen(0, '127.0.0.1'), 'listening');
    return this;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }
}

const undo: (() => unknown)[] = [];
const open: tls.TLSSocket[] = [];

async function echo(side: Side, rule?: PeerRule): Promise<Echo> {
  const made = await new Echo(side, rule).listen();
  undo.push(() => made.server.close());
  return made;
}

/** The first bytes that came back, or the code of what refused them: in TLS 1.3 a client learns of it after its handshake. */
async function say(
  { port }: Pick<Echo, 'port'>,
  side: Side,
  { rule = toAgents, ...more }: tls.ConnectionOptions & { readonly rule?: PeerRule } = {},
): Promise<{ readonly said: string; readonly socket: tls.TLSSocket } | { readonly refused: string }> {
  const options = side.context.connectOptions(rule);
  assert.ok(options, side.context.problem);
  const socket = tls.connect({ host: '127.0.0.1', port, ...options, ...more });
  open.push(socket);
  return new Promise((resolve) => {
    socket.once('error', (error) => resolve({ refused: errorCode(error) ?? error.message }));
    socket.once('close', () => resolve({ refused: 'closed' }));
    socket.once('data', (said: Buffer) => resolve({ said: said.toString(), socket }));
    socket.write('hello');
  });
}

/** What comes back on a connection that was open before. */
async function sayOn(socket: tls.TLSSocket, text: string): Promise<string> {
  const answer = once(socket, 'data');
  socket.write(text);
  return String((await answer)[0]);
}

const isServed = async (...from: Parameters<typeof say>) => 'said' in (await say(...from));

describe('raw TLS between two agents, each a server and a client of the other', () => {
  let authority: TestAuthority;
  let other: TestAuthority;
  let serverPair: PemPair;
  let clientPair: PemPair;
  before(async () => {
    [authority, other] = await Promise.all([TestAuthority.make(), TestAuthority.make()]);
    serverPair = await authority.issue({ commonName: serverCommonName, usage: 'serverAuth' });
    clientPair = await authority.issue();
  });
  after(() => Promise.all([authority.remove(), other.remove()]));
  afterEach(() => {
    for (const socket of open.splice(0)) socket.destroy();
    for (const each of undo.splice(0)) each();
  });

  const serverSide = (pair: PemPair = serverPair) => new Side(pair, authority.pair.cert);
  const clientSide = (pair: PemPair = clientPair) => new Side(pair, authority.pair.cert);
  const serverLeaf = { commonName: serverCommonName, usage: 'serverAuth' } as const;

  test('both show a certificate and are let in by its common name; bytes go both ways and one side may end first', async () => {
    const target = await echo(serverSide());
    const answer = await say(target, clientSide());
    assert.ok('said' in answer, JSON.stringify(answer));
    assert.equal(answer.said, 'hello');
    assert.equal(answer.socket.getProtocol(), 'TLSv1.3');
    assert.equal(answer.socket.alpnProtocol, false);
    answer.socket.end('last words');
    const [rest] = await once(answer.socket, 'data');
    assert.equal(String(rest), 'last words');
    await once(answer.socket, 'close');
  });

  test('what serves connections never meets a client without a right, in TLS 1.2 and 1.3', async () => {
    const target = await echo(serverSide());
    const wrong: Record<string, PemPair> = {
      expired: await authority.issue({ days: -1 }),
      'of another authority of the same name': await other.issue(),
      'another name': await authority.issue({ commonName: 'kubevirt.io:system:client:monitoring' }),
      'for servers only': await authority.issue({ usage: 'serverAuth' }),
      'through an intermediate': await authority.issueByIntermediate(),
    };
    for (const [name, pair] of Object.entries(wrong)) {
      for (const version of ['VersionTLS12', 'VersionTLS13']) {
        const before = target.refusals.total;
        const side = clientSide(pair);
        side.settings.set(readTlsSettings({ minTLSVersion: version }));
        assert.equal(await isServed(target, side), false, `${name}, ${version}`);
        await eventually(() => assert.ok(target.refusals.total > before, `${name}, ${version} is counted`));
      }
    }
    assert.equal(target.served, 0);
    const bare = tls.connect({ host: '127.0.0.1', port: target.port, rejectUnauthorized: false });
    open.push(bare);
    bare.on('error', () => undefined);
    await once(bare, 'close');
    assert.equal(target.served, 0, 'one without a certificate');
    assert.ok(await isServed(target, clientSide()), 'the right one is still served');
  });

  test('a client sends nothing to a server without a right, and says why', async () => {
    const wrong: Record<string, readonly [PemPair, RegExp]> = {
      expired: [await authority.issue({ ...serverLeaf, days: -1 }), /^CERT_HAS_EXPIRED$/],
      foreign: [await other.issue(serverLeaf), /^(UNABLE_TO_|CERT_SIGNATURE_FAILURE|SELF_SIGNED)/],
      'another name': [await authority.issue({ ...serverLeaf, commonName: 'virt-handler' }), /^COMMON_NAME$/],
      'of a client': [await authority.issue({ commonName: serverCommonName }), /^INVALID_PURPOSE$/],
      'through an intermediate': [await authority.issueByIntermediate(serverLeaf), /^INTERMEDIATE$/],
    };
    for (const [name, [pair, code]] of Object.entries(wrong)) {
      const target = await echo(serverSide(pair));
      for (const maxVersion of ['TLSv1.2', 'TLSv1.3']) {
        const side = clientSide();
        if (maxVersion === 'TLSv1.2')
          target.server.setSecureContext({ ...serverSide(pair).context.current?.options, maxVersion });
        const answer = await say(target, side);
        assert.ok('refused' in answer, name);
        assert.match(answer.refused, code, name);
      }
      assert.equal(target.server.listening, true);
    }
  });

  test('externally managed: any name and intermediates from the peer, on both sides; not another authority', async () => {
    const rule: PeerRule = { commonNames: 'any', allowIntermediates: true };
    const target = await echo(
      serverSide(await authority.issueByIntermediate({ ...serverLeaf, commonName: 'node-a' })),
      rule,
    );
    assert.ok(await isServed(target, clientSide(await authority.issueByIntermediate({ commonName: 'b' })), { rule }));
    assert.equal(await isServed(target, clientSide(await other.issueByIntermediate()), { rule }), false);
    assert.equal(await isServed(target, new Side(clientPair, other.pair.cert), { rule }), false);
  });

  test('a client whose first certificate is refused may come again with another', async () => {
    const target = await echo(serverSide(), { commonNames: [clientCommonName], allowIntermediates: false });
    const migration = clientSide(await authority.issue({ commonName: migrationCommonName }));
    assert.equal(await isServed(target, migration), false);
    assert.ok(await isServed(target, clientSide()));
  });

  test('new key pairs on both sides are for new connections; open ones go on', async () => {
    const [from, to] = [clientSide(), serverSide()];
    const target = await echo(to);
    const first = await say(target, from);
    assert.ok('said' in first);
    to.use(await authority.issue(serverLeaf));
    from.use(await authority.issue({ commonName: migrationCommonName }));
    const second = await say(target, from);
    assert.ok('said' in second, JSON.stringify(second));
    const shown = [first, second].map(({ socket }) => socket.getPeerCertificate().fingerprint256);
    assert.notEqual(shown[0], shown[1], 'the server shows its new certificate');
    for (const { socket } of [first, second]) assert.equal(await sayOn(socket, 'still here'), 'still here');
  });

  test('while the authority is exchanged both are trusted, then the old one is not; open connections go on', async () => {
    const [from, to] = [clientSide(), serverSide()];
    const target = await echo(to);
    const first = await say(target, from);
    assert.ok('said' in first);
    const [newServer, newClient] = [await other.issue(serverLeaf), await other.issue()];
    assert.equal(await isServed(target, new Side(newClient, authority.pair.cert)), false, 'not yet trusted');
    const both = `${authority.pair.cert}${other.pair.cert}`;
    for (const side of [from, to]) side.bundle.set(both);
    assert.ok(await isServed(target, from), 'old to old');
    from.use(newClient);
    assert.ok(await isServed(target, from), 'new to old');
    to.use(newServer);
    assert.ok(await isServed(target, from), 'new to new');
    for (const side of [from, to]) side.bundle.set(other.pair.cert);
    assert.ok(await isServed(target, from), 'the old authority is gone');
    assert.equal(await isServed(target, new Side(clientPair, both)), false, 'its clients are refused');
    const old = await echo(new Side(serverPair, both));
    assert.equal(await isServed(old, from), false, 'its servers are refused');
    assert.equal(await sayOn(first.socket, 'still here'), 'still here');
  });

  test('garbage leaves the last good context in use, for servers and for clients', async () => {
    const [from, to] = [clientSide(), serverSide()];
    const target = await echo(to);
    for (const side of [from, to]) {
      const { current } = side.keyPair;
      assert.ok(current);
      side.keyPair.set({ ...current, cert: 'garbage' });
      assert.equal(side.context.state.kind, 'unusable');
      assert.match(side.context.problem ?? '', /PEM/i);
      side.bundle.set('-----BEGIN CERTIFICATE-----\ngarbage\n-----END CERTIFICATE-----');
    }
    assert.ok(await isServed(target, from));
    from.use(clientPair);
    assert.deepEqual([from.context.state.kind, from.context.problem], ['ready', undefined]);
  });

  test('a client without all that it needs is none, and says what is missing', async () => {
    const side = new Side();
    assert.equal(side.context.connectOptions(toAgents), undefined);
    side.use(clientPair);
    assert.equal(side.context.connectOptions(toAgents), undefined);
    assert.equal(side.context.problem, 'no bundle of authorities');
    side.bundle.set(authority.pair.cert);
    assert.ok(await isServed(await echo(serverSide()), side));
  });

  test('a context that verifies nobody lets a client reach nobody', async () => {
    const { keyPair, settings, bundle } = clientSide();
    const authorities = new FollowedAuthorities(bundle, { log: silentLogger });
    const context = new TlsContext({ verify: 'none' }, { keyPair, authorities, settings, log: silentLogger });
    const target = await echo(serverSide());
    const options = context.connectOptions({ commonNames: 'any', allowIntermediates: true });
    assert.ok(options);
    const socket = tls.connect({ host: '127.0.0.1', port: target.port, ...options });
    open.push(socket);
    const [error] = await once(socket, 'error');
    assert.match(errorCode(error) ?? '', /^(UNABLE_TO_|SELF_SIGNED)/);
  });

  test('the minimum version and the suites of the server count', async () => {
    const to = serverSide();
    const target = await echo(to);
    const old = clientSide();
    const material = old.context.current;
    assert.ok(material);
    const capped = { secureContext: tls.createSecureContext({ ...material.options, maxVersion: 'TLSv1.2' }) };
    assert.ok(await isServed(target, old, capped));
    to.settings.set(readTlsSettings({ minTLSVersion: 'VersionTLS13' }));
    assert.equal(await isServed(target, old, capped), false);
    to.settings.set(readTlsSettings({ ciphers: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'] }));
    const answer = await say(target, old, capped);
    assert.ok('said' in answer, JSON.stringify(answer));
    assert.equal(answer.socket.getCipher().name, 'ECDHE-ECDSA-AES256-GCM-SHA384');
    const narrow = { ...material.options, maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' } as const;
    assert.equal(await isServed(target, old, { secureContext: tls.createSecureContext(narrow) }), false);
  });

  test('all clients share one context until something changes, and no session is resumed', async () => {
    const from = clientSide();
    const target = await echo(serverSide());
    const { secureContext } = from.context;
    for (let turn = 0; turn < 3; turn++) {
      const answer = await say(target, from);
      assert.ok('said' in answer);
      assert.equal(answer.socket.isSessionReused(), false);
      assert.equal(from.context.connectOptions(toAgents)?.secureContext, secureContext);
    }
    from.use(await authority.issue());
    assert.notEqual(from.context.connectOptions(toAgents)?.secureContext, secureContext);
  });

  test('a server that was closed follows nothing any more, and neither does a context that was stopped', async () => {
    const side = serverSide();
    const target = await new Echo(side).listen();
    let reloads = 0;
    target.server.setSecureContext = () => {
      reloads++;
    };
    side.use(await authority.issue(serverLeaf));
    assert.equal(reloads, 1);
    target.server.close();
    await once(target.server, 'close');
    side.use(await authority.issue(serverLeaf));
    assert.equal(reloads, 1);
    const last = side.context.current;
    side.context.stop();
    side.use(await authority.issue(serverLeaf));
    assert.equal(side.context.current, last);
  });

  test('an https client on the context reaches an https server on another, and refuses a misnamed one', async () => {
    for (const [commonName, expected] of [
      [serverCommonName, 'hello'],
      ['kubevirt.io:system:node:other', 'COMMON_NAME'],
    ] as const) {
      const side = serverSide(await authority.issue({ ...serverLeaf, commonName }));
      const server = createTlsServer(
        { clients: fromAgents, handshakeTimeoutMs: 5_000, protocols: ['http/1.1'] },
        {
          context: side.context,
          create: (options) => https.createServer(options, (_request, response) => response.end('hello')),
          refusals: new RefusalLog({ log: silentLogger, clock: systemClock }),
        },
      );
      await once(server.listen(0, '127.0.0.1'), 'listening');
      undo.push(() => server.close());
      const { port } = server.address() as AddressInfo;
      const options = clientSide().context.connectOptions(toAgents);
      const answer = await new Promise<string>((resolve) => {
        https
          .get({ host: '127.0.0.1', port, agent: false, ...options }, (response) =>
            response.once('data', (data) => resolve(String(data))),
          )
          .once('error', (error) => resolve(errorCode(error) ?? error.message));
      });
      assert.equal(answer, expected);
    }
  });
});
