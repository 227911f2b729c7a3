import assert from 'node:assert/strict';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { MediatedDevices } from '../../../../src/agent/node/devices/index.ts';
import type { Node } from '../../../../src/agent/node/ports.ts';
import { createLogger } from '../../../../src/base/index.ts';
import { FakeSettings } from '../../../fixtures/agent/fake-settings.ts';
import { DeviceMachine } from '../../../fixtures/device-machine.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { MediatedKernel } from '../../../fixtures/mediated-kernel.ts';

let machine: DeviceMachine;
let kernel: MediatedKernel;
let settings: FakeSettings;
let clock: FakeClock;
let node: Node | undefined;
let nodeChanged: () => void;
let devices: MediatedDevices;
let reported: string[];

beforeEach(() => {
  machine = new DeviceMachine();
  kernel = new MediatedKernel(machine);
  settings = new FakeSettings();
  settings.origin = { from: 'object', asOf: new Date(0), resourceVersion: '7' };
  clock = new FakeClock();
  node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', labels: { pool: 'gpu' } } };
  reported = [];
  for (const directory of ['pods', 'proc/1/fd']) mkdirSync(path.join(machine.root, directory), { recursive: true });
  devices = agentOf();
});
afterEach(async () => {
  await devices.stop();
  kernel.close();
  machine.remove();
});

const logFile = () => path.join(machine.root, 'log');

function agentOf(): MediatedDevices {
  const { sysDir, pluginsDir, root } = machine;
  const [podsDir, procDir] = [path.join(root, 'pods'), path.join(root, 'proc')];
  const own = {
    get current() {
      return node;
    },
    onChange: (listener: () => void) => {
      nodeChanged = listener;
      return () => undefined;
    },
  };
  return new MediatedDevices(
    { nodeName: 'node1', sysDir, pluginsDir, podsDir, procDir },
    {
      ...{ settings, node: own, clock, log: createLogger({ component: 'test', file: logFile() }) },
      recordEvent: (type, reason, message) => reported.push(`${type} ${reason}: ${message}`),
    },
  );
}

/** `mediatedDevicesConfiguration` of the KubeVirt object. */
const configure = (mediatedDevicesConfiguration: unknown, permittedHostDevices?: unknown) =>
  settings.setNode({ mediatedDevicesConfiguration, permittedHostDevices });
const ask = (...mediatedDeviceTypes: unknown[]) => configure({ mediatedDeviceTypes });

const directoryOf = (parent: string) => path.join(machine.sysDir, 'devices/pci0000:00', parent);
const uuids = (parent: string) => readdirSync(directoryOf(parent)).filter((name) => /^[0-9a-f-]{36}$/.test(name));
const countOn = (parent: string, count: number) => eventually(() => assert.equal(uuids(parent).length, count), 30_000);
/** While minutes pass: this kernel is not as quick as a real one, whose writers wait for it. */
const becomes = (parent: string, ...types: string[]) =>
  eventually(async () => {
    await clock.pass(60_000);
    assert.deepEqual(typesOn(parent), types);
  }, 30_000);
const typesOn = (parent: string) =>
  uuids(parent).map((uuid) => path.basename(readlinkSync(path.join(directoryOf(parent), uuid, 'mdev_type'))));
const twice = ['nvidia-223', 'nvidia-223'];
const fourTimes = ['nvidia-222', 'nvidia-222', 'nvidia-222', 'nvidia-222'];
const reportedReasons = () => reported.map((each) => each.split(':', 1)[0]);

/** The kubelet's own file, in its own format. */
function given(pod: string, ...ids: string[]): void {
  const entry = { PodUID: pod, ContainerName: 'compute', ResourceName: 'example.com/gpu', DeviceIDs: { '0': ids } };
  const content = { Data: { PodDeviceEntries: [entry], RegisteredDevices: {} }, Checksum: 1 };
  writeFileSync(path.join(machine.pluginsDir, 'kubelet_internal_checkpoint'), JSON.stringify(content));
}

const t4 = [
  { id: 'nvidia-222', typeName: 'GRID T4-1Q', instances: 4 },
  { id: 'nvidia-223', typeName: 'GRID T4-2Q', instances: 2 },
];

