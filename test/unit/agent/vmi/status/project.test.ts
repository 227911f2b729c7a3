import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { project, semanticEqual } from '../../../../../src/agent/vmi/status/index.ts';
import { annotations, type Domain, type VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { domainNone, domainOf, observationOf, presentVmi, seen, vmiOf } from '../../../../fixtures/agent/builders.ts';

function projected(vmi: VirtualMachineInstance, more: Partial<Observation> = {}) {
  const observation = observationOf({ vmi: presentVmi(vmi), ...more });
  return project(vmi, { observation, decision: decide(observation), outcomes: [] });
}

function withDevices(devices: Partial<Domain['Spec']['Devices']>): Domain {
  const domain = domainOf('Running');
  domain.Spec.Devices = { ...domain.Spec.Devices, ...devices };
  return domain;
}

const alias = (Name: string) => ({ Name, UserDefined: true });

test('a second projection of what was written changes nothing: steady state costs no write', () => {
  const first = projected(vmiOf('Running'));
  assert.ok(first.vmi);
  assert.equal(projected(first.vmi).vmi, undefined);
});

test('nothing is written to a final VMI', () => {
  assert.equal(projected(vmiOf('Succeeded'), { domain: seen(domainOf('Running')) }).vmi, undefined);
});

test('a start before Running is not written, unless there is a problem to tell', () => {
  assert.equal(projected(vmiOf('Scheduled'), { domain: domainNone }).vmi, undefined);
  const reported = projected(vmiOf('Scheduled'), { domain: domainNone, recordProblem: 'disk full' });
  assert.equal(reported.vmi?.status?.conditions?.find(({ type }) => type === 'Synchronized')?.message, 'disk full');
});

test('the phase has its event and its time, the time only once', () => {
  const { vmi, events } = projected(vmiOf('Scheduled'));
  assert.deepEqual(events, [{ type: 'Normal', reason: 'Started', message: 'VirtualMachineInstance started.' }]);
  assert.deepEqual(vmi?.status?.phaseTransitionTimestamps, [
    { phase: 'Running', phaseTransitionTimestamp: '2026-01-02T03:04:05Z' },
  ]);
});

test('conditions without time carry null, as upstream writes them', () => {
  const condition = projected(vmiOf('Running')).vmi?.status?.conditions?.find(({ type }) => type === 'LiveMigratable');
  assert.equal(condition?.lastProbeTime, null);
  assert.equal(condition?.lastTransitionTime, null);
});

test('what is always written is there, too, when a rule changes the status', () => {
  const stored = vmiOf('Running');
  const observation = observationOf({ vmi: presentVmi(stored) });
  const decision = { ...decide(observation), patch: { status: { runtimeUser: null, qosClass: 'Burstable' } } };
  const { vmi } = project(stored, { observation, decision, outcomes: [] });
  const { guestOSInfo, runtimeUser, qosClass } = vmi?.status ?? {};
  assert.deepEqual({ guestOSInfo, runtimeUser, qosClass }, { guestOSInfo: {}, runtimeUser: 0, qosClass: 'Burstable' });
});

test('conditions of others are left as they are', () => {
  const ready = { type: 'Ready', status: 'True' as const, lastProbeTime: null };
  const { vmi } = projected(vmiOf('Running', { status: { conditions: [ready] } }));
  assert.deepEqual(vmi?.status?.conditions?.[0], ready);
});

test('interfaces come from the domain, with addresses of the guest agent, the pod network first', () => {
  const domain = withDevices({
    Interfaces: [
      {
        Alias: alias('second'),
        MAC: { MAC: '02:00:00:00:00:02' },
        Driver: { Queues: 4 },
        LinkState: { State: 'down' },
      },
      { Alias: alias('default'), MAC: { MAC: '02:00:00:00:00:01' }, Driver: null, LinkState: null },
    ],
  });
  domain.Status.Interfaces = [
    { Mac: '02:00:00:00:00:02', Ip: 'fe80::1', IPs: ['fe80::1', '10.1.0.7'], InterfaceName: 'eth1' },
    { Mac: '02:00:00:00:00:09', Ip: '172.17.0.1', IPs: null, InterfaceName: 'docker0' },
  ];
  const spec = { domain: {}, networks: [{ name: 'second' }, { name: 'default', pod: {} }] };
  const { vmi } = projected(vmiOf('Running', { spec }), { domain: seen(domain) });
  assert.deepEqual(vmi?.status?.interfaces, [
    { name: 'default', mac: '02:00:00:00:00:01', infoSource: 'domain', queueCount: 1, linkState: 'up' },
    {
      name: 'second',
      mac: '02:00:00:00:00:02',
      infoSource: 'domain, guest-agent',
      queueCount: 4,
      linkState: 'down',
      interfaceName: 'eth1',
      ipAddress: '10.1.0.7',
      ipAddresses: ['10.1.0.7', 'fe80::1'],
    },
    {
      mac: '02:00:00:00:00:09',
      interfaceName: 'docker0',
      infoSource: 'guest-agent',
      ipAddress: '172.17.0.1',
      ipAddresses: ['172.17.0.1'],
    },
  ]);
});

test('the controller’s words about an interface survive: podInterfaceName and multus-status', () => {
  const domain = withDevices({
    Interfaces: [{ Alias: alias('default'), MAC: { MAC: '02:00:00:00:00:01' }, Driver: null, LinkState: null }],
  });
  const before = [
    { name: 'default', podInterfaceName: 'eth0', infoSource: 'multus-status' },
    { name: 'late', infoSource: 'multus-status' },
  ];
  const spec = { domain: { devices: { interfaces: [{ name: 'default' }, { name: 'late' }] } } };
  const { vmi } = projected(vmiOf('Running', { spec, status: { interfaces: before } }), { domain: seen(domain) });
  assert.equal(vmi?.status?.interfaces?.[0]?.podInterfaceName, 'eth0');
  assert.equal(vmi?.status?.interfaces?.[0]?.infoSource, 'domain, multus-status');
  assert.deepEqual(vmi?.status?.interfaces?.[1], { name: 'late', infoSource: 'multus-status' });
});

test('more than ten interfaces that only the guest knows are cut off', () => {
  const domain = domainOf('Running');
  domain.Status.Interfaces = Array.from({ length: 500 }, (_, index) => ({
    Mac: `02:00:00:00:01:${index}`,
    Ip: '',
    IPs: null,
    InterfaceName: `veth${index}`,
  }));
  assert.equal(projected(vmiOf('Running'), { domain: seen(domain) }).vmi?.status?.interfaces?.length, 10);
});

test('fault 3: a disk without alias and an interface without MAC are survived', () => {
  const source = { Dev: '', File: '/disk.img' };
  const domain = withDevices({
    Disks: [
      { Device: 'disk', Type: 'file', Source: source, Target: { Bus: 'virtio', Device: 'vda', Tray: '' }, Alias: null },
      {
        Device: 'disk',
        Type: 'file',
        Source: source,
        Target: { Bus: 'virtio', Device: 'vdb', Tray: '' },
        Alias: alias('root'),
      },
    ],
    Interfaces: [{ Alias: null, MAC: null, Driver: null, LinkState: null }],
  });
  const { vmi } = projected(vmiOf('Running', { status: { volumeStatus: [{ name: 'root', target: '' }] } }), {
    domain: seen(domain),
  });
  assert.deepEqual(vmi?.status?.volumeStatus, [{ name: 'root', target: 'vdb' }]);
  assert.equal(vmi?.status?.interfaces, undefined);
});

test('fault 3: hypervPassthrough without a value is survived', () => {
  const spec = { domain: { features: { hypervPassthrough: {} } } };
  assert.ok(projected(vmiOf('Running', { spec })).vmi);
});

test('the guest agent is a condition, and goes with its channel', () => {
  const target = { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: 'connected' };
  const connected = projected(vmiOf('Running'), { domain: seen(withDevices({ Channels: [{ Target: target }] })) });
  assert.ok(connected.vmi?.status?.conditions?.some(({ type }) => type === 'AgentConnected'));
  assert.ok(connected.vmi);
  const gone = projected(connected.vmi);
  assert.ok(!gone.vmi?.status?.conditions?.some(({ type }) => type === 'AgentConnected'));
});

test('a frozen guest is shown, a thawed one is not, and silence changes nothing', () => {
  const states = ['frozen', '', 'thawed'].map((Status) => {
    const domain = domainOf('Running');
    domain.Status.FSFreezeStatus = { Status };
    return projected(vmiOf('Running', { status: { fsFreezeStatus: 'frozen' } }), { domain: seen(domain) }).vmi?.status
      ?.fsFreezeStatus;
  });
  assert.deepEqual(states, ['frozen', 'frozen', undefined]);
});

test('equal in meaning: nothing and empty, times by instant, quantities by value', () => {
  assert.ok(semanticEqual({ a: [] }, { b: {} }));
  assert.ok(semanticEqual({ a: 1, lastProbeTime: null }, { a: 1 }));
  assert.ok(semanticEqual({ startTimestamp: '2026-01-01T01:00:00Z' }, { startTimestamp: '2026-01-01T02:00:00+01:00' }));
  assert.ok(semanticEqual({ memory: { guestCurrent: '1Gi' } }, { memory: { guestCurrent: '1024Mi' } }));
  assert.ok(!semanticEqual({ name: '1Gi' }, { name: '1024Mi' }));
  assert.ok(!semanticEqual({ a: [1, 2] }, { a: [2, 1] }));
  assert.ok(!semanticEqual({ a: 0 }, {}));
});

test('a guest without interfaces has no list of them, as upstream writes it', () => {
  const { vmi } = projected(vmiOf('Scheduled'), { domain: seen(domainOf('Running')) });
  assert.ok(vmi?.status);
  assert.equal('interfaces' in vmi.status, false);
});

test('how far a guest on its way has come is an annotation: written when it is new, and not again', () => {
  const written = projected(projected(vmiOf('Running')).vmi ?? vmiOf('Running'), { migrationNote: 'half' }).vmi;
  assert.equal(written?.metadata.annotations?.[annotations.migrationProgress], 'half');
  assert.ok(written);
  assert.equal(projected(written, { migrationNote: 'half' }).vmi, undefined);
  assert.equal(projected(written).vmi, undefined, 'the last one stays');
});
