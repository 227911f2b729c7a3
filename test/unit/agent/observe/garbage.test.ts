import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decide } from '../../../../src/agent/decide/index.ts';
import { CarriedCache, observeVmi } from '../../../../src/agent/observe/index.ts';
import { project } from '../../../../src/agent/status/index.ts';
import type { Domain, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { decodeDomain, WireError } from '../../../../src/wire/index.ts';
import { domainOf, key, node, seen, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { fakeWorld } from '../../../fixtures/agent/fake-world.ts';

/** One pass over objects in which anything may stand anywhere: the CRDs let much of it through, launchers all of it. */

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

const migrating = {
  migrationUid: 'm1',
  sourceNode: node,
  targetNode: 'node2',
  targetNodeAddress: '10.0.0.2',
  targetDirectMigrationNodePorts: { 40000: 0, 40001: 49152 },
  migrationConfiguration: { completionTimeoutPerGiB: 1 },
  startTimestamp: '2026-01-02T03:04:05Z',
};

/** A VMI with something in every corner that is read. */
function fullVmi(phase: VirtualMachineInstance['status'] extends infer S ? S : never): VirtualMachineInstance {
  const vmi = vmiOf('Running', {
    metadata: {
      name: 'vm1',
      namespace: 'default',
      uid,
      labels: { 'kubevirt.io/nodeName': node, 'kubevirt.io/migrationTargetNodeName': 'node2' },
      annotations: { 'kubevirt.io/nonroot': '' },
    },
  }) as unknown as Record<string, Record<string, unknown>>;
  const devices = {
    disks: [{ name: 'root', disk: { bus: 'virtio' } }],
    interfaces: [{ name: 'default', masquerade: {}, ports: [{ port: 22 }] }],
    filesystems: [{ name: 'fs', virtiofs: {} }],
    gpus: [{ name: 'g', deviceName: 'nvidia.com/x' }],
    hostDevices: [{ name: 'h', deviceName: 'vendor/y' }],
  };
  const domain = {
    devices,
    cpu: { model: 'host-model', sockets: 1, features: [{ name: 'invtsc', policy: 'require' }] },
    memory: { guest: '1Gi' },
    features: { hyperv: { reenlightenment: {} }, hypervPassthrough: {} },
    firmware: { kernelBoot: { container: { image: 'k' } } },
    launchSecurity: { sev: {} },
    resources: { limits: { cpu: '1' }, requests: { memory: '1Gi' } },
  };
  vmi.spec = {
    ...vmi.spec,
    domain,
    evictionStrategy: 'LiveMigrate',
    networks: [{ name: 'default', pod: {} }],
    volumes: [
      { name: 'root', persistentVolumeClaim: { claimName: 'c' } },
      { name: 'ci', cloudInitNoCloud: { userData: '#' } },
      { name: 'fs', dataVolume: { name: 'd' } },
    ],
    accessCredentials: [{ sshPublicKey: { propagationMethod: { qemuGuestAgent: {} } } }],
  };
  vmi.status = {
    ...vmi.status,
    ...phase,
    conditions: [{ type: 'LiveMigratable', status: 'True' }],
    volumeStatus: [
      {
        name: 'root',
        target: 'vda',
        persistentVolumeClaimInfo: { volumeMode: 'Block', accessModes: ['ReadWriteMany'] },
      },
      { name: 'ci', target: '', size: 1, memoryDumpVolume: { claimName: 'm' }, hotplugVolume: {} },
    ],
    interfaces: [{ name: 'default', ipAddress: '10.1.1.1', infoSource: 'domain' }],
    migrationState: migrating,
    changedBlockTracking: { state: 'Enabled', backupStatus: { name: 'b' } },
    topologyHints: { tscFrequency: 1 },
    currentCPUTopology: { sockets: 1 },
    memory: { guestAtBoot: '1Gi' },
    machine: { type: 'q35' },
    phaseTransitionTimestamps: [{ phase: 'Running', phaseTransitionTimestamp: '2026-01-01T00:00:00Z' }],
  };
  return vmi as unknown as VirtualMachineInstance;
}

function fullDomain(): Domain {
  const domain = domainOf('Running') as unknown as Record<string, Record<string, unknown>>;
  domain.Spec = {
    ...domain.Spec,
    Devices: {
      Channels: [{ Target: { Name: 'org.qemu.guest_agent.0', State: 'connected' } }],
      Disks: [{ Device: 'disk', Alias: { Name: 'root' }, Target: { Device: 'vda' }, Source: { File: '/x' } }],
      Interfaces: [{ Alias: { Name: 'default' }, MAC: { MAC: '02:00:00:00:00:01' } }],
      HostDevices: [{ Alias: { Name: 'h' } }],
    },
    Metadata: {
      KubeVirt: {
        UID: uid,
        GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true },
        Migration: { UID: 'm1', StartTimestamp: '2026-01-02T03:04:05Z', EndTimestamp: null, Failed: false },
        Backup: { Name: 'b', Volumes: '[]' },
        AccessCredential: { Succeeded: true, Message: 'x' },
        MemoryDump: { ClaimName: 'm', Completed: true },
      },
    },
  };
  domain.Status = {
    ...domain.Status,
    Interfaces: [{ Mac: '02:00:00:00:00:01', Ip: '10.1.1.1', IPs: ['10.1.1.1'], InterfaceName: 'eth0' }],
  };
  return domain as unknown as Domain;
}

/** Paths of all that is in `value`, and of what is in that. */
function pathsIn(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [[...path, name], ...pathsIn(inner, [...path, name])]);
}

