import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuestAgentAnswer } from '../../../../../src/agent/index.ts';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation, StatusFacts } from '../../../../../src/agent/vmi/observe/index.ts';
import { clip, project } from '../../../../../src/agent/vmi/status/index.ts';
import type { Condition, Domain, DomainReason, VirtualMachineInstance } from '../../../../../src/api/index.ts';
import {
  clusterConfig,
  domainNone,
  domainOf,
  domainUnknown,
  node,
  observationOf,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';

const now = '2026-01-02T03:04:05Z';

function projected(
  vmi: VirtualMachineInstance,
  domain: Domain | Observation['domain'],
  facts: Partial<StatusFacts> = {},
) {
  const view = 'ObjectMeta' in domain ? seen(domain) : domain;
  const statusFacts = { config: clusterConfig.status, isoSizes: {}, ...facts };
  const observation = observationOf({ vmi: presentVmi(vmi), domain: view, statusFacts });
  return project(vmi, { observation, decision: decide(observation), outcomes: [] });
}

function conditionOf(vmi: VirtualMachineInstance | undefined, type: string): Condition | undefined {
  return vmi?.status?.conditions?.find((condition) => condition.type === type);
}

function connected(state = 'connected'): Domain {
  const domain = domainOf('Running');
  const Target = { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: state };
  domain.Spec.Devices.Channels = [{ Target: null }, { Target }];
  return domain;
}

const pauses = [
  ['User', {}, 'PausedByUser', 'VMI was paused by user'],
  ['IOError', {}, 'PausedIOError', 'VMI was paused, low-level IO error detected'],
  [
    'Migration',
    { mode: 'Paused', sourceNode: node, targetNodeAddress: '10.0.0.2' },
    'PausedByMigrationMonitor',
    'VMI was paused by the migration monitor',
  ],
  ['Migration', { mode: 'PreCopy', sourceNode: node, targetNodeAddress: '10.0.0.2' }, undefined, undefined],
  ['Migration', { mode: 'Paused', sourceNode: 'other', targetNodeAddress: '10.0.0.2' }, undefined, undefined],
  ['Migration', { mode: 'Paused', sourceNode: node }, undefined, undefined],
  ['Migration', { mode: 'Paused', sourceNode: node, targetNodeAddress: 'a', completed: true }, undefined, undefined],
  ['StartingUp', {}, undefined, undefined],
] as const;
for (const [why, migrationState, reason, message] of pauses) {
  test(`Paused is ${reason ?? 'not set'}: the domain is Paused/${why}, migration ${JSON.stringify(migrationState)}`, () => {
    const vmi = vmiOf('Running', { status: { migrationState } });
    const paused = conditionOf(projected(vmi, domainOf('Paused', why)).vmi, 'Paused');
    const wanted = reason && {
      type: 'Paused',
      status: 'True',
      reason,
      message,
      lastProbeTime: now,
      lastTransitionTime: now,
    };
    assert.deepEqual(paused, wanted);
  });
}

test('a paused guest keeps its first reason, and loses the condition when it runs or is gone', () => {
  const paused = projected(vmiOf('Running'), domainOf('Paused', 'User')).vmi;
  assert.ok(paused);
  assert.equal(projected(paused, domainOf('Paused', 'IOError')).vmi, undefined);
  assert.equal(conditionOf(projected(paused, domainOf('Running')).vmi, 'Paused'), undefined);
  assert.equal(conditionOf(projected(paused, domainNone).vmi, 'Paused'), undefined);
});

test('an unknown domain changes no condition about the guest', () => {
  const paused = projected(vmiOf('Running'), domainOf('Paused', 'User' as DomainReason)).vmi;
  assert.ok(paused);
  assert.equal(projected(paused, domainUnknown).vmi, undefined);
});

const agents: readonly (readonly [string, GuestAgentAnswer | undefined, object, RegExp | undefined])[] = [
  ['nothing is known yet', undefined, {}, undefined],
  ['the launcher has not heard of it', { version: '' }, {}, undefined],
  ['it can all', { version: '9', commands: ['all'] }, {}, undefined],
  [
    'it lacks one basic command',
    { version: '9', commands: ['basic-but-guest-info'] },
    {},
    /^This guest agent doesn't support required basic commands$/,
  ],
  [
    'keys are wanted and it can neither way',
    { version: '9', commands: ['basic'] },
    { keys: true },
    /public key commands/,
  ],
  ['keys are wanted and it can the old way', { version: '9', commands: ['basic', 'old'] }, { keys: true }, undefined],
  ['keys are wanted and it can the new way', { version: '9', commands: ['basic', 'new'] }, { keys: true }, undefined],
  [
    'a password is wanted and it cannot',
    { version: '9', commands: ['basic', 'old'] },
    { password: true },
    /^This guest agent doesn't support required password commands$/,
  ],
  ['an old launcher tells a supported version', { version: '5.2.0' }, {}, undefined],
  ['an old launcher tells another version', { version: '1.0' }, {}, /^Guest agent version '1\.0' is not supported$/],
];

const commandSets: Readonly<Record<string, readonly string[]>> = {
  basic: [
    'guest-ping',
    'guest-get-time',
    'guest-info',
    'guest-shutdown',
    'guest-network-get-interfaces',
    'guest-get-fsinfo',
    'guest-get-host-name',
    'guest-get-users',
    'guest-get-timezone',
    'guest-get-osinfo',
  ],
  new: ['guest-ssh-get-authorized-keys', 'guest-ssh-add-authorized-keys', 'guest-ssh-remove-authorized-keys'],
  old: [
    'guest-exec-status',
    'guest-exec',
    'guest-file-open',
    'guest-file-close',
    'guest-file-read',
    'guest-file-write',
  ],
};
const all = [...Object.values(commandSets).flat(), 'guest-set-user-password'];

function agentFacts(answer: GuestAgentAnswer | undefined): Partial<StatusFacts> {
  if (!answer) return {};
  const named: Readonly<Record<string, readonly string[]>> = {
    ...commandSets,
    all,
    'basic-but-guest-info': commandSets.basic?.filter((name) => name !== 'guest-info') ?? [],
  };
  const commands = answer.commands?.flatMap((name) => named[name] ?? []);
  return { guestAgent: { version: answer.version, ...(commands && { commands }) } };
}

function wanting({ keys, password }: { keys?: boolean; password?: boolean }): object[] {
  const byAgent = { propagationMethod: { qemuGuestAgent: {} } };
  return [...(keys ? [{ sshPublicKey: byAgent }] : []), ...(password ? [{ userPassword: byAgent }] : [])];
}

for (const [situation, answer, wants, reason] of agents) {
  test(`AgentVersionNotSupported is ${reason ? 'set' : 'not set'}: ${situation}`, () => {
    const vmi = vmiOf('Running', { spec: { domain: {}, accessCredentials: wanting(wants) } });
    const { vmi: written } = projected(vmi, connected(), agentFacts(answer));
    assert.deepEqual(conditionOf(written, 'AgentConnected'), {
      type: 'AgentConnected',
      status: 'True',
      lastProbeTime: now,
      lastTransitionTime: null,
    });
    const condition = conditionOf(written, 'AgentVersionNotSupported');
    assert.equal(condition?.status, reason && 'True');
    assert.match(condition?.reason ?? '', reason ?? /^$/);
  });
}

test('an unsupported agent that disconnects takes both conditions with it', () => {
  const { vmi } = projected(vmiOf('Running'), connected(), agentFacts({ version: '1.0' }));
  assert.ok(conditionOf(vmi, 'AgentVersionNotSupported') && vmi);
  const after = projected(vmi, connected('disconnected')).vmi;
  assert.deepEqual(
    after?.status?.conditions?.map(({ type }) => type).filter((type) => type.startsWith('Agent')),
    [],
  );
});

test('what was said about an agent stays until something else is known of it', () => {
  const { vmi } = projected(vmiOf('Running'), connected(), agentFacts({ version: '1.0' }));
  assert.ok(vmi);
  assert.equal(projected(vmi, connected()).vmi, undefined);
  assert.equal(
    conditionOf(projected(vmi, connected(), agentFacts({ version: '5.0' })).vmi, 'AgentVersionNotSupported'),
    undefined,
  );
});

test('a pattern for agent versions that is none matches nothing', () => {
  const config = { ...clusterConfig.status, supportedGuestAgentVersions: ['(', '2.*'] };
  const facts = { config, guestAgent: { version: '(' } };
  assert.ok(conditionOf(projected(vmiOf('Running'), connected(), facts).vmi, 'AgentVersionNotSupported'));
});

const emulations = [
  [true, 'qemu', 'arm64', 'amd64', true],
  [true, 'qemu', 'amd64', 'amd64', false],
  [true, 'kvm', 'arm64', 'amd64', false],
  [true, 'qemu', undefined, 'amd64', false],
  [false, 'qemu', 'arm64', 'amd64', false],
] as const;
for (const [crossArchitecture, type, architecture, host, isSet] of emulations) {
  test(`SoftwareEmulation is ${isSet ? '' : 'not '}set: gate ${crossArchitecture}, ${type}, guest ${architecture ?? 'unset'}, host ${host}`, () => {
    const domain = domainOf('Running');
    domain.Spec.Type = type;
    const vmi = vmiOf('Running', { spec: { domain: {}, ...(architecture && { architecture }) } });
    const facts = { config: { ...clusterConfig.status, crossArchitecture }, architecture: host };
    const condition = conditionOf(projected(vmi, domain, facts).vmi, 'SoftwareEmulation');
    assert.deepEqual(
      [condition?.reason, condition?.message],
      isSet
        ? ['CrossArchitectureEmulation', `VM running with software emulation (host=${host}, guest=${architecture})`]
        : [undefined, undefined],
    );
  });
}

function withCredentials(Succeeded: boolean, Message = ''): Domain {
  return domainOf('Running', 'Unknown', { AccessCredential: { Succeeded, Message } });
}

test('AccessCredentialsSynchronized follows the metadata, with an event per change', () => {
  const good = projected(vmiOf('Running'), withCredentials(true));
  assert.deepEqual(conditionOf(good.vmi, 'AccessCredentialsSynchronized'), {
    type: 'AccessCredentialsSynchronized',
    status: 'True',
    lastProbeTime: null,
    lastTransitionTime: now,
  });
  assert.deepEqual(good.events, [
    { type: 'Normal', reason: 'AccessCredentialsSyncSuccess', message: 'Access credentials sync successful.' },
  ]);
  assert.ok(good.vmi);
  assert.deepEqual(projected(good.vmi, withCredentials(true)).events, []);
  const bad = projected(good.vmi, withCredentials(false, 'no agent'));
  assert.equal(conditionOf(bad.vmi, 'AccessCredentialsSynchronized')?.status, 'False');
  assert.deepEqual(bad.events, [
    { type: 'Warning', reason: 'AccessCredentialsSyncFailed', message: 'Access credentials sync failed: no agent' },
  ]);
});

test('texts of guests and launchers are cut, so that no VMI becomes unwritable by its own guest', () => {
  const domain = withCredentials(false, 'é'.repeat(1_000_000));
  const long = 'x'.repeat(1_000_000);
  domain.Status.OSInfo = { ...domain.Status.OSInfo, Name: long, KernelVersion: long };
  domain.Status.FSFreezeStatus = { Status: long };
  domain.Spec.OS.Type.Machine = long;
  domain.Status.Interfaces = Array.from({ length: 10_000 }, (_, index) => ({
    Mac: `${long}${index}`,
    Ip: '',
    IPs: Array.from({ length: 1_000 }, () => `10.0.0.1${index}`),
    InterfaceName: long,
  }));
  const { vmi, events } = projected(vmiOf('Running'), domain);
  const bytes = JSON.stringify(vmi?.status).length;
  assert.ok(bytes < 64 * 1024, `${bytes} bytes`);
  const again = vmi && projected(vmi, domain);
  assert.equal(again?.vmi, undefined, 'a cut text is the same text the next time');
  assert.ok(events.length > 0);
  assert.deepEqual(again?.events, []);
});

test('a text is cut between characters, within its bytes, and marked', () => {
  assert.equal(clip('short', 100), 'short');
  for (const size of [10, 11, 12, 13]) {
    const cut = clip('äöü€😀'.repeat(10), size);
    assert.ok(Buffer.byteLength(cut) <= size, cut);
    assert.match(cut, /^[äöü€😀]*…$/u);
  }
});
