import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type Pod,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VolumeStatus,
} from '../../../src/api/index.ts';
import { Cluster, embeddedApi, token } from '../../fixtures/controller/cluster.ts';
import { eventually } from '../../fixtures/eventually.ts';

let cluster: Cluster;
before(async () => {
  cluster = new Cluster(await embeddedApi());
  await cluster.addNode('node1', { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': 'node1' });
  await cluster.startController();
});
after(() => cluster.stop());

const vmis = resources.virtualMachineInstances;

async function createClaim(name: string, volumeMode = 'Block', storage = '1Gi'): Promise<void> {
  const type = resources.persistentVolumeClaims;
  const spec = { accessModes: ['ReadWriteOnce'], volumeMode, resources: { requests: { storage } } };
  await cluster.client.create(type, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'default' },
    spec,
  } as never);
  const status = { phase: 'Bound', capacity: { storage } };
  await cluster.client.patch(type, { name, namespace: 'default' }, { status }, 'merge', { subresource: 'status' });
}

/** What the agent writes while the guest runs. */
async function patchVmi(name: string, body: object): Promise<void> {
  await cluster.client.patch(vmis, { name, namespace: 'default' }, body, 'merge');
}

async function untilRunning(name: string): Promise<VirtualMachineInstance> {
  const { metadata } = await cluster.untilVmi(name, 'there', () => true);
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
  await cluster.runPod(pod);
  await cluster.untilPhase(name, 'Scheduled');
  await patchVmi(name, { status: { phase: 'Running', selinuxContext: 'none' } });
  return cluster.untilPhase(name, 'Running');
}

async function createRunning(name: string): Promise<VirtualMachineInstance> {
  await cluster.client.create<VirtualMachineInstance>(vmis, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: {
      domain: { memory: { guest: '64Mi' }, devices: { disks: [{ name: 'root', disk: { bus: 'virtio' } }] } },
      volumes: [{ name: 'root', containerDisk: { image: 'virt-node/disk' } }],
    },
  });
  return untilRunning(name);
}