describe('mediated devices', () => {
  it('are made of a type that is asked for by name or by id, as many as the card has', async () => {
    kernel.addCard('0000:65:00.0', t4);
    ask('GRID T4-1Q');
    await devices.start();
    await countOn('0000:65:00.0', 4);
    const words = 'Normal MediatedDevicesCreated: made 4 of 4 devices of type nvidia-222 on 0000:65:00.0';
    await eventually(() => assert.deepEqual(reported, [words]));
    for (const uuid of uuids('0000:65:00.0'))
      assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-\d{12}$/);
    assert.equal(kernel.refused, 0);
  });

  it('are made by turns where several types are asked for: one type per card', async () => {
    for (const card of ['0000:01:00.0', '0000:02:00.0', '0000:03:00.0']) kernel.addCard(card, t4);
    ask('nvidia-223', 'nvidia-222');
    await devices.start();
    await countOn('0000:01:00.0', 2);
    await countOn('0000:02:00.0', 4);
    await countOn('0000:03:00.0', 2);
  });

  it('stay as they are for the next agent, and a card that has some is not divided again', async () => {
    kernel.addCard('0000:65:00.0', t4);
    kernel.addCard('0000:66:00.0', t4);
    kernel.create('0000:66:00.0', 'nvidia-222', '11111111-2222-3333-4444-555555555555');
    ask('nvidia-222');
    await devices.start();
    await countOn('0000:65:00.0', 4);
    await eventually(() => assert.equal(reported.length, 1));
    const before = uuids('0000:65:00.0');
    await devices.stop();
    devices = agentOf();
    await devices.start();
    await clock.pass(300_000);
    assert.deepEqual(uuids('0000:65:00.0'), before);
    assert.equal(uuids('0000:66:00.0').length, 1);
    assert.equal(reported.length, 1);
  });

  it('follow the labels of the node, in the older spelling, too', async () => {
    kernel.addCard('0000:65:00.0', t4);
    configure({
      mediatedDevicesTypes: ['nvidia-222'],
      nodeMediatedDeviceTypes: [
        { nodeSelector: { pool: 'gpu' }, mediatedDevicesTypes: ['nvidia-223'] },
        { nodeSelector: { pool: 'cpu' }, mediatedDeviceTypes: ['nvidia-999'] },
      ],
    });
    await devices.start();
    await countOn('0000:65:00.0', 2);
    node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', labels: { pool: 'others' } } };
    nodeChanged();
    await becomes('0000:65:00.0', ...fourTimes);
  });

  it('wait for the labels where they matter', async () => {
    kernel.addCard('0000:65:00.0', t4);
    node = undefined;
    configure({ nodeMediatedDeviceTypes: [{ nodeSelector: {}, mediatedDeviceTypes: ['nvidia-222'] }] });
    await devices.start();
    await clock.pass(60_000);
    assert.deepEqual(uuids('0000:65:00.0'), []);
    node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } };
    nodeChanged();
    await countOn('0000:65:00.0', 4);
  });

  it('of a driver that comes later are made when it is there', async () => {
    ask('nvidia-222');
    await devices.start();
    // The time until the next look begins when the first one has ended: then its timer waits.
    await eventually(() => assert.equal(clock.timers, 1));
    kernel.addCard('0000:65:00.0', t4);
    await clock.pass(299_999);
    assert.equal(clock.timers, 1, 'no look before its time');
    assert.deepEqual(uuids('0000:65:00.0'), []);
    await clock.pass(1);
    await countOn('0000:65:00.0', 4);
  });

  it('that a driver refuses are told once, and another type that is asked for takes their place', async () => {
    kernel.addCard('0000:65:00.0', [{ ...t4[0], id: 'nvidia-1', instances: 2, isBroken: true }, ...t4.slice(1)]);
    ask('nvidia-1');
    await devices.start();
    await eventually(() => assert.deepEqual(reportedReasons(), ['Warning MediatedDevicesNotCreated']));
    assert.match(reported[0] ?? '', /0 of 2 devices of type nvidia-1 on 0000:65:00.0 were made: ENOSPC/);
    await clock.pass(180_000);
    assert.equal(reported.length, 1);
    ask('nvidia-1', 'nvidia-223');
    await countOn('0000:65:00.0', 2);
  });

  it('are left alone where the configuration switches that off, or cannot be read', async () => {
    kernel.addCard('0000:65:00.0', t4);
    await devices.start();
    configure({ enabled: false, mediatedDeviceTypes: ['nvidia-222'] });
    await clock.pass(60_000);
    configure({ mediatedDeviceTypes: 'nvidia-222' });
    await clock.pass(60_000);
    configure(['nvidia-222']);
    await clock.pass(60_000);
    settings.isKnown = false;
    ask('nvidia-222');
    await clock.pass(60_000);
    assert.deepEqual(uuids('0000:65:00.0'), []);
    settings.isKnown = true;
    await clock.pass(60_000);
    await countOn('0000:65:00.0', 4);
  });

  it('of which some entries cannot be used are made of the others, which is told', async () => {
    kernel.addCard('0000:65:00.0', t4);
    configure({
      mediatedDeviceTypes: [7, '../../escape', 'nvidia-223'],
      nodeMediatedDeviceTypes: [{ nodeSelector: ['pool'], mediatedDeviceTypes: ['nvidia-222'] }],
    });
    await devices.start();
    await countOn('0000:65:00.0', 2);
    assert.match(reported[0] ?? '', /Warning MediatedDevicesNotUnderstood: .*no map of texts.*left out/);
  });

  it('are not made on a machine without kubelet', async () => {
    kernel.addCard('0000:65:00.0', t4);
    rmSync(machine.pluginsDir, { recursive: true });
    ask('nvidia-222');
    await devices.start();
    await clock.pass(60_000);
    assert.deepEqual(uuids('0000:65:00.0'), []);
  });
});

