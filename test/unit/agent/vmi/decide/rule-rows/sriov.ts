import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import type { Domain } from '../../../../../../src/api/index.ts';
import { domainOf, nowMs, presentVmi, seen, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import type { FlatMemory } from '../../../../../fixtures/agent/remembered.ts';
import { memory, migrating, type Row } from './row.ts';

interface Given extends Pick<FlatMemory, 'plugTries' | 'plugRefusal'> {
  readonly infoSource?: string;
  readonly state?: 'absent';
  /** The guest has its device. */
  readonly isInGuest?: boolean;
  readonly domain?: Domain;
  readonly status?: object;
  /** Its device is of a claim. */
  readonly isClaimed?: boolean;
}

/** A guest with the interface `fast`, which its pod has. */
export function sriov(given: Given = {}): Partial<Observation> {
  const {
    infoSource = 'multus-status',
    state,
    isInGuest = false,
    domain = domainOf(),
    status,
    isClaimed,
    ...remembered
  } = given;
  const networks = isClaimed && [{ name: 'fast', resourceClaim: { claimName: 'card', requestName: 'port' } }];
  const interfaces = [{ name: 'fast', sriov: {}, ...(state && { state }) }];
  const vmi = vmiOf('Running', { spec: { domain: { devices: { interfaces } }, ...(networks && { networks }) } });
  Object.assign(vmi.status ?? {}, { interfaces: [{ name: 'fast', infoSource }], ...status });
  if (isInGuest)
    domain.Spec.Devices = {
      ...domain.Spec.Devices,
      HostDevices: [{ Alias: { Name: 'sriov-fast', UserDefined: true } }],
    };
  return { vmi: presentVmi(vmi), domain: seen(domain), memory: memory(remembered) };
}

export const triedAt = (count: number, sinceMs: number, firstMs = sinceMs) => ({
  count,
  firstMs: nowMs - firstMs,
  lastMs: nowMs - sinceMs,
});

const failedMigration = {
  ...migrating,
  startTimestamp: '2026-01-01T00:00:00Z',
  endTimestamp: '2026-01-01T00:01:00Z',
  completed: true,
  failed: true,
};

const plugs = { steps: ['adjustHost', 'hotplugHostDevices'], requeueAfterMs: 0 };

export const sriovRows: readonly Row[] = [
  {
    rule: 'sriov-plug-due',
    when: 'it arrived without the device that its pod here has',
    given: sriov(),
    expect: plugs,
  },
  {
    rule: 'sriov-plug-due',
    when: 'it lacks the device of a claim, of which Multus knows nothing',
    given: sriov({ infoSource: '', isClaimed: true }),
    expect: plugs,
  },
  {
    rule: 'sriov-plug-due',
    when: 'it gave its device up for a migration that has failed, and stayed',
    given: sriov({ status: { migrationState: failedMigration } }),
    expect: plugs,
  },
  {
    rule: 'sriov-plug-due',
    when: 'it gave its device up for a migration that was aborted, and stayed',
    given: sriov({
      status: { migrationState: { ...failedMigration, abortRequested: true, abortStatus: 'Succeeded' } },
    }),
    expect: plugs,
  },
  {
    rule: 'sriov-plug-due',
    when: 'its user has paused it',
    given: sriov({ domain: domainOf('Paused', 'User') }),
    expect: plugs,
  },
  {
    rule: 'steady',
    when: 'it has its device',
    given: sriov({ infoSource: 'domain, multus-status', isInGuest: true }),
    expect: { steps: [], healthy: true, requeueAfterMs: undefined },
  },
  {
    rule: 'steady',
    when: 'its pod has no such device',
    given: sriov({ infoSource: 'domain' }),
    expect: { steps: [], healthy: true, requeueAfterMs: undefined },
  },
  {
    rule: 'steady',
    when: 'its interface is not wanted any more',
    given: sriov({ state: 'absent' }),
    expect: { steps: [], healthy: true, requeueAfterMs: undefined },
  },
  {
    rule: 'vmi-changed',
    when: 'it lacks its device, and its launcher was not given the VMI as it is now',
    given: { ...sriov(), syncFingerprint: 'newer' },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'], requeueAfterMs: 0 },
  },
  {
    rule: 'steady',
    when: 'its launcher was told a second ago, and the device may still come',
    given: sriov({ plugTries: triedAt(1, 1_000) }),
    expect: { steps: [], healthy: true, requeueAfterMs: 2_000 },
  },
  {
    rule: 'sriov-plug-due',
    when: 'its launcher was told, and nothing has come of it',
    given: sriov({ plugTries: triedAt(1, 3_000) }),
    expect: { steps: ['refreshDomain', ...plugs.steps], requeueAfterMs: 0 },
  },
  {
    rule: 'steady',
    when: 'it was tried for five hours in vain',
    given: sriov({ plugTries: triedAt(40, 3_600_000, 5 * 3_600_000) }),
    expect: { steps: [], requeueAfterMs: undefined },
  },
  {
    rule: 'migration-ports-awaited',
    when: 'it lacks its device because it is about to leave',
    given: sriov({ status: { migrationState: migrating } }),
    expect: { steps: [] },
  },
];
