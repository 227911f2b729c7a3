import assert from 'node:assert/strict';
import fc from 'fast-check';
import { decide } from '../../src/agent/vmi/decide/index.ts';
import { observeVmi, SyncPayloadCache } from '../../src/agent/vmi/observe/index.ts';
import { isAddressable } from '../../src/agent/vmi/observe/vmi-shape.ts';
import { project } from '../../src/agent/vmi/status/index.ts';
import type { Domain, VirtualMachine, VirtualMachineInstance } from '../../src/api/index.ts';
import { PodRenderError } from '../../src/controller/pod/errors.ts';
import { renderLauncherPod } from '../../src/controller/pod/render.ts';
import { vmiProblem } from '../../src/controller/vmi/check.ts';
import { projectVmi } from '../../src/controller/vmi/project.ts';
import { vmRow } from '../../src/web/index.ts';
import { decodeDomain, WireError } from '../../src/wire/index.ts';
import { domainOf, key, node, seen, uid, vmiOf } from '../fixtures/agent/builders.ts';
import { fakeWorld } from '../fixtures/agent/fake-world.ts';
import { buildConfig, buildVm, buildVmi, buildVmiFacts } from '../unit/controller/builders.ts';
import { changedValue, fuzz, judgedLater, type Verdict } from './kit/index.ts';

/** Objects in which anything may stand anywhere: the CRDs let much of it through, launchers all of it. */

const runningVmi = (() => {
  const vmi = vmiOf('Running') as unknown as Record<string, Record<string, unknown>>;
  vmi.spec = {
    ...vmi.spec,
    domain: {
      devices: {
        disks: [{ name: 'root', disk: { bus: 'virtio' } }],
        interfaces: [{ name: 'default', masquerade: {}, ports: [{ port: 22 }] }],
        filesystems: [{ name: 'fs', virtiofs: {} }],
      },
      cpu: { model: 'host-model', features: [{ name: 'invtsc', policy: 'require' }] },
      memory: { guest: '1Gi' },
      firmware: { kernelBoot: { container: { image: 'k' } } },
    },
    networks: [{ name: 'default', pod: {} }],
    volumes: [
      { name: 'root', persistentVolumeClaim: { claimName: 'c' } },
      { name: 'ci', cloudInitNoCloud: { userData: '#' } },
    ],
    accessCredentials: [{ sshPublicKey: { propagationMethod: { qemuGuestAgent: {} } } }],
  };
  vmi.status = {
    ...vmi.status,
    conditions: [{ type: 'LiveMigratable', status: 'True' }],
    volumeStatus: [
      {
        name: 'root',
        target: 'vda',
        persistentVolumeClaimInfo: { volumeMode: 'Block', accessModes: ['ReadWriteMany'] },
      },
    ],
    interfaces: [{ name: 'default', ipAddress: '10.1.1.1', infoSource: 'domain' }],
    migrationState: {
      migrationUid: 'm1',
      sourceNode: node,
      targetNode: 'node2',
      targetDirectMigrationNodePorts: { 40000: 0 },
      migrationConfiguration: { completionTimeoutPerGiB: 1 },
    },
    phaseTransitionTimestamps: [{ phase: 'Running', phaseTransitionTimestamp: '2026-01-01T00:00:00Z' }],
  };
  return vmi;
})();

const runningDomain = (() => {
  const domain = domainOf('Running', 'Unknown', {
    Migration: {
      UID: 'm1',
      StartTimestamp: '2026-01-02T03:04:05Z',
      EndTimestamp: null,
      Failed: false,
      FailureReason: '',
      AbortStatus: '',
      Mode: '',
    },
  }) as unknown as Record<string, Record<string, unknown>>;
  domain.Spec = {
    ...domain.Spec,
    Devices: {
      Channels: [{ Target: { Name: 'org.qemu.guest_agent.0', State: 'connected' } }],
      Disks: [{ Device: 'disk', Alias: { Name: 'root' }, Target: { Device: 'vda' }, Source: { File: '/x' } }],
      Interfaces: [{ Alias: { Name: 'default' }, MAC: { MAC: '02:00:00:00:00:01' } }],
      HostDevices: null,
    },
  };
  domain.Status = {
    ...domain.Status,
    Interfaces: [{ Mac: '02:00:00:00:00:01', Ip: '10.1.1.1', IPs: ['10.1.1.1'], InterfaceName: 'eth0' }],
  };
  return domain as unknown as Domain;
})();

