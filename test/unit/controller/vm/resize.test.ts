import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Condition, DomainSpecInput, VirtualMachine, VmiStatus } from '../../../../src/api/index.ts';
import {
  type JsonPatchOperation,
  type LiveChange,
  type Rollout,
  stagedMessage,
} from '../../../../src/controller/vm/live-change.ts';
import { liveChanges } from '../../../../src/controller/vm/live-changes.ts';
import { projectVmStatus } from '../../../../src/controller/vm/status.ts';
import { buildVm, buildVmi } from '../builders.ts';

const live: Rollout = { strategy: 'LiveUpdate', cpuAllocationRatio: 10 };

interface Row {
  readonly when: string;
  readonly template: DomainSpecInput;
  readonly vmi: DomainSpecInput;
  readonly status?: VmiStatus;
  /** Of the template; empty: it names none. */
  readonly architecture?: string;
  /** Of the VMI. */
  readonly runsOn?: string;
  readonly rollout?: Rollout['strategy'];
  readonly expected: string;
}

const condition = (type: string, status: 'True' | 'False' = 'True'): Condition => ({ type, status });
const migratable = condition('LiveMigratable');
const cpu = (sockets: number, more: DomainSpecInput['cpu'] = {}): DomainSpecInput => ({
  cpu: { sockets, cores: 2, ...more },
});
const room = cpu(1, { maxSockets: 4 });
const memory = (guest: string, more: DomainSpecInput['memory'] = {}): DomainSpecInput => ({
  memory: { guest, ...more },
});
const oneGi = memory('1Gi', { maxGuest: '4Gi' });
const sizes = { guestAtBoot: '1Gi', guestCurrent: '1Gi', guestRequested: '1Gi' };
const plugs: VmiStatus = { conditions: [migratable], memory: sizes };
const moving = { migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } };
const moved = { migrationState: { ...moving.migrationState, endTimestamp: '2026-01-01T00:01:00Z' } };
const noHotplug = 'restart: memory updated in template spec. Memory-hotplug';
const unsupported = 'restart: memory hotplug not supported,';