function put(object: unknown, path: readonly string[], value: unknown): void {
  const holder = path.slice(0, -1).reduce<unknown>((each, name) => (each as Record<string, unknown>)?.[name], object);
  if (typeof holder === 'object' && holder !== null)
    Object.assign(holder, { [path.at(-1) ?? '']: structuredClone(value) });
}

const anyJson = fc.oneof(
  fc.constantFrom<Json>(
    null,
    true,
    0,
    -1,
    1e300,
    '',
    'x',
    [],
    {},
    [null],
    [0],
    ['x'],
    [{}],
    [[]],
    { a: null },
    { x: {} },
  ),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
);

const changes = (paths: string[][]) =>
  fc.array(fc.tuple(fc.constantFrom(...paths), anyJson), { minLength: 1, maxLength: 3 });

const phases = fc.constantFrom('Scheduled', 'Running', 'Succeeded', 'WaitingForSync', '', 'Nonsense');
const identity = new Set(['metadata.name', 'metadata.namespace', 'metadata.uid']);

async function pass(vmi: VirtualMachineInstance, domain: Domain): Promise<void> {
  const world = fakeWorld();
  world.launchers.run(key, uid);
  world.launchers.setView(key, uid, seen(domain, uid, world.clock.monotonicMs()));
  world.api.apply(vmi);
  const guestAgents = { view: () => undefined, onChange: () => () => undefined };
  const observation = await observeVmi(
    key,
    undefined,
    { ...world.ports, guestAgents, carried: new CarriedCache() },
    AbortSignal.timeout(1_000),
  );
  const decision = decide(observation);
  const stored = world.api.stored(key);
  assert.ok(stored);
  const before = JSON.stringify(stored);
  project(stored, { observation, decision, outcomes: [] });
  assert.equal(JSON.stringify(stored), before, 'shared objects are not changed');
}

test('a pass over a VMI with anything anywhere is observed, decided and projected without a throw', async () => {
  const paths = pathsIn(fullVmi({})).filter((path) => !identity.has(path.join('.')) && path.join('.') !== 'metadata');
  await fc.assert(
    fc.asyncProperty(phases, fc.boolean(), changes(paths), async (phase, deleted, garbage) => {
      const vmi = fullVmi({ phase } as never);
      if (deleted) vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
      for (const [path, value] of garbage) put(vmi, path, value);
      await pass(vmi, fullDomain());
    }),
    { numRuns: 500 },
  );
});

test('a pass over a domain with anything anywhere is refused at the border or goes without a throw', async () => {
  await fc.assert(
    fc.asyncProperty(phases, changes(pathsIn(fullDomain())), async (phase, garbage) => {
      const domain = fullDomain();
      for (const [path, value] of garbage) put(domain, path, value);
      let read: Domain;
      try {
        read = decodeDomain(JSON.stringify(domain));
      } catch (error) {
        assert.ok(error instanceof WireError);
        return;
      }
      await pass(fullVmi({ phase } as never), read);
    }),
    { numRuns: 500 },
  );
});
