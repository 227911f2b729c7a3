import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findCondition, type Interface, type VmiInterfaceStatus, type VmiStatus } from '../../../../src/api/index.ts';
import { projectVmi } from '../../../../src/controller/vmi/project.ts';
import { buildRunningPod, buildVmi, buildVmiFacts } from '../builders.ts';

const link = 'pod16477688c0e';
const since = '2026-01-01T00:00:00Z';
const inGuest: VmiInterfaceStatus = { name: 'blue', infoSource: 'domain, multus-status', podInterfaceName: link };
const inPodOnly: VmiInterfaceStatus = { ...inGuest, infoSource: 'multus-status' };
const condition = (status: 'True' | 'False') => ({ type: 'MigrationRequired', status, lastTransitionTime: since });
const migrating: VmiStatus = { migrationState: { migrationUid: 'm', startTimestamp: since } };

interface Row {
  readonly when: string;
  readonly iface?: Partial<Interface>;
  readonly entry?: VmiInterfaceStatus;
  /** What Multus calls the network of the pod's link; undefined: the pod has no such link. */
  readonly attached?: string;
  readonly status?: VmiStatus;
  /** Since 00:00:00. */
  readonly seconds?: number;
  /** `Status/Reason`; empty: no such condition. */
  readonly expected: string;
}

const rows: readonly Row[] = [
  { when: 'all of it is there', entry: inGuest, attached: 'default/test1', expected: '' },
  { when: 'a new network is in its pod already', attached: 'default/test1', expected: '' },
  { when: 'a new network is missing in its pod', expected: 'False/AutoMigrationPending' },
  {
    when: 'Multus has not had its time',
    status: { conditions: [condition('False')] },
    seconds: 14,
    expected: 'False/AutoMigrationPending',
  },
  {
    when: 'Multus has had its time',
    status: { conditions: [condition('False')] },
    seconds: 15,
    expected: 'True/AutoMigrationDueToLiveUpdate',
  },
  {
    when: 'Multus has done it in time',
    entry: inGuest,
    attached: 'default/test1',
    status: { conditions: [condition('False')] },
    expected: '',
  },
  {
    when: 'a function of a device is missing, which nobody plugs in',
    iface: { bridge: undefined, sriov: {} } as never,
    expected: 'True/AutoMigrationDueToLiveUpdate',
  },
  {
    when: 'an absent one is still in the guest',
    iface: { state: 'absent' },
    entry: inGuest,
    attached: 'default/test1',
    expected: '',
  },
  {
    when: 'an absent one is still in the pod',
    iface: { state: 'absent' },
    entry: inPodOnly,
    attached: 'default/test1',
    expected: 'False/AutoMigrationPending',
  },
  { when: 'an absent one is nowhere', iface: { state: 'absent' }, expected: '' },
  {
    when: 'the pod is on another network than it shall be',
    entry: inGuest,
    attached: 'default/old',
    expected: 'True/AutoMigrationDueToLiveUpdate',
  },
  { when: 'it migrates', status: migrating, expected: '' },
  {
    when: 'it was said before, and it migrates',
    status: { ...migrating, conditions: [condition('True')] },
    expected: 'True/-',
  },
];

for (const { when, iface, entry, attached, status, seconds = 0, expected } of rows) {
  test(`whether a VMI has to migrate for its networks: ${when}`, () => {
    const interfaces = [{ name: 'blue', bridge: {}, ...iface }] as Interface[];
    const networks = [{ name: 'blue', multus: { networkName: 'test1' } }];
    const domain = { devices: { interfaces } };
    const vmi = buildVmi({ domain, networks }, { phase: 'Running', ...status, ...(entry && { interfaces: [entry] }) });
    const pod = buildRunningPod();
    const reported = attached === undefined ? [] : [{ name: attached, interface: link }];
    pod.metadata.annotations = { 'k8s.v1.cni.cncf.io/network-status': JSON.stringify(reported) };
    const now = new Date(Date.parse(since) + seconds * 1000);
    const seen = buildVmiFacts({ vmi, pod, now, hasOwnerVm: true });
    const projected = projectVmi(seen, { randomUuid: () => '', vsockCid: () => 3 });
    const found = findCondition(projected.status?.conditions, 'MigrationRequired');
    assert.equal(found ? `${found.status}/${found.reason ?? '-'}` : '', expected);
  });
}