const rows: readonly Row[] = [
  {
    when: 'nothing differs',
    template: { ...cpu(1), ...memory('1024Mi') },
    vmi: { ...room, ...oneGi },
    status: plugs,
    expected: '',
  },
  { when: 'the template says nothing', template: {}, vmi: { ...room, ...oneGi }, status: plugs, expected: '' },
  { when: 'it has more sockets', template: cpu(3), vmi: room, expected: 'live: cpu/sockets=3' },
  {
    when: 'more sockets with a request and a limit',
    template: { ...cpu(2), resources: { requests: { cpu: '1' }, limits: { cpu: '4' } } },
    vmi: { ...room, resources: { requests: { cpu: '1500m' }, limits: { cpu: '3800m' } } },
    expected: 'live: cpu/sockets=2 resources/requests/cpu=1700m resources/limits/cpu=4',
  },
  {
    when: 'only the VMI has a request',
    template: cpu(2),
    vmi: { ...room, resources: { requests: { cpu: '1' } } },
    expected: 'live: cpu/sockets=2',
  },
  {
    when: 'it has more sockets than there is room for',
    template: cpu(5),
    vmi: room,
    expected: "restart: CPU sockets updated in template spec to a value higher than what's available",
  },
  {
    when: 'it has fewer sockets',
    template: cpu(1),
    vmi: cpu(2, { maxSockets: 4 }),
    expected: 'restart: Reduction of CPU socket count requires a restart',
  },
  {
    when: 'the guest is of ARM',
    template: cpu(2),
    vmi: room,
    architecture: 'arm64',
    expected: "restart: ARM doesn't support CPU hotplug",
  },
  {
    when: 'it has more sockets, and the guest cannot be migrated',
    template: cpu(2),
    vmi: room,
    status: { conditions: [condition('LiveMigratable', 'False')] },
    expected: 'restart: CPU sockets updated in template spec. CPU-hotplug is only available for migratable VMs',
  },
  {
    when: 'CPUs are being plugged in',
    template: cpu(2),
    vmi: room,
    status: { conditions: [condition('HotVCPUChange')] },
    expected:
      'HotPlugCPUError: Error encountered while handling CPU change request: another CPU hotplug is in progress',
  },
  {
    when: 'CPUs could not be plugged in',
    template: cpu(2),
    vmi: cpu(2, { maxSockets: 4 }),
    status: { conditions: [condition('HotVCPUChangeFailed')] },
    expected: 'restart: CPU sockets updated in template spec. CPU-hotplug failed, and the next start brings them',
  },
  {
    when: 'CPUs change during a migration',
    template: cpu(2),
    vmi: room,
    status: moving,
    expected:
      'HotPlugCPUError: Error encountered while handling CPU change request: CPU hotplug is not allowed while VMI is migrating',
  },
  {
    when: 'CPUs change after a migration',
    template: cpu(2),
    vmi: room,
    status: moved,
    expected: 'live: cpu/sockets=2',
  },
  {
    when: 'CPUs change, and changes are staged',
    template: cpu(2),
    vmi: room,
    rollout: 'Stage',
    expected: `restart: ${stagedMessage}`,
  },
  {
    when: 'it has more memory',
    template: memory('2Gi'),
    vmi: oneGi,
    status: plugs,
    expected: 'live: memory/guest=2Gi',
  },
  {
    when: 'more memory with a request and a limit',
    template: { ...memory('2Gi'), resources: { limits: { memory: '3Gi' } } },
    vmi: { ...oneGi, resources: { requests: { memory: '1Gi' }, limits: { memory: '3Gi' } } },
    status: plugs,
    expected: 'live: memory/guest=2Gi resources/requests/memory=2Gi resources/limits/memory=4Gi',
  },
  {
    when: 'the guest has kept memory that it was to give back',
    template: memory('2Gi'),
    vmi: { ...memory('1Gi', { maxGuest: '4Gi' }), resources: { requests: { memory: '1Gi' } } },
    status: { ...plugs, memory: { ...sizes, guestCurrent: '1536Mi' } },
    expected: 'live: memory/guest=2Gi resources/requests/memory=2Gi',
  },
  {
    when: 'how much the guest has is not known',
    template: memory('2Gi'),
    vmi: oneGi,
    status: { conditions: [migratable] },
    expected: '',
  },
  {
    when: 'the last memory could not be plugged in',
    template: memory('1Gi'),
    vmi: oneGi,
    status: { ...plugs, conditions: [condition('HotMemoryChange', 'False')] },
    expected: `${noHotplug} failed and is not available for this VM configuration`,
  },
  {
    when: 'the guest cannot be migrated',
    template: memory('2Gi'),
    vmi: oneGi,
    status: { memory: sizes },
    expected: `${noHotplug} is only available for migratable VMs`,
  },
  {
    when: 'there is no room at all',
    template: memory('2Gi'),
    vmi: memory('1Gi'),
    status: plugs,
    expected: `${noHotplug} is not available for this VM configuration`,
  },
  {
    when: 'memory is being plugged in',
    template: memory('2Gi'),
    vmi: oneGi,
    status: { ...plugs, conditions: [migratable, condition('HotMemoryChange')] },
    expected:
      'HotPlugMemoryError: error encountered while handling memory hotplug requests: another memory hotplug is in progress',
  },
  {
    when: 'memory changes during a migration',
    template: memory('2Gi'),
    vmi: oneGi,
    status: { ...plugs, ...moving },
    expected:
      'HotPlugMemoryError: error encountered while handling memory hotplug requests: memory hotplug is not allowed while VMI is migrating',
  },
  {
    when: 'the guest is of real time',
    template: { ...memory('2Gi'), cpu: { realtime: {} } },
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Memory hotplug is not compatible with realtime VMs`,
  },
  {
    when: 'it has NUMA cells of the host',
    template: { ...memory('2Gi'), cpu: { numa: { guestMappingPassthrough: {} } } },
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Memory hotplug is not compatible with guest mapping passthrough`,
  },
  {
    when: 'it is encrypted',
    template: { ...memory('2Gi'), launchSecurity: { sev: {} } },
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Memory hotplug is not compatible with encrypted VMs`,
  },
  {
    when: 'it has more memory than there is room for',
    template: memory('8Gi'),
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Guest memory is greater than the configured maxGuest memory`,
  },
  {
    when: 'the memory ends within a block',
    template: memory('1537Mi'),
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Guest memory must be 2Mi aligned`,
  },
  {
    when: 'the blocks are huge pages',
    template: memory('1536Mi', { hugepages: { pageSize: '1Gi' } }),
    vmi: oneGi,
    status: plugs,
    expected: `${unsupported} Guest memory must be 1Gi aligned`,
  },
  {
    when: 'the room ends within a block',
    template: memory('2Gi'),
    vmi: memory('1Gi', { maxGuest: '4097Mi' }),
    status: plugs,
    expected: `${unsupported} MaxGuest must be 2Mi aligned`,
  },
  {
    when: 'the template names no architecture, as the VMI does',
    template: memory('2Gi'),
    vmi: oneGi,
    status: plugs,
    architecture: '',
    expected: 'live: memory/guest=2Gi',
  },
  {
    when: 'the VMI is of another architecture, and the template names none',
    template: memory('2Gi'),
    vmi: oneGi,
    status: plugs,
    architecture: '',
    runsOn: 's390x',
    expected: `${unsupported} Memory hotplug is only available for x86_64 VMs`,
  },
  {
    when: 'the guest is small',
    template: memory('768Mi'),
    vmi: memory('512Mi', { maxGuest: '4Gi' }),
    status: { ...plugs, memory: { guestAtBoot: '512Mi', guestCurrent: '512Mi' } },
    expected: `${unsupported} Memory hotplug is only available for VMs with at least 1Gi of guest memory`,
  },
  {
    when: 'it has less memory than at its start',
    template: memory('1Gi'),
    vmi: memory('3Gi', { maxGuest: '4Gi' }),
    status: { ...plugs, memory: { guestAtBoot: '2Gi', guestCurrent: '3Gi' } },
    expected: 'restart: memory updated in template spec to a value lower than what the VM started with',
  },
  {
    when: 'memory changes, and changes are staged',
    template: memory('2Gi'),
    vmi: oneGi,
    status: plugs,
    rollout: 'Stage',
    expected: `restart: ${stagedMessage}`,
  },
  {
    when: 'CPUs need a restart and memory does not',
    template: { ...cpu(5), ...memory('2Gi') },
    vmi: { ...room, ...oneGi },
    status: plugs,
    expected:
      "restart: CPU sockets updated in template spec to a value higher than what's available; live: memory/guest=2Gi",
  },
];

function vmOf(domain: DomainSpecInput, architecture = 'amd64'): VirtualMachine {
  const vm = buildVm({ template: { spec: { ...(architecture && { architecture }), domain } } });
  return vm;
}

const wordOf = (operation: JsonPatchOperation) =>
  operation.op === 'remove' ? '' : `${operation.path.replace('/spec/domain/', '')}=${operation.value}`;

function wordsOf(resize: LiveChange): string {
  switch (resize.kind) {
    case 'live': {
      const replaced = resize.operations.filter(({ op }) => op === 'replace');
      return `live: ${replaced.map(wordOf).join(' ')}`;
    }
    case 'restart':
      return `restart: ${resize.message}`;
    case 'wait':
      return `${resize.reason}: ${resize.message}`;
  }
}

for (const { when, template, vmi, status, architecture, runsOn = 'amd64', rollout, expected } of rows) {
  test(`a template of a running VM: ${when}`, () => {
    const running = buildVmi({ domain: vmi, architecture: runsOn }, { phase: 'Running', ...status });
    const strategy = rollout ?? live.strategy;
    const found = liveChanges(vmOf(template, architecture), running, { ...live, strategy });
    assert.equal(found.map(wordsOf).join('; '), expected);
  });
}

test('what is replaced is tested first', () => {
  const [resize] = liveChanges(vmOf(cpu(2)), buildVmi({ domain: room }, { phase: 'Running' }), live);
  assert.deepEqual(resize?.kind === 'live' && resize.operations, [
    { op: 'test', path: '/spec/domain/cpu/sockets', value: 1 },
    { op: 'replace', path: '/spec/domain/cpu/sockets', value: 2 },
  ]);
});

test('nothing is resized that has ended, is being deleted or is not there', () => {
  const vm = vmOf(cpu(2));
  const deletionTimestamp = '2026-01-01T00:00:00Z';
  assert.deepEqual(liveChanges(vm, undefined, live), []);
  assert.deepEqual(liveChanges(vm, buildVmi({ domain: room }, { phase: 'Failed' }), live), []);
  assert.deepEqual(liveChanges(vm, buildVmi({ domain: room }, { phase: 'Running' }, { deletionTimestamp }), live), []);
});

const staged: Condition = { type: 'RestartRequired', status: 'True', message: stagedMessage };

test('a VM that needs a restart for something else changes nothing live', () => {
  const vm = { ...vmOf(cpu(2)), status: { conditions: [staged] } };
  const vmi = buildVmi({ domain: room }, { phase: 'Running' });
  assert.deepEqual(liveChanges(vm, vmi, live), []);
  assert.deepEqual(liveChanges(vmOf(cpu(2)), vmi, live, true), []);
  assert.equal(liveChanges(vm, vmi, live, false).length, 1, 'and does when that was taken back');
});

interface Known {
  readonly hasVmi?: boolean;
  readonly isChanged?: boolean;
}

function restartRequired(
  vm: VirtualMachine,
  found: readonly LiveChange[],
  { hasVmi = true, isChanged }: Known = {},
): string | undefined {
  const vmi = hasVmi ? buildVmi({}, { phase: 'Running' }) : undefined;
  const expected = { creationExpected: false, deletionExpected: false };
  const seen = {
    vm,
    vmi,
    ...expected,
    changes: found,
    isChanged,
    disks: 'ready' as const,
    volumeStatuses: undefined,
    changeTracking: { isEnabled: false, vms: undefined },
    now: new Date(0),
  };
  const { conditions } = projectVmStatus(seen, undefined, () => 0);
  return conditions?.find(({ type }) => type === 'RestartRequired')?.message;
}

test('the user reads what needs a restart, until it is taken back or the VM has stopped', () => {
  const restart: LiveChange = { kind: 'restart', message: 'more than there is' };
  const vm = buildVm();
  const said = { ...vm, status: { conditions: [{ ...staged, message: 'more than there is' }] } };
  assert.equal(restartRequired(vm, [restart]), 'more than there is');
  assert.equal(restartRequired(said, []), undefined);
  assert.equal(restartRequired({ ...vm, status: { conditions: [staged] } }, []), stagedMessage);
  assert.equal(restartRequired({ ...vm, status: { conditions: [staged] } }, [], { hasVmi: false }), undefined);
});

test('what the start says counts more than what was said before: a change that was taken back needs no restart', () => {
  const vm = buildVm();
  const said = { ...vm, status: { conditions: [staged] } };
  const restart: LiveChange = { kind: 'restart', message: 'more than there is' };
  assert.equal(restartRequired(said, [], { isChanged: false }), undefined);
  assert.equal(restartRequired(said, [restart], { isChanged: false }), 'more than there is');
  assert.equal(restartRequired(vm, [restart], { isChanged: true }), stagedMessage);
  assert.equal(restartRequired(said, [], { isChanged: true, hasVmi: false }), undefined);
});
