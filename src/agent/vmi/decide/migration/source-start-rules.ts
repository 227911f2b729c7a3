import { isIP } from 'node:net';
import type { MigrationState } from '../../../../api/index.ts';
import { isRecord } from '../../../../base/index.ts';
import { type ProxyPorts, type ProxyRole, proxyRoles } from '../../../migration-proxy/ports.ts';
import { syncedOf } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { isRefusedForGood, proxyRefusal } from './failed-migration.ts';
import { giveUp, planLeaving, type SourceTest, whenLeaving } from './source-rule.ts';
import { firstTryMs, rememberMigration, type SourceView } from './source-view.ts';

/** Fallback: the published ports come with the VMI's own event. */
const portsRetryMs = 30_000;
/** Upstream has no limit for a start that is refused again and again; the user would wait for ever. */
const startLimitMs = 300_000;

const isStartable: SourceTest = ({ phase, domainState }, { begun }) =>
  !begun && phase === 'Running' && domainState.kind === 'alive' && domainState.runs;

const hasTriedLong: SourceTest = ({ observation }, { memory }) =>
  memory.order.kind !== 'none' && observation.nowMs - memory.order.firstTryMs >= startLimitMs;

function start(facts: Facts, view: SourceView): Plan {
  const published = publishedPorts(view.state);
  if (published.kind !== 'ready') return rest;
  const { uid, observation } = facts;
  const { address, ports } = published;
  return {
    steps: [
      { step: 'openSourceProxies', uid, address, ports },
      { step: 'migrateVirtualMachine', uid, migrationUid: view.migrationUid },
    ],
    requeueAfterMs: 0,
    remember: rememberMigration(view, { order: { kind: 'tried', firstTryMs: firstTryMs(view) ?? observation.nowMs } }),
  };
}

const refusal = { isRefusal: true } as const;

/** Nothing else is to be done for this guest: the default rules go first. */
const isQuiet = ({ observation, domainState }: Facts) =>
  domainState.kind === 'alive' &&
  syncedOf(observation.memory)?.fingerprint === observation.syncFingerprint &&
  domainState.domain.Status.Reason !== 'IOError';

/** A migration that the launcher does not have yet. */
export const sourceStartRules: readonly Rule[] = [
  {
    name: 'migration-aborted-before-start',
    why: 'The migration was cancelled before the guest began to move, so it is not begun.',
    when: whenLeaving((_facts, { state, begun }) => !begun && state.abortRequested === true),
    plan: giveUp(() => 'Live migration has been aborted before it began', { more: { abortStatus: 'Succeeded' } }),
  },
  {
    name: 'migration-refused-here',
    why: 'This node agent cannot carry the streams of a migration now, so the migration fails and the guest goes on here.',
    when: whenLeaving((facts, { begun }) => !begun && proxyRefusal(facts) !== undefined),
    plan: (facts) => giveUp(() => proxyRefusal(facts) ?? '', { isRefusal: isRefusedForGood(facts) })(facts),
  },
  {
    name: 'migration-refused-by-launcher',
    why: 'The launcher refused to migrate the guest; asking again would change nothing, so the migration fails.',
    when: whenLeaving((_facts, { begun, memory }) => !begun && memory.order.kind === 'refused'),
    plan: giveUp((_facts, { memory }) => (memory.order.kind === 'refused' ? memory.order.refusal : ''), refusal),
  },
  {
    name: 'migration-ports-unusable',
    why: 'The target node has published an address or ports that cannot be used, so the migration fails.',
    when: whenLeaving((_facts, { begun, state }) => !begun && publishedPorts(state).kind === 'unusable'),
    plan: giveUp((_facts, { state }) => {
      const published = publishedPorts(state);
      return published.kind === 'unusable' ? published.why : '';
    }, refusal),
  },
  {
    name: 'migration-start-given-up',
    why: 'The migration could not be started for five minutes, so it fails and the guest goes on here.',
    when: whenLeaving((facts, view) => !view.begun && hasTriedLong(facts, view)),
    plan: giveUp(({ observation }) => {
      const { reportedProblem } = observation.memory.reports;
      return `the migration could not be started for ${startLimitMs / 60_000} minutes${reportedProblem ? `: ${reportedProblem}` : ''}`;
    }),
  },
  {
    name: 'migration-start-due',
    why: 'The target node is ready for the guest: the streams are opened and the launcher is told to migrate it.',
    when: whenLeaving((facts, view) => isStartable(facts, view) && publishedPorts(view.state).kind === 'ready'),
    plan: planLeaving(start),
  },
  {
    name: 'migration-ports-awaited',
    why: 'The guest is to be migrated and the target node has not published its ports yet; its event is awaited.',
    when: whenLeaving((facts, view) => isStartable(facts, view) && isQuiet(facts)),
    plan: () => ({ ...wait(portsRetryMs), healthy: true }),
  },
];

/** What the target node has published of its listeners (pkg/virt-handler/migration-proxy). */
type PublishedPorts =
  | { readonly kind: 'none' }
  | { readonly kind: 'ready'; readonly address: string; readonly ports: ProxyPorts }
  /** Another node wrote what no client can connect to. */
  | { readonly kind: 'unusable'; readonly why: string };

const roles: readonly number[] = Object.values(proxyRoles);

export function publishedPorts(state: MigrationState): PublishedPorts {
  const { targetNodeAddress: address, targetDirectMigrationNodePorts: given } = state;
  if (!address || !isRecord(given) || Object.keys(given).length === 0) return { kind: 'none' };
  if (typeof address !== 'string' || isIP(address) === 0) {
    return { kind: 'unusable', why: `the target node's address ${JSON.stringify(address)} is no IP address` };
  }
  const ports = Object.entries(given).filter((entry): entry is [string, ProxyRole] => isPort(entry));
  const [libvirt, direct, block] = roles.map((role) => ports.filter(([, each]) => each === role).length);
  const isWhole = ports.length === Object.keys(given).length && libvirt === 1 && direct === 1 && (block ?? 0) <= 1;
  if (isWhole) return { kind: 'ready', address, ports: Object.fromEntries(ports) };
  const text = JSON.stringify(given);
  return { kind: 'unusable', why: `the target node's ports ${text.slice(0, 200)} are not one for each kind of stream` };
}

function isPort([port, role]: [string, unknown]): boolean {
  return /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535 && typeof role === 'number' && roles.includes(role);
}
