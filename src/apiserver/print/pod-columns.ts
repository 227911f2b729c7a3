import type { Column } from '../api-type.ts';
import { type ApiObject, at, type JsonObject, numberAt, objectsAt, stringAt } from '../object.ts';
import { ageColumn, column, nameColumn, wide } from './column.ts';
import { age } from './duration.ts';

const orNone = (text: string | undefined) => (text ? text : '<none>');

export const podColumns: readonly Column[] = [
  nameColumn,
  column('Ready', readyCount),
  column('Status', podStatus),
  column('Restarts', restarts),
  ageColumn,
  wide('IP', (pod) => orNone(stringAt(pod, 'status', 'podIP'))),
  wide('Node', (pod) => orNone(stringAt(pod, 'spec', 'nodeName'))),
  wide('Nominated Node', (pod) => orNone(stringAt(pod, 'status', 'nominatedNodeName'))),
  wide('Readiness Gates', readinessGates),
];

function readyCount(pod: ApiObject): string {
  const statuses = objectsAt(pod, 'status', 'containerStatuses');
  const ready = statuses.filter((status) => status.ready === true).length;
  return `${ready}/${objectsAt(pod, 'spec', 'containers').length}`;
}

function restarts(pod: ApiObject, now: Date): string {
  const statuses = objectsAt(pod, 'status', 'containerStatuses');
  const total = statuses.reduce((sum, status) => sum + (numberAt(status, 'restartCount') ?? 0), 0);
  const ends = statuses.map((status) => stringAt(status, 'lastState', 'terminated', 'finishedAt') ?? '').sort();
  const last = ends.at(-1);
  return total > 0 && last ? `${total} (${age(last, now)} ago)` : String(total);
}

/** The word kubectl shows: the reason of what waits or ended, else the phase. */
function podStatus(pod: ApiObject): string {
  const reason = stringAt(pod, 'status', 'reason');
  if (at(pod, 'metadata', 'deletionTimestamp') !== undefined) {
    return reason === 'NodeLost' ? 'Unknown' : 'Terminating';
  }
  const init = initReason(pod);
  if (init !== undefined) return init;
  const phase = reason ?? stringAt(pod, 'status', 'phase') ?? 'Unknown';
  const statuses = objectsAt(pod, 'status', 'containerStatuses');
  const reasons = [...statuses]
    .reverse()
    .map(containerReason)
    .filter((word) => word !== undefined);
  const shown = reasons.at(-1) ?? phase;
  const isRunning = statuses.some((status) => status.ready === true && at(status, 'state', 'running') !== undefined);
  if (shown !== 'Completed' || !isRunning) return shown;
  return isReady(pod) ? 'Running' : 'NotReady';
}

function containerReason(status: JsonObject): string | undefined {
  const waiting = stringAt(status, 'state', 'waiting', 'reason');
  if (waiting) return waiting;
  const terminated = at(status, 'state', 'terminated');
  return terminated === undefined ? undefined : endReason(terminated);
}

function endReason(terminated: unknown): string {
  const reason = stringAt(terminated, 'reason');
  if (reason) return reason;
  const signal = at(terminated, 'signal');
  return signal ? `Signal:${signal}` : `ExitCode:${at(terminated, 'exitCode') ?? 0}`;
}

function initReason(pod: ApiObject): string | undefined {
  const total = objectsAt(pod, 'spec', 'initContainers').length;
  for (const [index, status] of objectsAt(pod, 'status', 'initContainerStatuses').entries()) {
    const terminated = at(status, 'state', 'terminated');
    if (terminated !== undefined && at(terminated, 'exitCode') === 0) continue;
    if (status.started === true) continue;
    if (terminated !== undefined) return `Init:${endReason(terminated)}`;
    const waiting = stringAt(status, 'state', 'waiting', 'reason');
    return waiting && waiting !== 'PodInitializing' ? `Init:${waiting}` : `Init:${index}/${total}`;
  }
  return undefined;
}

function isReady(pod: ApiObject): boolean {
  return objectsAt(pod, 'status', 'conditions').some(({ type, status }) => type === 'Ready' && status === 'True');
}

function readinessGates(pod: ApiObject): string {
  const gates = objectsAt(pod, 'spec', 'readinessGates');
  if (gates.length === 0) return '<none>';
  const conditions = objectsAt(pod, 'status', 'conditions');
  const met = gates.filter(({ conditionType }) =>
    conditions.some(({ type, status }) => type === conditionType && status === 'True'),
  );
  return `${met.length}/${gates.length}`;
}