/** Observed, decided and projected; objects that are shared are not changed. */
async function pass(vmi: VirtualMachineInstance, domain: Domain): Promise<Verdict> {
  if (!isAddressable(vmi) || vmi.metadata.name !== 'vm1' || vmi.metadata.namespace !== 'default') return 'refused';
  const world = fakeWorld();
  world.launchers.run(key, uid);
  world.launchers.setView(key, uid, seen(domain, uid, world.clock.monotonicMs()));
  world.api.apply(vmi);
  const guestAgents = { view: () => undefined, onChange: () => () => undefined };
  const ports = { ...world.ports, guestAgents, syncPayload: new SyncPayloadCache() };
  const observation = await observeVmi(key, undefined, ports, new AbortController().signal);
  const decision = decide(observation);
  const stored = world.api.stored(key);
  if (!stored) return 'refused';
  const before = JSON.stringify(stored);
  const projected = project(stored, { observation, decision, outcomes: [] });
  assert.equal(JSON.stringify(stored), before, 'shared objects are not changed');
  assert.ok(JSON.stringify(projected).length < 2 * before.length + JSON.stringify(domain).length + 64 * 1024);
  return 'accepted';
}

const phases = fc.constantFrom('Scheduled', 'Running', 'Succeeded', 'WaitingForSync', '', 'Nonsense');

fuzz('agent: a pass over a VMI with anything anywhere', {
  input: fc.tuple(phases, fc.boolean(), changedValue([runningVmi], { depths: [3, 40, 300] })),
  parse: ([phase, isDeleted, value]) => {
    const vmi = value as Record<string, Record<string, unknown>> | null;
    if (vmi && typeof vmi.status === 'object' && vmi.status !== null && !Array.isArray(vmi.status))
      vmi.status.phase = phase;
    if (isDeleted && vmi?.metadata && typeof vmi.metadata === 'object')
      vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
    return pass(vmi as unknown as VirtualMachineInstance, structuredClone(runningDomain));
  },
});

fuzz('agent: a pass over a domain with anything anywhere', {
  input: fc.tuple(phases, changedValue([runningDomain])),
  parse: ([phase, value]) =>
    judgedLater(
      (error) => error instanceof WireError,
      async () => {
        const domain = decodeDomain(JSON.stringify(value) ?? 'null');
        const vmi = structuredClone(runningVmi);
        (vmi.status as Record<string, unknown>).phase = phase;
        assert.equal(await pass(vmi as unknown as VirtualMachineInstance, domain), 'accepted');
      },
    ),
});

const config = buildConfig();
const plainVmi = buildVmi({
  domain: {
    memory: { guest: '64Mi', hugepages: { pageSize: '2Mi' } },
    cpu: { cores: 1, model: 'host-model' },
    machine: { type: 'q35' },
    resources: { requests: { memory: '1Gi', cpu: '1' }, limits: { cpu: '2' } },
    firmware: { uuid: 'u', kernelBoot: { container: { image: 'i' } } },
    devices: {
      disks: [{ name: 'a' }, { name: 'cd', cdrom: {} }],
      interfaces: [{ name: 'a', masquerade: {}, ports: [{ port: 1 }] }],
      tpm: {},
    },
  },
  volumes: [
    { name: 'a', containerDisk: { image: 'i' } },
    { name: 'cd', cloudInitNoCloud: { secretRef: { name: 's' } } },
    { name: 'p', persistentVolumeClaim: { claimName: 'c' } },
    { name: 'h', hostDisk: { path: '/x', type: 'Disk' } },
  ],
  networks: [{ name: 'a', pod: {} }],
  nodeSelector: { zone: 'a' },
  hostname: 'h',
  terminationGracePeriodSeconds: 30,
} as never);

fuzz('controller: the spec of a VMI with anything anywhere', {
  input: changedValue([plainVmi.spec], { depths: [3, 40, 300] }),
  parse: (spec) => {
    const vmi = { ...structuredClone(plainVmi), spec } as VirtualMachineInstance;
    const problem = vmiProblem(vmi);
    if (problem !== undefined) return 'refused';
    const wanted = projectVmi(buildVmiFacts({ vmi, config }), { randomUuid: () => 'uuid', vsockCid: () => 3 });
    try {
      renderLauncherPod(wanted, config, 'salt');
    } catch (error) {
      assert.ok(error instanceof PodRenderError, String((error as Error).stack));
    }
    return 'accepted';
  },
});

fuzz('web: a VM with anything anywhere as a line of the page', {
  input: changedValue([{ vm: buildVm(), vmi: runningVmi }]),
  parse: (value) => {
    const { vm, vmi } = (value ?? {}) as { vm?: VirtualMachine; vmi?: VirtualMachineInstance };
    if (typeof vm?.metadata?.name !== 'string') return 'refused';
    if (!isAddressable(vmi)) return 'refused';
    assert.ok(JSON.stringify(vmRow(vm, vmi)).length > 0);
    return 'accepted';
  },
});
