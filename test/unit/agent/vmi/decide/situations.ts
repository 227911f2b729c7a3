import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import type {
  Domain,
  DomainView,
  LauncherState,
  MigrationMetadata,
  MigrationState,
  VmiPhase,
} from '../../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  launcherDead,
  node,
  observationOf,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { asSource, asTarget, remembered } from '../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { fromElsewhere, toElsewhere } from './rule-rows/decentralised.ts';
import { unplaced } from './rule-rows/placement.ts';

/** The parts of which the decision matrix is made. */
export const phases: readonly VmiPhase[] = [
  '',
  'Pending',
  'Scheduling',
  'Scheduled',
  'Running',
  'Succeeded',
  'Failed',
  'WaitingForSync',
  'Unknown',
];

export const launchers: readonly (readonly [name: string, launcher: LauncherState])[] = [
  ['ready', { kind: 'ready', connected: true }],
  ['no socket', { kind: 'not-ready', forMs: 10 }],
  ['dead', { kind: 'dead', reason: 'ended' }],
  ['unclear', { kind: 'unclear', reason: '?' }],
];

type Notes = Partial<MigrationMetadata> | undefined;
type DomainOf = (notes: Notes) => DomainView;

const over = { EndTimestamp: '2026-01-02T03:05:00Z' };

const shown =
  (status: Domain['Status']['Status'], reason: Domain['Status']['Reason'] = 'Unknown', more: Notes = {}): DomainOf =>
  (notes) =>
    seen(domainOf(status, reason, notes ? { Migration: { ...noMigration, ...notes, ...more } } : {}));

export const domains: readonly (readonly [name: string, domain: DomainOf])[] = [
  ['running', shown('Running')],
  ['running, migration over', shown('Running', 'Unknown', over)],
  ['paused by user', shown('Paused', 'User')],
  ['paused by migration', shown('Paused', 'Migration')],
  ['post-copy failed', shown('Paused', 'PostcopyFailed', over)],
  ['starting up', shown('Paused', 'StartingUp')],
  ['shutting down', shown('ShuttingDown', 'User')],
  ['shutoff unknown', shown('Shutoff')],
  ['shutoff shutdown', shown('Shutoff', 'Shutdown', over)],
  ['shutoff destroyed', shown('Shutoff', 'Destroyed', over)],
  ['shutoff failed', shown('Shutoff', 'Failed', over)],
  ['shutoff migrated', shown('Shutoff', 'Migrated', over)],
  ['crashed panicked', shown('Crashed', 'Panicked')],
  ['none', () => domainNone],
  ['launcher ended', () => launcherDead],
  ['unknown', () => domainUnknown],
  ['never heard of', () => ({ kind: 'absent' })],
];

export interface Role {
  readonly name: string;
  readonly about: string;
  /** `sourceNode`, `targetNode` and so on of a migration; undefined: there is none. */
  readonly state?: MigrationState;
  readonly owner: string;
  readonly target?: string;
  /** What launchers note about the migration. */
  readonly notes?: Partial<MigrationMetadata>;
  readonly given?: Partial<Observation>;
}

const begun = { startTimestamp: '2026-01-02T03:04:00Z' };
const ended = { ...begun, endTimestamp: '2026-01-02T03:05:00Z' };
const away = { migrationUid: 'm1', sourceNode: node, targetNode: 'node2' };
const hither = { migrationUid: 'm1', sourceNode: 'node2', targetNode: node };
const ports = { '40000': 0, '40001': 49_152 } as const;
const published = { targetNodeAddress: '10.0.0.1', targetDirectMigrationNodePorts: ports };
const notes = { UID: 'm1', StartTimestamp: '2026-01-02T03:04:00Z', Mode: 'PreCopy' } as const;
const { migrationProxies } = observationOf();
const open = { ...migrationProxies, targetPorts: ports };
const memory = remembered({ migration: asTarget() });
const prepared = remembered({ migration: asTarget({ preparedMs: 1 }) });

const elsewhere = vmiOf('Running', { status: { nodeName: 'node2' } });
elsewhere.metadata.labels = { 'kubevirt.io/nodeName': 'node2' };

