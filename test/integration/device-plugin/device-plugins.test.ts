import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import {
  type Allocation,
  DevicePluginError,
  DevicePlugins,
  type PluginHandle,
} from '../../../src/device-plugin/index.ts';
import { PathWatch } from '../../../src/host/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { KubeletStandIn } from '../../fixtures/kubelet-stand-in.ts';

const resource = 'devices.example.com/thing';
const socketName = 'example-thing.sock';
/** The kubelet's rule: a plugin is back within a second. The rest is for a machine under load. */
const generousMs = 10_000;

let base: string;
let directory: string;
let watch: PathWatch;
let plugins: DevicePlugins;
let kubelet: KubeletStandIn;

beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'kubelet-'));
  directory = path.join(base, 'device-plugins');
  mkdirSync(directory);
  watch = new PathWatch({}, { clock: systemClock });
  plugins = new DevicePlugins({ directory }, { watch, clock: systemClock, log: silentLogger });
  kubelet = new KubeletStandIn(directory);
});

afterEach(async () => {
  await plugins.stop();
  watch.close();
  await kubelet.close();
  rmSync(base, { recursive: true, force: true });
});

function addPlugin(
  allocate: (ids: readonly string[]) => Promise<Allocation> = async (ids) => ({ envs: { IDS: ids.join(',') } }),
): PluginHandle {
  const handle = plugins.add({ resourceName: resource, socketName, allocate });
  handle.setDevices([
    { id: 'a', isHealthy: true },
    { id: 'b', isHealthy: false, numaNodes: [1] },
  ]);
  return handle;
}

const listed = () => kubelet.devices(resource).map(({ ID, health }) => `${ID} ${health}`);
const isListed = (...wanted: string[]) => eventually(() => assert.deepEqual(listed(), wanted), generousMs);
const inDirectory = () => readdirSync(directory).sort();

