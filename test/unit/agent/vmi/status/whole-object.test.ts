import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { type Projection, project } from '../../../../../src/agent/vmi/status/index.ts';
import type { Domain, VirtualMachineInstance } from '../../../../../src/api/index.ts';
import {
  clusterConfig,
  domainOf,
  observationOf,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';

const golden = path.join(process.cwd(), 'test/unit/agent/vmi/status/whole-object.golden.json');

const alias = (Name: string) => ({ Name, UserDefined: true });

function richVmi(): VirtualMachineInstance {
  return vmiOf('Scheduled', {
    metadata: {
      annotations: { 'example.com/kept': 'yes' },
      finalizers: ['kubevirt.io/foregroundDeleteVirtualMachine'],
      // What this agent does not know is kept.
      managedFields: [{ manager: 'virt-controller' }],
    } as object,
    spec: {
      evictionStrategy: 'LiveMigrate',
      accessCredentials: [{ sshPublicKey: { propagationMethod: { qemuGuestAgent: { users: ['u'] } } } }],
      domain: {
        cpu: { model: 'host-model' },
        devices: {
          disks: [
            { name: 'root', disk: { bus: 'virtio' } },
            { name: 'cloud', cdrom: { bus: 'sata' } },
          ],
          interfaces: [
            { name: 'blue', bridge: {}, macAddress: '02:00:00:00:00:02' },
            { name: 'default', masquerade: {} },
          ],
        },
      },
      networks: [
        { name: 'blue', multus: { networkName: 'blue' } },
        { name: 'default', pod: {} },
      ],
      volumes: [
        { name: 'root', persistentVolumeClaim: { claimName: 'root' } },
        { name: 'cloud', cloudInitNoCloud: { userData: '#cloud-config' } },
      ],
      futureField: { kept: true },
    } as object,
    status: {
      phaseTransitionTimestamps: [{ phase: 'Scheduled', phaseTransitionTimestamp: '2026-01-02T03:04:01Z' }],
      conditions: [{ type: 'Ready', status: 'False', reason: 'GuestNotRunning', lastProbeTime: null }],
      interfaces: [
        { name: 'blue', infoSource: 'multus-status', podInterfaceName: 'net1' },
        { name: 'default', infoSource: 'multus-status', podInterfaceName: 'eth0' },
      ],
      volumeStatus: [
        { name: 'root', target: '', persistentVolumeClaimInfo: { claimName: 'root', accessModes: ['ReadWriteMany'] } },
        { name: 'cloud', target: '' },
      ],
      memory: { guestAtBoot: '128Mi', guestRequested: '128Mi' },
      futureStatus: ['kept'],
    } as object,
  });
}

function richDomain(): Domain {
  const domain = domainOf('Running', 'Unknown', { AccessCredential: { Succeeded: true, Message: '' } });
  const disk = (name: string, Device: string, File: string) => ({
    Device: 'disk',
    Type: 'file',
    Source: { Dev: '', File },
    Target: { Bus: 'virtio', Device, Tray: '' },
    Alias: alias(name),
  });
  const agent = { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: 'connected' };
  domain.Spec.Devices = {
    Channels: [{ Target: agent }],
    Disks: [disk('root', 'vda', '/disk.img'), disk('cloud', 'sda', '/noCloud.iso')],
    Interfaces: [
      { Alias: alias('blue'), MAC: { MAC: '02:00:00:00:00:02' }, Driver: { Queues: 2 }, LinkState: { State: 'down' } },
      { Alias: alias('default'), MAC: { MAC: '02:00:00:00:00:01' }, Driver: null, LinkState: null },
    ],
    HostDevices: [{ Alias: alias('sriov-green') }, { Alias: alias('gpu-one') }, { Alias: null }],
  };
  domain.Status.Interfaces = [
    { Mac: '02:00:00:00:00:01', Ip: '10.0.2.2', IPs: ['fe80::1', '10.0.2.2'], InterfaceName: 'eth0' },
    { Mac: '02:00:00:00:00:02', Ip: '192.168.7.9', IPs: ['fd00::9', '192.168.7.9'], InterfaceName: 'eth1' },
    { Mac: '02:00:00:00:00:99', Ip: '172.17.0.1', IPs: null, InterfaceName: 'docker0' },
    { Mac: '', Ip: '127.0.0.1', IPs: null, InterfaceName: '' },
  ];
  domain.Status.OSInfo = {
    Name: 'Fedora Linux',
    KernelRelease: '6.8.5-301.fc40.x86_64',
    Version: '40',
    PrettyName: 'Fedora Linux 40',
    VersionId: '40',
    KernelVersion: '#1 SMP',
    Machine: 'x86_64',
    Id: 'fedora',
  };
  domain.Status.FSFreezeStatus = { Status: 'frozen' };
  return domain;
}

const facts: Partial<Observation> = {
  domain: seen(richDomain()),
  selinuxContext: 'system_u:object_r:container_file_t:s0:c1,c2',
  statusFacts: {
    config: clusterConfig.status,
    isoSizes: { cloud: 1_048_576 },
    guestAgent: { version: '8.2.0', commands: ['guest-ping'] },
    hostModel: 'Skylake-Client',
    architecture: 'amd64',
  },
};

function projected(vmi: VirtualMachineInstance, more: Partial<Observation> = facts): Projection {
  const observation = observationOf({ vmi: presentVmi(vmi), ...more });
  return project(vmi, { observation, decision: decide(observation), outcomes: [] });
}

test('the whole body of the PUT with which a guest becomes Running, and its events, are as committed', () => {
  const { vmi, events } = projected(richVmi());
  const text = JSON.stringify({ vmi, events }, null, 2);
  if (process.env.UPDATE_GOLDEN) writeFileSync(golden, `${text}\n`);
  assert.deepEqual(JSON.parse(text), JSON.parse(readFileSync(golden, 'utf8')));
});

test('what was written is not written again, and tells no event again', () => {
  const { vmi } = projected(richVmi());
  assert.ok(vmi);
  const again = projected(vmi);
  assert.equal(again.vmi, undefined);
  assert.deepEqual(again.events, []);
});

test('a kernel that was updated in the guest reaches the status (fault 12)', () => {
  const { vmi } = projected(richVmi());
  assert.ok(vmi);
  const domain = richDomain();
  domain.Status.OSInfo = { ...domain.Status.OSInfo, KernelRelease: '6.9.0' };
  assert.equal(projected(vmi, { ...facts, domain: seen(domain) }).vmi?.status?.guestOSInfo?.kernelRelease, '6.9.0');
});
