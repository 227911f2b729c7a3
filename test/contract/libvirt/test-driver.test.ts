import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DomainState, isLibvirtError, LibvirtClient, type LibvirtEvent } from '../../../src/libvirt/index.ts';
import { stays } from '../../fixtures/eventually.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';

const testUuid = '6695eb01-f6a4-8304-79aa-97f2502e193f';
let daemon: PrivateLibvirtd;
let client: LibvirtClient;

before(async () => {
  daemon = await PrivateLibvirtd.start();
  client = await LibvirtClient.connect({ socketPath: daemon.socketPath, uri: 'test:///default' });
});

after(async () => {
  await client?.close();
  await daemon?.remove();
});

async function testDomain() {
  const domain = await client.lookupDomainByName('test');
  assert.ok(domain);
  return domain;
}

test('the connection says what it is', async () => {
  assert.match(String(await client.getLibVersion()), /^\d{7,8}$/);
  assert.equal(await client.getVersion(), 2);
  assert.equal((await client.getType()).toLowerCase(), 'test');
  assert.equal(await client.getUri(), 'test:///default');
  assert.notEqual(await client.getHostname(), '');
  assert.match(await client.getCapabilities(), /^<capabilities>/);
  const node = await client.getNodeInfo();
  assert.equal(node.model, 'i686');
  assert.equal(node.cpus, node.nodes * node.sockets * node.cores * node.threads);
});

test('a domain is found by name, uuid and id, and an unknown one is undefined', async () => {
  const domain = await testDomain();
  assert.deepEqual({ ...domain, id: 1 }, { name: 'test', uuid: testUuid, id: 1 });
  assert.deepEqual(await client.lookupDomainByUuid(testUuid), domain);
  assert.deepEqual(await client.lookupDomainById(domain.id), domain);
  assert.deepEqual(await client.listAllDomains(), [domain]);
  assert.equal(await client.lookupDomainByName('no-such-domain'), undefined);
  assert.equal(await client.lookupDomainByUuid('00000000-0000-4000-8000-000000000000'), undefined);
  assert.equal(await client.lookupDomainById(4711), undefined);
});

test('suspend and resume change the state and give events in order', async () => {
  const domain = await testDomain();
  const seen: string[] = [];
  const unsubscribe = await client.subscribe('lifecycle', ({ event, detail, domain: { name } }) => {
    seen.push(`${name} ${event}/${detail}`);
  });
  await client.suspend(domain);
  assert.deepEqual(await client.getState(domain), { state: DomainState.PAUSED, reason: 1 });
  await client.resume(domain);
  assert.deepEqual(await client.getState(domain), { state: DomainState.RUNNING, reason: 5 });
  await client.getState(domain);
  assert.deepEqual(seen, ['test 3/0', 'test 4/0']);
  await unsubscribe();
  await client.suspend(domain);
  await client.resume(domain);
  assert.equal(seen.length, 2);
});

test('several subscribers of one kind share a registration, and each gets every event', async () => {
  const domain = await testDomain();
  const events: [string, LibvirtEvent<'lifecycle'>][] = [];
  const unsubscribers = await Promise.all(
    ['a', 'b'].map((name) => client.subscribe('lifecycle', (event) => events.push([name, event]))),
  );
  const mine = await client.subscribe('lifecycle', (event) => events.push(['domain', event]), { domain });
  await client.suspend(domain);
  await client.resume(domain);
  await client.getState(domain);
  assert.deepEqual(events.map(([name, { event }]) => `${name}${event}`).sort(), [
    'a3',
    'a4',
    'b3',
    'b4',
    'domain3',
    'domain4',
  ]);
  for (const unsubscribe of [...unsubscribers, mine]) await unsubscribe();
  const again = await client.subscribe('lifecycle', () => undefined);
  await again();
});