describe('a device plugin and its kubelet', () => {
  it('registers with version, socket name and resource, and is asked for its devices', async () => {
    await kubelet.start();
    const handle = addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    assert.deepEqual(
      kubelet.registrations.map(({ version, endpoint, resource_name }) => ({ version, endpoint, resource_name })),
      [{ version: 'v1beta1', endpoint: socketName, resource_name: resource }],
    );
    assert.deepEqual(kubelet.devices(resource)[1]?.topology?.nodes, [{ ID: 1 }]);
    assert.equal(kubelet.devices(resource)[0]?.topology, null);
    await eventually(() => assert.equal(handle.report().state.kind, 'registered'));
    assert.deepEqual(
      { ...handle.report(), state: undefined },
      {
        resourceName: resource,
        state: undefined,
        devices: 2,
        healthy: 1,
        listeners: 1,
      },
    );
  });

  it('is dialled with an escaped path as authority, too, as some Go clients do', async () => {
    kubelet.options.authority = encodeURIComponent(path.join(directory, socketName));
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('sends the whole list again after a change, and nothing when nothing changed', async () => {
    await kubelet.start();
    const handle = addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    handle.setDevices([
      { id: 'a', isHealthy: true },
      { id: 'b', isHealthy: false, numaNodes: [1] },
    ]);
    handle.setDevices([{ id: 'a', isHealthy: false }]);
    await isListed('a Unhealthy');
    assert.equal(kubelet.lists(resource).length, 2);
  });

  it('lists a thousand devices', async () => {
    await kubelet.start();
    const handle = addPlugin();
    handle.setDevices(Array.from({ length: 1000 }, (_, index) => ({ id: `thing${index}`, isHealthy: true })));
    await eventually(() => assert.equal(kubelet.devices(resource).length, 1000), generousMs);
    const [given] = await kubelet.allocate(resource, ['thing999']);
    assert.deepEqual(given?.envs, { IDS: 'thing999' });
  });

  it('answers each container request by itself', async () => {
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    const given = await kubelet.allocate(resource, ['a'], ['b', 'a', 'b']);
    assert.deepEqual(
      given.map(({ envs }) => envs),
      [{ IDS: 'a' }, { IDS: 'b,a' }],
    );
    assert.deepEqual(await kubelet.preStart(resource, ['a']), {});
  });

  it('refuses ids that it never offered, and passes the reason of a device that cannot be given', async () => {
    await kubelet.start();
    addPlugin(() => Promise.reject(new DevicePluginError('DEVICE_UNUSABLE', '/dev/thing is not there')));
    await isListed('a Healthy', 'b Unhealthy');
    await assert.rejects(kubelet.allocate(resource, ['a', 'zz']), { code: 3, details: /"zz"/ });
    await assert.rejects(kubelet.allocate(resource, ['a']), { code: 9, details: '/dev/thing is not there' });
    assert.ok(kubelet.isConnected(resource));
  });

  it('ends with an empty list and takes its socket away', async () => {
    await kubelet.start();
    const handle = addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    const lists = kubelet.lists(resource);
    await handle.remove();
    assert.deepEqual(lists.at(-1), []);
    assert.deepEqual(inDirectory(), ['kubelet.sock']);
    assert.deepEqual(plugins.reports(), []);
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('is not waited for when it keeps its connection after the last list', async () => {
    kubelet.options.keepsConnections = true;
    await kubelet.start();
    const tookMs: number[] = [];
    for (let time = 1; time <= 3; time++) {
      const handle = addPlugin();
      await isListed('a Healthy', 'b Unhealthy');
      const beforeMs = performance.now();
      await handle.remove();
      tookMs.push(performance.now() - beforeMs);
      assert.deepEqual(kubelet.lists(resource).at(-1), []);
    }
    // The grace of one that does not answer is a second.
    assert.ok(Math.min(...tookMs) < 500, `${tookMs.map(Math.round)} ms`);
  });
});

describe('a kubelet that comes and goes', () => {
  it('is waited for when it is absent', async () => {
    const handle = addPlugin();
    await eventually(() => assert.equal(stateOf(handle).code, 'KUBELET_ABSENT'));
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('is waited for when even its directory is absent, which is not made for it', async () => {
    rmSync(directory, { recursive: true });
    const handle = addPlugin();
    assert.equal(plugins.hasKubelet, false);
    await eventually(() => assert.equal(stateOf(handle).code, 'KUBELET_ABSENT'));
    assert.equal(existsSync(directory), false);
    mkdirSync(directory);
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('hears of the plugin within a second after a restart that took all sockets away', async () => {
    await kubelet.start();
    const handle = addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    for (let turn = 2; turn < 5; turn++) {
      kubelet.kill();
      await kubelet.start();
      await isListed('a Healthy', 'b Unhealthy');
      assert.equal(handle.report().healthy, 1);
      assert.equal(kubelet.registrations.length, turn);
    }
  });

  it('hears of it after a restart that left the sockets in place', async () => {
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    kubelet.options.keepsSockets = true;
    kubelet.kill();
    assert.deepEqual(inDirectory(), [socketName, 'kubelet.sock'].sort());
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('hears of it while the one before is still connected', async () => {
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    const next = new KubeletStandIn(directory, { keepsSockets: true });
    await next.start();
    try {
      await eventually(() => assert.equal(next.isConnected(resource), true), generousMs);
      assert.equal(kubelet.isConnected(resource), true);
    } finally {
      await next.close();
    }
  });

  it('hears of it when only the plugin socket was taken away or replaced', async () => {
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    rmSync(path.join(directory, socketName));
    await eventually(() => assert.equal(kubelet.registrations.length, 2), generousMs);
    await isListed('a Healthy', 'b Unhealthy');
    rmSync(path.join(directory, socketName));
    writeFileSync(path.join(directory, socketName), 'not a socket');
    await eventually(() => assert.equal(kubelet.registrations.length, 3), generousMs);
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('is told again when it dropped the stream: it never asks by itself', async () => {
    await kubelet.start();
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    kubelet.hangUp(resource);
    await eventually(() => assert.equal(kubelet.registrations.length, 2), generousMs);
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('is told again when it took the registration and asks for nothing', async () => {
    kubelet.options.isDeaf = true;
    await kubelet.start();
    addPlugin();
    await eventually(() => assert.equal(kubelet.registrations.length, 1), generousMs);
    kubelet.options.isDeaf = false;
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('may refuse: its words are kept, and it is asked again', async () => {
    let isRefusing = true;
    kubelet.options.refuse = () => (isRefusing ? 'the resource name is not to my liking' : undefined);
    await kubelet.start();
    const handle = addPlugin();
    await eventually(() => assert.match(stateOf(handle).reason ?? '', /not to my liking/));
    assert.equal(stateOf(handle).code, 'KUBELET_REFUSED');
    isRefusing = false;
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('one plugin that is refused keeps no other one back', async () => {
    kubelet.options.refuse = ({ resource_name }) => (resource_name === 'example.com/bad' ? 'no' : undefined);
    await kubelet.start();
    plugins.add({ resourceName: 'example.com/bad', socketName: 'bad.sock', allocate: async () => ({}) });
    addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
  });
});

describe('a kubelet socket that is none', () => {
  let server: NetServer | undefined;
  const sockets = new Set<Socket>();
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
    server?.close();
    server = undefined;
  });

  function serve(onConnection: (socket: Socket) => void): Promise<void> {
    server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      onConnection(socket);
    });
    return new Promise((resolve) => server?.listen(kubelet.socketPath, resolve));
  }

  it('is a left-over of a dead one: refused connections are tried again', async () => {
    await kubelet.start();
    kubelet.kill();
    const handle = addPlugin();
    await eventually(() => assert.equal(stateOf(handle).code, 'KUBELET_UNREACHABLE'));
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('is a file', async () => {
    writeFileSync(kubelet.socketPath, '');
    const handle = addPlugin();
    await eventually(() => assert.equal(stateOf(handle).code, 'KUBELET_UNREACHABLE'));
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
  });

  it('answers garbage', async () => {
    await serve((socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nhello'));
    const handle = addPlugin();
    await eventually(() => assert.equal(stateOf(handle).kind, 'waiting'));
  });

  it('takes connections and says nothing: a removal does not wait for it', async () => {
    await serve(() => undefined);
    const handle = addPlugin();
    await eventually(() => assert.equal(sockets.size > 0, true));
    await handle.remove();
    assert.deepEqual(inDirectory(), ['kubelet.sock']);
  });

  it('takes connections and says nothing: a new kubelet is not kept waiting for it', async () => {
    await serve(() => undefined);
    const handle = addPlugin();
    await eventually(() => assert.equal(sockets.size > 0, true));
    await kubelet.start();
    await isListed('a Healthy', 'b Unhealthy');
    await eventually(() => assert.equal(stateOf(handle).kind, 'registered'));
  });
});

describe('socket paths', () => {
  it('may be longer than a socket address: the directory is reached through its descriptor', async () => {
    directory = path.join(base, 'd'.repeat(60), 'e'.repeat(60));
    mkdirSync(directory, { recursive: true });
    await plugins.stop();
    plugins = new DevicePlugins({ directory }, { watch, clock: systemClock, log: silentLogger });
    kubelet = new KubeletStandIn(directory);
    await kubelet.start();
    const handle = addPlugin();
    await isListed('a Healthy', 'b Unhealthy');
    await handle.remove();
    assert.deepEqual(inDirectory(), ['kubelet.sock']);
  });

  it('with a long name get a short one that the kubelet can dial', async () => {
    await kubelet.start();
    const long = `${'long-domain.'.repeat(8)}example.com`;
    for (const name of ['one', 'two']) {
      const spec = { resourceName: `${long}/${name}`, socketName: `kubevirt-${long}-${name}.sock` };
      plugins.add({ ...spec, allocate: async () => ({}) });
    }
    await eventually(() => assert.equal(kubelet.registrations.length, 2), generousMs);
    const names = kubelet.registrations.map(({ endpoint }) => endpoint);
    assert.equal(new Set(names).size, 2);
    assert.deepEqual(
      names.filter((name) => name.length > 75),
      [],
    );
  });
});

function stateOf(handle: PluginHandle): { kind: string; code?: string; reason?: string } {
  return handle.report().state;
}
