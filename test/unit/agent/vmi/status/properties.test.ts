import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { project, type Reconciled, semanticEqual, statusParts } from '../../../../../src/agent/vmi/status/index.ts';
import type { Domain, DomainReason, DomainStatus, VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { domainOf, presentVmi, seen } from '../../../../fixtures/agent/builders.ts';
import { observation } from '../decide/arbitrary.ts';

const names = ['default', 'blue', 'root', 'cloud', 'sriov-green', ''];
const name = fc.constantFrom(...names);
const mac = fc.constantFrom('02:00:00:00:00:01', '02:00:00:00:00:02', '', 'garbage');
const word = fc.constantFrom('', 'x', 'frozen', 'thawed', 'Größe', 'y'.repeat(5_000));
const ip = fc.constantFrom('10.0.0.1', 'fe80::1', '169.254.0.1', 'fd00::7', '', 'no address');
const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: null });
const alias = maybe(fc.record({ Name: name, UserDefined: fc.boolean() }));
const list = <T>(of: fc.Arbitrary<T>) => maybe(fc.array(of, { maxLength: 14 }));

const devices = fc.record({
  Channels: list(
    fc.record({
      Target: maybe(
        fc.record({
          Name: fc.constantFrom('org.qemu.guest_agent.0', 'other'),
          Type: fc.constant('virtio'),
          Address: fc.constant(''),
          Port: fc.nat(3),
          State: fc.constantFrom('connected', 'disconnected', ''),
        }),
      ),
    }),
  ),
  Disks: list(
    fc.record({
      Device: fc.constant('disk'),
      Type: fc.constant('file'),
      Source: fc.record({ Dev: fc.constantFrom('', '/dev/x'), File: fc.constantFrom('', '/x') }),
      Target: fc.record({
        Bus: fc.constant('virtio'),
        Device: fc.constantFrom('', 'vda', 'sdb'),
        Tray: fc.constant(''),
      }),
      Alias: alias,
    }),
  ),
  Interfaces: list(
    fc.record({
      Alias: alias,
      MAC: maybe(fc.record({ MAC: mac })),
      Driver: maybe(fc.record({ Queues: maybe(fc.nat(4)) })),
      LinkState: maybe(fc.record({ State: fc.constantFrom('', 'up', 'down') })),
    }),
  ),
  HostDevices: list(fc.record({ Alias: alias })),
});

const guest = fc.record({
  devices,
  status: fc.constantFrom<DomainStatus>('Running', 'Paused', 'Shutoff', 'Crashed', 'Blocked'),
  reason: fc.constantFrom<DomainReason>('Unknown', 'User', 'IOError', 'Migration', 'Shutdown', 'Crashed'),
  memory: maybe(
    fc.record({ Value: fc.oneof(fc.nat(), fc.double()), Unit: fc.constantFrom('KiB', 'GB', 'parsec', '') }),
  ),
  os: word,
  freeze: word,
  credential: maybe(fc.record({ Succeeded: fc.boolean(), Message: word })),
  interfaces: list(fc.record({ Mac: mac, Ip: ip, IPs: list(ip), InterfaceName: fc.constantFrom('', 'eth0', 'eth1') })),
  backup: maybe(
    fc.dictionary(fc.constantFrom('Name', 'Completed', 'Volumes', 'BackupMsg', 'StartTimestamp'), fc.jsonValue()),
  ),
  dump: maybe(fc.dictionary(fc.constantFrom('FileName', 'Failed', 'EndTimestamp', 'FailureReason'), fc.jsonValue())),
});

const domain = guest.map((given): Domain => {
  const { status, reason, backup, dump } = given;
  const made = domainOf(status, reason, { AccessCredential: given.credential, Backup: backup, MemoryDump: dump });
  made.Spec.Devices = given.devices as Domain['Spec']['Devices'];
  made.Spec.CurrentMemory = given.memory;
  made.Status.OSInfo = { ...made.Status.OSInfo, Name: given.os, KernelRelease: given.os };
  made.Status.FSFreezeStatus = { Status: given.freeze };
  made.Status.Interfaces = given.interfaces;
  return made;
});

/** Also what others wrote, in any shape that the API server lets through. */
const status = fc.record(
  {
    interfaces: fc.array(fc.record({ name, infoSource: word, podInterfaceName: word, ipAddresses: fc.array(ip) })),
    volumeStatus: fc.array(
      fc.record(
        {
          name,
          target: fc.constantFrom('', 'vda'),
          phase: fc.constantFrom('Bound', 'Ready', 'AttachedToNode', 'MountedToPod', 'MemoryDumpInProgress'),
          hotplugVolume: fc.constant({}),
          memoryDumpVolume: fc.constant({ claimName: 'c' }),
        },
        { requiredKeys: ['name', 'target'] },
      ),
      { maxLength: 6 },
    ),
    conditions: fc.array(
      fc.record({
        type: fc.constantFrom('Ready', 'Paused', 'Synchronized', 'LiveMigratable', 'AgentConnected', 'Own'),
        status: fc.constantFrom('True', 'False'),
        message: word,
      }),
      { maxLength: 5 },
    ),
    migratedVolumes: fc.jsonValue(),
    topologyHints: fc.jsonValue(),
    changedBlockTracking: fc.jsonValue(),
    memory: fc.constantFrom({ guestCurrent: '1Gi' }, { guestCurrent: '1024Mi', guestAtBoot: '1Gi' }),
    unknownToUs: fc.jsonValue(),
  },
  { requiredKeys: [] },
);