export const roles: readonly Role[] = [
  { name: 'none', about: 'the VMI is this node’s and stays', owner: node },
  {
    name: 'source',
    about: 'the VMI is to leave: ports are published, nothing is sent',
    owner: node,
    target: 'node2',
    state: { ...away, ...published, targetNodeAddress: '10.0.0.2' },
  },
  {
    name: 'source',
    about: 'the guest is on its way to another node',
    owner: node,
    target: 'node2',
    state: { ...away, ...published, ...begun, mode: 'PreCopy' },
    notes,
    given: {
      memory: remembered({ migration: asSource({ sentMs: 1 }) }),
      migrationProxies: { ...migrationProxies, hasSource: true },
    },
  },
  {
    name: 'target',
    about: 'the guest is to come: nothing is prepared',
    owner: 'node2',
    target: node,
    state: hither,
    notes,
    given: { memory },
  },
  {
    name: 'target',
    about: 'the guest is on its way here',
    owner: 'node2',
    target: node,
    state: { ...hither, ...published, ...begun },
    notes,
    given: { memory: prepared, migrationProxies: open },
  },
  {
    name: 'target',
    about: 'the migration to this node has failed',
    owner: 'node2',
    target: node,
    state: { ...hither, ...published, ...ended, failed: true, completed: true },
    notes,
    given: { memory: prepared },
  },
  {
    name: 'arrived',
    about: 'the guest has come, its migration is not finished',
    owner: node,
    target: node,
    state: { ...hither, ...published, ...ended },
    notes: { ...notes, ...over },
    given: { memory: prepared, migrationProxies: open },
  },
  {
    name: 'arrived',
    about: 'the migration is completed',
    owner: node,
    target: node,
    state: { ...hither, ...published, ...ended, completed: true },
    notes: { ...notes, ...over },
    given: { memory: prepared },
  },
  {
    name: 'leaves for another VMI',
    about: 'the guest of a VMI is on its way to become that of another VMI',
    owner: node,
    state: { ...away, ...published, ...begun, ...toElsewhere },
    notes,
    given: {
      memory: remembered({ migration: asSource({ sentMs: 1 }) }),
      migrationProxies: { ...migrationProxies, hasSource: true },
    },
  },
  {
    name: 'leaves for another VMI',
    about: 'the other VMI has told that it runs there',
    owner: node,
    state: { ...away, ...published, ...ended, ...toElsewhere, completed: true },
    notes,
  },
  {
    name: 'comes from another VMI',
    about: 'the guest of another VMI is on its way here, to a VMI that is this node’s already',
    owner: node,
    target: node,
    state: { ...hither, ...published, ...begun, ...fromElsewhere },
    notes: { ...notes, UID: 's1' },
    given: { memory: prepared, migrationProxies: open },
  },
  {
    name: 'dedicated',
    about: 'its threads wait to be placed on CPUs of their own',
    owner: node,
    given: { ...unplaced(), memory: remembered({ synced: { fingerprint: 'same', atMs: 1 } }) },
  },
  { name: 'dedicated', about: 'its threads cannot be placed', owner: node, given: unplaced() },
  {
    name: 'orphan',
    about: 'the VMI is another node’s',
    owner: 'node2',
    given: { vmi: { kind: 'elsewhere', vmi: elsewhere } },
  },
  { name: 'gone', about: 'the API server has no such VMI', owner: node, given: { vmi: { kind: 'deleted' } } },
  {
    name: 'unclear',
    about: 'the API server gave no answer',
    owner: node,
    given: { vmi: { kind: 'unclear', reason: '?' } },
  },
];

/** The VMI of a role has a phase: the others are looked at once. */
export const hasPhase = ({ given }: Role): boolean => given?.vmi === undefined;

export function situation(
  role: Role,
  phase: VmiPhase,
  isDeleted: boolean,
  domain: DomainOf,
  launcher: LauncherState,
): Observation {
  const vmi = vmiOf(phase, { status: { nodeName: role.owner } });
  vmi.metadata.labels = { 'kubevirt.io/nodeName': role.owner };
  if (role.target) vmi.metadata.labels['kubevirt.io/migrationTargetNodeName'] = role.target;
  if (isDeleted) vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
  if (role.state) vmi.status = { ...vmi.status, migrationState: role.state };
  return observationOf({
    vmi: presentVmi(vmi),
    memory: remembered(),
    ...role.given,
    domain: domain(role.notes),
    launcher,
  });
}
