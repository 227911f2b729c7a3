import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { attack, localUser } from '../fixtures/attacker.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import { eventually } from '../fixtures/eventually.ts';
import { type Listener, listenersOf } from '../fixtures/listeners.ts';
import { NodeProcess } from '../fixtures/node-process.ts';
import { tlsRequest } from '../fixtures/tls-request.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const guest = '/v1/namespaces/default/virtualmachineinstances/none/guestosinfo';

interface Knock {
  readonly port: number;
  readonly path: string;
  readonly tls: boolean;
  readonly status?: number;
  readonly body?: string;
  readonly error?: string;
}
type Crowd = Readonly<Record<string, { readonly opened: number; readonly ended: number; readonly refused: number }>>;

describe('attacks on every port that a running node listens on', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let listeners: Listener[];
  let dnsPorts: number[];
  /** At the bridge's addresses alone; what reaches it is shown with real pods. */
  const isDns = ({ command }: Listener) => command.startsWith('dnsmasq ');
  const ports = () => listeners.map(({ port }) => port);
  const portsOf = async (program: 'apiserver' | 'virt-handler') => {
    const running = await node.pidOf(program);
    return listeners.filter(({ pid }) => pid === running).map(({ port }) => port);
  };
  const address = async () => new URL((await readFile(node.paths.webAddress, 'utf8')).trim());
  const token = async () => (await address()).hash.slice('#token='.length);
  const pagePort = async () => Number((await address()).port);
  /** On a connection of its own. */
  const ask = async (path: string, secret: string, port?: number) =>
    fetch(`http://127.0.0.1:${port ?? (await pagePort())}${path}`, {
      headers: { authorization: `Bearer ${secret}`, connection: 'close' },
      signal: AbortSignal.timeout(10_000),
    });

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    // The agent listens when it has its certificates, a moment after the node is up.
    await eventually(async () => {
      const all = await listenersOf(node.pid);
      dnsPorts = all.filter(isDns).map(({ port }) => port);
      listeners = all.filter((each) => !isDns(each));
      assert.ok((await portsOf('virt-handler')).length >= 2, 'metrics and consoles');
    });
  });
  after(() => node?.dispose());

  test('there are the ports of page, API, agent and uploads of disks, and no others', async () => {
    assert.ok(dnsPorts.every((port) => port === 53));
    const reported = listeners.map(({ port, command }) => `${port} ${command}`).join('\n');
    const [page, api, agent] = [[await pagePort()], await portsOf('apiserver'), await portsOf('virt-handler')];
    assert.equal(api.length, 1, reported);
    assert.ok(agent.length >= 2, reported);
    // The page has its port at both loopback addresses, where the machine has two.
    const address = 'jsonpath={.status.uploadProxyURL}';
    const uploads = new URL(await node.kubectl('get', 'cdiconfigs', 'config', '-o', address));
    const known = [...page, ...api, ...agent, Number(uploads.port)];
    assert.deepEqual([...new Set(ports())].sort(), [...new Set(known)].sort(), reported);
  });

  test('without a certificate or token, and with those of a stranger, no port gives anything but that it is alive', async () => {
    const foreign = await TestAuthority.make();
    const { cert, key } = await foreign.issue();
    await foreign.remove();
    const paths = [
      '/api/vms',
      '/api/state',
      guest,
      '/api/v1/secrets',
      '/apis/kubevirt.io/v1/virtualmachines',
      '/metrics',
    ];
    const stranger = { authorization: `Bearer ${'A'.repeat(32)}` };
    const inputs = [{}, { cert, key }, { headers: stranger }];
    const answers: Knock[] = [];
    for (const input of inputs) {
      answers.push(...(await attack<Knock[]>('knock', localUser, { ports: ports(), paths, ...input })));
    }
    assert.equal(answers.length, inputs.length * ports().length * paths.length * 2);
    const given = answers.filter(({ status }) => status !== undefined && status < 400);
    // Figures are for whoever asks, as upstream's are.
    assert.deepEqual([...new Set(given.map(({ path }) => path))], ['/metrics']);
    const agent = await portsOf('virt-handler');
    assert.ok(given.every(({ port }) => agent.includes(port)));
    // The agent's console server does not even finish its handshake.
    assert.ok(answers.some(({ tls, path, error }) => tls && path === guest && error !== undefined));
  });

  test('a crowd of silent, slow and broken connections on every port keeps no honest client out', async () => {
    const many = 900;
    const secret = await token();
    const crowd = attack<Crowd>('crowd', localUser, { ports: ports(), many, seconds: 15 });
    let isOver = false;
    void crowd.finally(() => {
      isOver = true;
    });
    await eventually(async () => assert.ok((await connectionsTo(await pagePort())) > 100));
    let rounds = 0;
    while (!isOver) {
      assert.equal((await ask('/api/vms', secret)).status, 200);
      assert.equal((await ask(guest, secret)).status, 404, 'the agent answers that it knows no such VM');
      assert.match(await node.kubectl('get', 'vmi', '-o', 'name'), /^\s*$/);
      assert.ok(await isAlive(await portsOf('virt-handler')));
      rounds++;
    }
    const reported = await crowd;
    for (const port of ports()) {
      assert.ok((reported[port]?.opened ?? 0) >= many / 2, `port ${port}: ${JSON.stringify(reported)}`);
      assert.equal(reported[port]?.refused, 0, `port ${port} is still open`);
    }
    assert.ok(rounds >= 2, `${rounds}`);
    const now = new Set((await listenersOf(node.pid)).map(({ pid, port }) => `${pid} ${port}`));
    for (const { pid, port } of listeners) assert.ok(now.has(`${pid} ${port}`), 'no program was started again');
  });

  test('who sits on the port of the page while the node is away gets nothing that the node takes when it is back', async () => {
    const port = await pagePort();
    const old = await token();
    const made = await fetch(`http://127.0.0.1:${port}/api/session`, {
      method: 'POST',
      headers: { authorization: `Bearer ${old}` },
    });
    const { key } = (await made.json()) as { key: string };
    assert.equal((await ask('/api/vms', key)).status, 200);
    await node.end('SIGTERM');
    const targets = { ports: [port, port + 1], afterMs: 25_000, addressFile: node.paths.webAddress };
    const squatting = attack<{ loot: string[]; statuses: unknown[]; url: string }>('squatter', localUser, {
      ...{ port, requests: 2, targets },
    });
    // What an open page and an old bookmark still send.
    await eventually(async () => assert.equal((await ask('/api/vms/events', key, port)).status, 200));
    await fetch(`http://127.0.0.1:${port}/?token=${old}`, { headers: { connection: 'close' } });
    await node.start();
    assert.equal(await pagePort(), port + 1);
    assert.match(
      node.output,
      new RegExp(`WARNING: port ${port} of the web page is held by .* number ${localUser.uid}`),
    );
    const { loot, statuses, url } = await squatting;
    assert.ok(loot.includes(old) && loot.includes(key), 'it was sent what there was');
    assert.ok(statuses.includes(401));
    assert.ok(
      statuses.every((status) => status === 401 || status === 'ECONNREFUSED'),
      JSON.stringify(statuses),
    );
    assert.match(url, /^(?:EACCES|ENOENT)$/);
    assert.equal((await ask('/api/vms', await token())).status, 200);
  });
});

/** Established, whoever holds them. */
async function connectionsTo(port: number): Promise<number> {
  const hex = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = (await readFile('/proc/net/tcp', 'latin1')).split('\n').map((line) => line.trim().split(/\s+/));
  return rows.filter(([, local, , state]) => local?.endsWith(hex) && state === '01').length;
}

/** The kubelet's probe: one of the agent's ports answers whoever asks. */
async function isAlive(ports: readonly number[]): Promise<boolean> {
  for (const port of ports) {
    const tls = { rejectUnauthorized: false };
    const answer = await tlsRequest({ port, client: undefined, ca: '', path: '/healthz', tls });
    if ('status' in answer && answer.status < 500) return true;
  }
  return false;
}