async function put(kind: 'virtualmachines' | 'virtualmachineinstances', name: string, action: string, body: unknown) {
  const path = `/apis/subresources.kubevirt.io/v1/namespaces/default/${kind}/${name}/${action}`;
  const answer = await fetch(`${cluster.server}${path}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: body === undefined ? '' : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, message: text === '' ? '' : (JSON.parse(text).message as string) };
}

/** As virtctl sends it. */
const addOptions = (name: string, disk: object = { disk: { bus: 'scsi' }, serial: name }) => ({
  name,
  disk,
  volumeSource: { persistentVolumeClaim: { claimName: name } },
});

async function attachmentPods(): Promise<Pod[]> {
  return (await cluster.client.list<Pod>(resources.pods, { labelSelector: 'kubevirt.io=hotplug-disk' })).items;
}

async function untilAttachment(...volumes: readonly string[]): Promise<Pod> {
  const held = ({ spec }: Pod) =>
    (spec.volumes ?? []).map(({ name }) => name).filter((name) => name !== 'hotplug-disks');
  let found: Pod | undefined;
  await eventually(async () => {
    found = (await attachmentPods()).find((pod) => held(pod).sort().join() === [...volumes].sort().join());
    assert.equal(found?.spec.nodeName, 'node1');
  }, 10_000);
  assert.ok(found);
  return found;
}

async function runAttachment(pod: Pod): Promise<void> {
  const container = { name: 'hotplug-disk', ready: true, restartCount: 0, image: 'x', imageID: 'x' };
  await cluster.setPodStatus(pod, { phase: 'Running', containerStatuses: [container] });
}

const entryOf = ({ status }: VirtualMachineInstance, name: string) =>
  status?.volumeStatus?.find((entry) => entry.name === name);

async function writeEntry(name: string, entry: VolumeStatus): Promise<void> {
  const { status } = await cluster.untilVmi(name, 'there', () => true);
  const others = (status?.volumeStatus ?? []).filter((each) => each.name !== entry.name);
  await patchVmi(name, { status: { volumeStatus: [...others, entry] } });
}

test('a volume is plugged into a VMI and out of it: pods, phases and events as the agent needs them', async () => {
  await createRunning('plain');
  assert.deepEqual(await put('virtualmachineinstances', 'plain', 'addvolume', addOptions('one')), {
    status: 202,
    message: '',
  });
  const waiting = await cluster.untilVmi('plain', 'claim not found', (vmi) => entryOf(vmi, 'one')?.phase === 'Pending');
  assert.equal(entryOf(waiting, 'one')?.message, 'PVC one not found');
  await createClaim('one');
  const pod = await untilAttachment('one');
  assert.deepEqual(pod.spec.containers[0]?.volumeDevices?.[0]?.name, 'one');
  await runAttachment(pod);
  const attached = await cluster.untilVmi('plain', 'attached', (vmi) => {
    return entryOf(vmi, 'one')?.hotplugVolume?.attachPodUID === pod.metadata.uid;
  });
  const entry = entryOf(attached, 'one');
  assert.equal(entry?.phase, 'AttachedToNode');
  assert.equal(entry?.message, `Created hotplug attachment pod ${pod.metadata.name}, for volume one`);
  assert.equal(entry?.persistentVolumeClaimInfo?.volumeMode, 'Block');
  assert.ok(entry);
  await writeEntry('plain', { ...entry, phase: 'Ready', target: 'sda' });

  await createClaim('two');
  assert.equal((await put('virtualmachineinstances', 'plain', 'addvolume', addOptions('two'))).status, 202);
  const both = await untilAttachment('one', 'two');
  assert.ok(
    (await attachmentPods()).some(({ metadata }) => metadata.uid === pod.metadata.uid),
    'the old one waits',
  );
  await runAttachment(both);
  await cluster.untilGone(resources.pods, pod.metadata.name);
  const moved = await cluster.untilVmi('plain', 'on the new pod', (vmi) => {
    return entryOf(vmi, 'one')?.hotplugVolume?.attachPodUID === both.metadata.uid;
  });
  assert.equal(entryOf(moved, 'one')?.phase, 'Ready');

  for (const name of ['one', 'two']) {
    assert.equal((await put('virtualmachineinstances', 'plain', 'removevolume', { name })).status, 202);
  }
  const held = await cluster.untilVmi('plain', 'two leaves', (vmi) => entryOf(vmi, 'two')?.phase !== 'AttachedToNode');
  assert.equal(entryOf(held, 'one')?.phase, 'Ready', 'the guest has it still');
  await eventually(async () => {
    const names = (await attachmentPods()).map(({ metadata }) => metadata.name);
    assert.deepEqual(names, [both.metadata.name], 'the one that the guest still needs');
  }, 10_000);
  const ready = entryOf(held, 'one');
  assert.ok(ready);
  await writeEntry('plain', { ...ready, phase: 'UnMountedFromPod', target: '' });
  await eventually(async () => assert.deepEqual(await attachmentPods(), []), 10_000);
  const done = await cluster.untilVmi('plain', 'no entry', (vmi) => !entryOf(vmi, 'one') && !entryOf(vmi, 'two'));
  assert.deepEqual(
    done.spec.volumes?.map(({ name }) => name),
    ['root'],
  );
  for (const reason of ['SuccessfulCreate', 'SuccessfulDelete']) await cluster.untilEvent('plain', reason);
});

test('a volume of a VM goes into its template, and from there into the running VMI', async () => {
  await createClaim('three');
  await cluster.client.create<VirtualMachine>(resources.virtualMachines, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: 'owned', namespace: 'default' },
    spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  } as VirtualMachine);
  await untilRunning('owned');
  const refused = await put('virtualmachineinstances', 'owned', 'addvolume', addOptions('three'));
  assert.deepEqual(refused, { status: 400, message: 'VMI default/owned is owned by a VM' });
  assert.equal((await put('virtualmachines', 'owned', 'addvolume', addOptions('three'))).status, 202);
  const vm = await cluster.find<VirtualMachine>(resources.virtualMachines, 'owned');
  const source = vm?.spec.template.spec.volumes?.[0];
  assert.deepEqual(source, { name: 'three', persistentVolumeClaim: { claimName: 'three', hotpluggable: true } });
  await cluster.untilVmi('owned', 'three', ({ spec }) => spec.volumes?.[0]?.name === 'three');
  await untilAttachment('three');
  assert.equal((await put('virtualmachines', 'owned', 'removevolume', { name: 'three' })).status, 202);
  await cluster.untilVmi('owned', 'no volume', ({ spec }) => (spec.volumes ?? []).length === 0);
  await eventually(async () => assert.deepEqual(await attachmentPods(), []), 10_000);
});

test('a memory dump of a VM: its claim comes into the guest, goes when the node has written it, and is forgotten when it is taken back', async () => {
  const [vms, name] = [resources.virtualMachines, 'dumped'];
  await cluster.client.create<VirtualMachine>(vms, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  } as VirtualMachine);
  const ask = async (claimName: string) => (await put('virtualmachines', name, 'memorydump', { claimName })).message;
  const untilDump = (phase: string | undefined) =>
    cluster.until<VirtualMachine>(
      vms,
      name,
      `dump ${phase}`,
      ({ status }) => status?.memoryDumpRequest?.phase === phase,
    );
  assert.match(await ask('dump'), /"dumped" not found/);
  await untilRunning(name);
  assert.match(await ask(''), /^Memory dump requires claim name to be set/);
  assert.match(await ask('dump'), /"dump" not found/);
  await createClaim('device');
  assert.match(await ask('device'), /pvc should be filesystem pvc$/);
  await createClaim('small', 'Filesystem', '170Mi');
  assert.match(await ask('small'), /pvc size \[170Mi\] should be bigger then \[174Mi\]$/);
  assert.match((await put('virtualmachines', name, 'removememorydump', undefined)).message, /no association found$/);
  await createClaim('dump', 'Filesystem');
  assert.deepEqual(await put('virtualmachines', name, 'memorydump', { claimName: 'dump' }), {
    status: 202,
    message: '',
  });

  const attached = await untilAttachment('dump');
  const vm = await untilDump('InProgress');
  assert.deepEqual(vm.spec.template.spec.volumes, [
    { name: 'dump', memoryDump: { claimName: 'dump', hotpluggable: true } },
  ]);
  assert.match(await ask('dump'), /already in progress$/);
  assert.match(await ask('other'), /while pvc \[dump\] is still associated/);
  await runAttachment(attached);
  const told = await cluster.untilVmi(name, 'attached', (vmi) => {
    return entryOf(vmi, 'dump')?.hotplugVolume?.attachPodUID === attached.metadata.uid;
  });
  const entry = entryOf(told, 'dump');
  assert.deepEqual(entry?.memoryDumpVolume, { claimName: 'dump' });
  const times = { startTimestamp: '2026-01-02T03:04:05Z', endTimestamp: '2026-01-02T03:05:05Z' };
  const memoryDumpVolume = { claimName: 'dump', targetFileName: 'dumped.memory.dump', ...times };
  await writeEntry(name, { ...entry, phase: 'MemoryDumpCompleted', memoryDumpVolume } as VolumeStatus);

  await cluster.untilVmi(name, 'without the claim', (vmi) => (vmi.spec.volumes ?? []).length === 0);
  await eventually(async () => assert.deepEqual(await attachmentPods(), []), 10_000);
  const { memoryDumpRequest, conditions } = (await untilDump('Completed')).status ?? {};
  assert.deepEqual(memoryDumpRequest, {
    claimName: 'dump',
    phase: 'Completed',
    fileName: 'dumped.memory.dump',
    ...times,
  });
  assert.equal(
    conditions?.some(({ type }) => type === 'RestartRequired'),
    false,
  );

  assert.equal((await put('virtualmachines', name, 'removememorydump', undefined)).status, 202);
  const forgotten = await untilDump(undefined);
  assert.deepEqual(forgotten.spec.template.spec.volumes ?? [], []);
});

const networksKey = 'k8s.v1.cni.cncf.io/networks';
const statusKey = 'k8s.v1.cni.cncf.io/network-status';
const greenLink = 'podba4788b226a';

/** As Multus does with the pod of a VMI. */
async function reportLinks(vmiUid: string, ...links: readonly string[]): Promise<void> {
  const status = JSON.stringify(
    links.map((link) => ({ name: 'default/x', interface: link, default: link === 'eth0' })),
  );
  const pod = await cluster.untilPod(vmiUid, 'there', () => true);
  await cluster.client.patch(
    resources.pods,
    pod.metadata,
    { metadata: { annotations: { [statusKey]: status } } },
    'merge',
  );
}

test('an interface of a VM goes from its template into the running VMI, and its pod is asked for it; out of both, too', async () => {
  const withGreen = (state?: string) => ({
    domain: {
      memory: { guest: '64Mi' },
      devices: {
        interfaces: [
          { name: 'default', masquerade: {} },
          { name: 'green', bridge: {}, ...(state && { state }) },
        ],
      },
    },
    networks: [
      { name: 'default', pod: {} },
      { name: 'green', multus: { networkName: 'green' } },
    ],
  });
  const type = resources.virtualMachines;
  const metadata = { name: 'connected', namespace: 'default' };
  await cluster.client.create<VirtualMachine>(type, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata,
    spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  } as VirtualMachine);
  const { metadata: vmi, status } = await untilRunning('connected');
  const uid = vmi.uid ?? '';
  assert.deepEqual(status?.interfaces, [{ name: 'default', podInterfaceName: 'eth0' }]);
  await cluster.client.patch(type, metadata, { spec: { template: { spec: withGreen() } } }, 'merge');
  const selection = JSON.stringify([{ name: 'green', namespace: 'default', interface: greenLink }]);
  const asksFor = (networks: string) => (pod: Pod) => pod.metadata.annotations?.[networksKey] === networks;
  await cluster.untilPod(uid, 'asked for', asksFor(selection));
  await reportLinks(uid, 'eth0', greenLink);
  const isReported = ({ status: now }: VirtualMachineInstance) =>
    now?.interfaces?.some(({ name, infoSource }) => name === 'green' && infoSource === 'multus-status') === true;
  await cluster.untilVmi('connected', 'reported', isReported);
  await cluster.client.patch(type, metadata, { spec: { template: { spec: withGreen('absent') } } }, 'merge');
  await cluster.untilPod(uid, 'not asked for', asksFor(''));
  await reportLinks(uid, 'eth0');
  await cluster.untilVmi('connected', 'not reported', (now) => !isReported(now));
  // What the agent writes when the domain has let go of it.
  await patchVmi('connected', { status: { interfaces: [{ name: 'default', podInterfaceName: 'eth0' }] } });
  const after = await cluster.untilVmi('connected', 'without it', ({ spec }) => spec.networks?.length === 1);
  assert.deepEqual(
    after.spec.domain.devices?.interfaces?.map(({ name }) => name),
    ['default'],
  );
});

test('what cannot be plugged is refused in upstream’s words', async () => {
  await createRunning('refusing');
  const say = async (action: string, body: unknown, name = 'refusing') => {
    const { status, message } = await put('virtualmachineinstances', name, action, body);
    return `${status} ${message}`;
  };
  const conflict = '409 Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "refusing": ';
  assert.match(await say('addvolume', undefined), /^400 Request with no body/);
  assert.match(await say('addvolume', {}), /^400 AddVolumeOptions requires name to be set/);
  assert.match(await say('addvolume', { name: 'a' }), /^400 AddVolumeOptions requires disk to not be nil/);
  assert.match(
    await say('addvolume', { name: 'a', disk: {} }),
    /^400 AddVolumeOptions requires VolumeSource to not be nil/,
  );
  assert.match(await say('removevolume', {}), /^400 RemoveVolumeOptions requires name to be set/);
  assert.equal(
    await say('addvolume', { ...addOptions('x'), name: 'root' }),
    `${conflict}Unable to add volume [root] because volume with that name already exists`,
  );
  assert.equal(
    await say('removevolume', { name: 'root' }),
    `${conflict}Unable to remove volume [root] because it is not hotpluggable`,
  );
  assert.equal(
    await say('removevolume', { name: 'none' }),
    `${conflict}Unable to remove volume [none] because it does not exist`,
  );
  assert.match(
    await say('addvolume', addOptions('x', { disk: { bus: 'sata' } })),
    /^422 .*Hotplug configuration for disk \[x\] requires bus to be 'scsi' or 'virtio'\. \[sata\] is not permitted\./,
  );
  assert.match(await say('addvolume', addOptions('x'), 'nobody'), /^404 /);
  assert.equal(await say('addvolume', { ...addOptions('x'), dryRun: ['All'] }), '202 ');
  const vmi = await cluster.untilVmi('refusing', 'there', () => true);
  assert.equal(vmi.spec.volumes?.length, 1);
});

test('a pod that a user calls the attachment of a VMI is not believed, and goes', async () => {
  const { status } = await createRunning('claimed');
  const [uid = ''] = Object.keys(status?.activePods ?? {});
  const { items } = await cluster.client.list<Pod>(resources.pods, {});
  const launcher = items.find(({ metadata }) => metadata.uid === uid);
  await createClaim('mine');
  await cluster.client.create<Pod>(resources.pods, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'hp-volume-users',
      namespace: 'default',
      labels: { 'kubevirt.io': 'hotplug-disk' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: launcher?.metadata.name ?? '', uid, controller: true }],
    },
    spec: {
      containers: [{ name: 'hotplug-disk', image: 'mine' }],
      volumes: [
        { name: 'hotplug-disks', emptyDir: {} },
        { name: 'mine', persistentVolumeClaim: { claimName: 'mine' } },
      ],
    },
  });
  assert.equal((await put('virtualmachineinstances', 'claimed', 'addvolume', addOptions('mine'))).status, 202);
  const vmi = await cluster.untilVmi(
    'claimed',
    'attached',
    (each) => entryOf(each, 'mine')?.phase === 'AttachedToNode',
  );
  assert.notEqual(entryOf(vmi, 'mine')?.hotplugVolume?.attachPodName, 'hp-volume-users');
  await cluster.untilGone(resources.pods, 'hp-volume-users', { orEnding: true });
});