test('a domain can be defined, started, described, given metadata, stopped and undefined', async () => {
  const xml = `<domain type='test'><name>täst</name><memory unit='KiB'>65536</memory><vcpu>2</vcpu><os><type>hvm</type></os></domain>`;
  const domain = await client.defineXml(xml);
  assert.equal(domain.name, 'täst');
  assert.equal(domain.id, -1);
  const started = await client.createDomain(domain);
  assert.ok(started.id > 0);
  assert.match(await client.getXmlDesc(started), /<name>täst<\/name>/);
  const info = await client.getInfo(started);
  assert.equal(info.state, DomainState.RUNNING);
  assert.equal(info.maxMemoryKiB, 65_536n);
  assert.equal(await client.isPersistent(started), true);
  assert.equal(await client.getMetadata(started, 1), undefined);
  await client.setMetadata(started, { type: 1, metadata: 'a title' }, 1);
  assert.equal(await client.getMetadata(started, 1), 'a title');
  await client.destroy(started);
  await assert.rejects(client.destroy(started), (error) => isLibvirtError(error, 'OPERATION_INVALID'));
  await client.undefine(started);
  await assert.rejects(client.getState(started), (error) => isLibvirtError(error, 'NO_DOMAIN'));
});

test('statistics come as typed parameters', async () => {
  const records = await client.getAllDomainStats(1 + 2 + 8);
  const record = records.find(({ domain }) => domain.name === 'test');
  assert.equal(record?.params.get('state.state'), DomainState.RUNNING);
  assert.equal(typeof record?.params.get('state.reason'), 'number');
});

test('a screenshot of the test driver is a whole PNG', async () => {
  const { mime, data } = await client.screenshot(await testDomain());
  assert.equal(mime, 'image/png');
  assert.equal(data.subarray(0, 8).toString('hex'), '89504e470d0a1a0a');
  assert.equal(data.subarray(-8, -4).toString('latin1'), 'IEND');
  await assert.rejects(client.screenshot(await testDomain(), 0, { maxBytes: 100 }), (error) =>
    isLibvirtError(error, 'STREAM_TOO_LONG'),
  );
  assert.equal((await client.screenshot(await testDomain())).data.length, data.length);
});

test('what the driver cannot do is NO_SUPPORT, and the connection stays usable', async () => {
  const domain = await testDomain();
  await assert.rejects(client.abortJob(domain), (error) => isLibvirtError(error, 'NO_SUPPORT'));
  await assert.rejects(client.agentCommand(domain, '{"execute":"guest-ping"}'), (error) =>
    isLibvirtError(error, 'NO_SUPPORT'),
  );
  assert.equal(await client.getUri(), 'test:///default');
});

test('two hundred calls at once are all answered, each with its own answer', async () => {
  const domain = await testDomain();
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) => (i % 2 ? client.getHostname() : client.getInfo(domain))),
  );
  assert.ok(answers.every((answer, i) => typeof answer === (i % 2 ? 'string' : 'object')));
});

test('an unknown URI is refused with the error of libvirt', async () => {
  await assert.rejects(
    LibvirtClient.connect({ socketPath: daemon.socketPath, uri: 'nosuch:///x' }),
    (error) => isLibvirtError(error) && error.libvirtCode > 0 && error.message !== '',
  );
});

test('a socket that is not there is CONNECT_FAILED and names the path', async () => {
  const socketPath = `${daemon.directory}/none`;
  await assert.rejects(
    LibvirtClient.connect({ socketPath, uri: 'test:///default' }),
    (error) => isLibvirtError(error, 'CONNECT_FAILED') && error.message.includes(socketPath),
  );
});

test('the daemon pings a silent client, and the client answers', async () => {
  const quick = await PrivateLibvirtd.start({ conf: 'keepalive_interval = 1\nkeepalive_count = 1' });
  try {
    const keepalive = { intervalMs: 60_000, count: 1 };
    const silent = await LibvirtClient.connect({ socketPath: quick.socketPath, uri: 'test:///default', keepalive });
    let isClosed = false;
    void silent.closed.then(() => {
      isClosed = true;
    });
    await stays(() => assert.equal(isClosed, false), 4_000);
    await silent.close();
  } finally {
    await quick.remove();
  }
});

test('a daemon that wants SASL for its socket is refused with advice', async () => {
  const strict = await PrivateLibvirtd.start({ conf: 'auth_unix_rw = "sasl"' });
  try {
    await assert.rejects(
      LibvirtClient.connect({ socketPath: strict.socketPath, uri: 'test:///default' }),
      (error) => isLibvirtError(error, 'AUTH_REFUSED') && error.message.includes('auth_unix_rw'),
    );
  } finally {
    await strict.remove();
  }
});