describe('mediated devices that are not asked for any more', () => {
  const card = '0000:65:00.0';
  const others = '11111111-2222-3333-4444-555555555555';

  it('go when nobody uses them, and the card is divided anew', async () => {
    kernel.addCard(card, t4);
    ask('nvidia-222');
    await devices.start();
    await countOn(card, 4);
    ask('nvidia-223');
    await becomes(card, ...twice);
    configure(undefined);
    await becomes(card);
  });

  it('stay while a pod was given one of them, and go when the pod is gone', async () => {
    kernel.addCard(card, t4);
    ask('nvidia-223');
    await devices.start();
    await countOn(card, 2);
    mkdirSync(path.join(machine.root, 'pods/uid-1'));
    given('uid-1', '100');
    ask('nvidia-222');
    await countOn(card, 1);
    await eventually(() => assert.equal(reportedReasons().at(-1), 'Warning MediatedDevicesInUse'));
    assert.match(reported.at(-1) ?? '', /is in use: it goes when its VM has ended/);
    await clock.pass(120_000);
    assert.equal(uuids(card).length, 1);
    rmSync(path.join(machine.root, 'pods/uid-1'), { recursive: true });
    await becomes(card, ...fourTimes);
  });

  for (const open of ['/dev/vfio/101', '/dev/vfio/101 (deleted)']) {
    it(`stay while a process has one of them open: ${open}`, async () => {
      kernel.addCard(card, t4);
      ask('nvidia-223');
      await devices.start();
      await countOn(card, 2);
      symlinkSync(open, path.join(machine.root, 'proc/1/fd/17'));
      ask('nvidia-222');
      await countOn(card, 1);
      rmSync(path.join(machine.root, 'proc/1/fd/17'));
      await becomes(card, ...fourTimes);
    });
  }

  it('all stay while it cannot be known who uses them', async () => {
    kernel.addCard(card, t4);
    ask('nvidia-223');
    await devices.start();
    await countOn(card, 2);
    const checkpoint = path.join(machine.pluginsDir, 'kubelet_internal_checkpoint');
    const cannotBeKnown = async (content: string, why: RegExp) => {
      ask('nvidia-222', `other-${content.length}`);
      await eventually(async () => {
        await clock.pass(60_000);
        assert.match(reported.at(-1) ?? '', why);
      });
      assert.equal(uuids(card).length, 2, content);
    };
    for (const content of ['{"Data":{"PodDevi', '{"Data":7}', '{"Data":{"PodDeviceEntries":[{"PodUID":"../x"}]}}']) {
      writeFileSync(checkpoint, content);
      await cannotBeKnown(content, /InUse: none is removed, as it cannot be known/);
    }
    given('uid-1', '100');
    rmSync(path.join(machine.root, 'pods'), { recursive: true });
    await cannotBeKnown('no pods', /pods is not there/);
    rmSync(checkpoint);
    await becomes(card, ...fourTimes);
  });

  it('stay when they are of a type that somebody else provides', async () => {
    kernel.addCard(card, t4);
    kernel.addCard('0000:66:00.0', t4);
    kernel.create(card, 'nvidia-222', others);
    const external = { mdevNameSelector: 'GRID T4-1Q', resourceName: 'example.com/t4', externalResourceProvider: true };
    configure({ mediatedDeviceTypes: ['nvidia-223'] }, { mediatedDevices: [external] });
    await devices.start();
    await countOn('0000:66:00.0', 2);
    assert.deepEqual(uuids(card), [others]);
  });

  it('stay while the configuration is only half understood', async () => {
    kernel.addCard(card, t4);
    ask('nvidia-223');
    await devices.start();
    await countOn(card, 2);
    for (const broken of ['nvidia-222', { mediatedDeviceTypes: 'nvidia-222' }, { mediatedDeviceTypes: ['a/b'] }]) {
      configure(broken);
      await eventually(() => assert.match(reported.at(-1) ?? '', /MediatedDevicesNotUnderstood/));
      await clock.pass(600_000);
      assert.deepEqual(typesOn(card), twice);
      reported.push('');
    }
    configure(undefined);
    await becomes(card);
  });

  it('and that an administrator made go only where types are asked for', async () => {
    kernel.addCard(card, t4);
    kernel.create(card, 'nvidia-222', others);
    await devices.start();
    await clock.pass(600_000);
    assert.deepEqual(uuids(card), [others]);
    ask('nvidia-223');
    await eventually(() => assert.equal(uuids(card).includes(others), false));
  });

  it('stay until the KubeVirt object itself was read: what an earlier agent kept may be older than they', async () => {
    for (const each of [card, '0000:66:00.0']) kernel.addCard(each, t4);
    kernel.create(card, 'nvidia-222', others);
    const { origin } = settings;
    settings.origin = { from: 'kept', asOf: new Date(0), resourceVersion: '6' };
    ask('nvidia-223');
    await devices.start();
    await countOn('0000:66:00.0', 2);
    assert.deepEqual(uuids(card), [others]);
    settings.origin = origin;
    await becomes(card, ...twice);
  });

  it('stay when one comes into use while the kernel takes its time over another', async () => {
    kernel.addCard(card, t4);
    const [first, second] = [others, others.replaceAll('1', '2')];
    for (const uuid of [first, second]) kernel.create(card, 'nvidia-222', uuid);
    const letGo = kernel.holdRemoval(first);
    ask('nvidia-223');
    await devices.start();
    await eventually(async () => {
      await clock.pass(10_000);
      assert.match(readFileSync(logFile(), 'utf8'), /the kernel takes long over a mediated device/);
    });
    symlinkSync('/dev/vfio/101', path.join(machine.root, 'proc/1/fd/17'));
    letGo();
    await eventually(() => assert.match(reported.at(-1) ?? '', /MediatedDevicesInUse/));
    assert.match(reported.at(-1) ?? '', new RegExp(`${second} of type .* is in use`));
    assert.equal(uuids(card).includes(second), true);
  });

  it('stay while a pod was given one and has no directory yet', async () => {
    kernel.addCard(card, t4);
    kernel.create(card, 'nvidia-222', others);
    given('uid-1', '100');
    const checkpoint = path.join(machine.pluginsDir, 'kubelet_internal_checkpoint');
    utimesSync(checkpoint, clock.now(), clock.now());
    ask('nvidia-223');
    await devices.start();
    await eventually(() => assert.match(reported.at(-1) ?? '', /MediatedDevicesInUse/));
    await clock.pass(300_000);
    assert.deepEqual(uuids(card), [others]);
    await becomes(card, ...twice);
  });

  it('stay when the agent leaves right after it began to look at them', async () => {
    kernel.addCard(card, t4);
    kernel.create(card, 'nvidia-222', others);
    const letGo = kernel.holdRemoval(others);
    ask('nvidia-223');
    await devices.start();
    let isHeld = false;
    const cancel = setTimeout(() => {
      isHeld = true;
      letGo();
    }, 10_000);
    await devices.stop();
    clearTimeout(cancel);
    assert.equal(isHeld, false);
  });
});