const facts = fc.record(
  {
    guestAgent: fc.record({ version: word }),
    hostModel: fc.constantFrom('', 'Skylake'),
    mountedVolumes: fc.array(name),
    isoSizes: fc.dictionary(name, fc.nat()),
  },
  { requiredKeys: ['isoSizes'] },
);

/** An observation of a VMI that this node may write, with a rich domain and a rich status. */
const reconciled = fc
  .tuple(observation, domain, status, facts, fc.boolean())
  .filter(([given]) => given.vmi.kind === 'present')
  .map(([given, shown, written, more, hasDomain]): Reconciled => {
    const vmi = (given.vmi as Extract<Observation['vmi'], { kind: 'present' }>).stored;
    Object.assign(vmi, { status: { ...vmi.status, ...structuredClone(written) } });
    const statusFacts = { ...given.statusFacts, ...more };
    const made: Observation = {
      ...given,
      ...(hasDomain && { domain: seen(shown, given.uid) }),
      vmi: presentVmi(vmi),
      statusFacts,
    };
    return { observation: made, decision: decide(made), outcomes: [] };
  });

function storedOf({ observation: { vmi } }: Reconciled): VirtualMachineInstance {
  assert.equal(vmi.kind, 'present');
  return (vmi as Extract<Observation['vmi'], { kind: 'present' }>).stored;
}

const runs = { numRuns: 1_000 };

test('projecting a result again writes nothing and tells nothing: no VMI is written twice for one reason', () => {
  fc.assert(
    fc.property(reconciled, (given) => {
      const first = project(storedOf(given), given);
      fc.pre(first.vmi !== undefined);
      const memory = { ...given.observation.memory, reportedProblem: first.problem ?? '' };
      const next = { ...given, observation: { ...given.observation, vmi: presentVmi(first.vmi), memory } };
      const second = project(first.vmi, next);
      assert.deepEqual(second.vmi?.status, second.vmi && first.vmi.status);
      assert.equal(second.vmi, undefined);
      assert.deepEqual(second.events, []);
    }),
    { numRuns: 400 },
  );
});

test('an input is never changed in place', () => {
  fc.assert(
    fc.property(reconciled, (given) => {
      const before = JSON.stringify(given);
      project(storedOf(given), given);
      assert.equal(JSON.stringify(given), before);
    }),
    { numRuns: 500 },
  );
});

test('nothing is lost: the spec, metadata and status fields of others are as they were', () => {
  fc.assert(
    fc.property(reconciled, (given) => {
      const stored = storedOf(given);
      const { vmi } = project(stored, given);
      fc.pre(vmi !== undefined);
      assert.deepEqual(vmi.spec, stored.spec);
      assert.equal(vmi.metadata.uid, stored.metadata.uid);
      assert.deepEqual(vmi.status?.unknownToUs, stored.status?.unknownToUs);
      assert.deepEqual(
        vmi.status?.volumeStatus?.map((volume) => volume.name).sort(),
        stored.status?.volumeStatus?.map((volume) => volume.name).sort(),
      );
      const others = (of: VirtualMachineInstance) => of.status?.conditions?.filter(({ type }) => type === 'Own') ?? [];
      assert.deepEqual(others(vmi), others(stored));
    }),
    { numRuns: 400 },
  );
});

test('what guests and launchers say adds little to an object', () => {
  fc.assert(
    fc.property(reconciled, (given) => {
      const stored = storedOf(given);
      const { vmi } = project(stored, given);
      const added = JSON.stringify(vmi ?? stored).length - JSON.stringify(stored).length;
      assert.ok(added < 64 * 1024, `${added} bytes`);
    }),
    runs,
  );
});

test('refused parts are written as they are stored, whatever else is', () => {
  fc.assert(
    fc.property(reconciled, fc.subarray([...statusParts]), (given, parts) => {
      const stored = storedOf(given);
      const isOurs = given.decision.route === 'default' || given.decision.route === 'migration-source';
      fc.pre(isOurs && given.decision.patch === undefined);
      const { vmi } = project(stored, { ...given, refused: { parts, message: 'no', makeRoom: false } });
      for (const part of parts.filter((each) => each !== 'conditions'))
        assert.ok(semanticEqual((vmi ?? stored).status?.[part], stored.status?.[part]), part);
    }),
    runs,
  );
});
