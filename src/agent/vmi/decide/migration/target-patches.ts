import { annotations, hasDedicatedCpus, labels, type NumaCell } from '../../../../api/index.ts';
import { isRecord, rfc3339 } from '../../../../base/index.ts';
import type { ProxyPorts } from '../../../migration-proxy/ports.ts';
import type { Facts } from '../facts.ts';
import type { VmiPatch } from '../rule.ts';
import { hasArrived, isActive, notesOf, stageOf, stateOf, targetStateOf, timeOr } from './target-view.ts';

type Json = Readonly<Record<string, unknown>>;

/** `targetState` repeats some fields; it is never made where there is none (pkg/virt-handler/migration-target.go). */
function inState(facts: Facts, fields: Json, mirrored: Json): Json {
  const hasMirror = targetStateOf(facts) !== undefined && Object.keys(mirrored).length > 0;
  return { migrationState: { ...fields, ...(hasMirror && { targetState: mirrored }) } };
}

/** What is seen of the guest on its way; undefined when all of it is written down. */
export function progressPatch(facts: Facts): VmiPatch | undefined {
  const { fields, mirrored } = progressOf(facts);
  if (Object.keys(fields).length === 0) return undefined;
  const isReady = 'targetNodeDomainReadyTimestamp' in fields;
  return { status: inState(facts, fields, mirrored), ...(isReady && withoutMigrationRequired(facts)) };
}

function progressOf(facts: Facts): { fields: Json; mirrored: Json } {
  const state = stateOf(facts);
  const isHere = facts.domainState.kind === 'alive' || hasArrived(facts);
  const isDetected = isHere && state?.targetNodeDomainDetected !== true;
  const isReady = (isActive(facts) || hasArrived(facts)) && !state?.targetNodeDomainReadyTimestamp;
  const now = rfc3339(facts.observation.now);
  return {
    fields: {
      ...(isDetected && { targetNodeDomainDetected: true }),
      ...(isReady && { targetNodeDomainReadyTimestamp: now }),
    },
    mirrored: { ...(isDetected && { domainDetected: true }), ...(isReady && { domainReadyTimestamp: now }) },
  };
}

/** Only what is there: an object with conditions of a wrong type must not be held up by this. */
function withoutMigrationRequired({ vmi }: Facts): Pick<VmiPatch, 'removeConditions'> {
  const isThere = vmi?.status?.conditions?.some(({ type }) => type === 'MigrationRequired');
  return isThere ? { removeConditions: ['MigrationRequired'] } : {};
}

/** The VMI becomes this node's, all in one write, so that no node loses sight of it (pkg/virt-handler/migration-target.go). */
export function handOverPatch(facts: Facts): VmiPatch {
  const { nodeName, now } = facts.observation;
  const state = stateOf(facts);
  const notes = notesOf(facts);
  const endTimestamp = timeOr(notes?.EndTimestamp, now);
  const { fields, mirrored } = progressOf(facts);
  const overhead = state?.targetMemoryOverhead;
  const times = {
    ...(!state?.startTimestamp && { startTimestamp: timeOr(notes?.StartTimestamp ?? endTimestamp, now) }),
    endTimestamp,
    // It had waited for its memory on the way.
    ...(state?.failureReason && { failureReason: null }),
  };
  return {
    labels: { [labels.nodeName]: nodeName, [labels.outdatedLauncherImage]: null },
    annotations: { [annotations.evictionSource]: null },
    status: {
      ...inState(facts, { ...fields, ...times }, mirrored),
      nodeName,
      // Empty on the wire is left out by upstream's writers.
      launcherContainerImageVersion: null,
      evacuationNodeName: null,
      migrationTransport: 'Unix',
      ...(overhead !== undefined && overhead !== null && { memory: { memoryOverhead: overhead } }),
    },
    ...withoutMigrationRequired(facts),
    events: [
      { type: 'Normal', reason: 'Migrated', message: `The VirtualMachineInstance migrated to node ${nodeName}.` },
    ],
  };
}

/** Undefined: the VMI names exactly the listeners that are open, and the CPUs if it has its own; nothing is to be published. */
export function publishPatch(facts: Facts): VmiPatch | undefined {
  const { targetPorts: ports, address } = facts.observation.migrationProxies;
  if (!ports) return undefined;
  const state = stateOf(facts);
  const mirror = targetStateOf(facts);
  const isFlatSame = isPublished(state?.targetNodeAddress, state?.targetDirectMigrationNodePorts, address, ports);
  const isMirrorSame = !mirror || isPublished(mirror.nodeAddress, mirror.directMigrationNodePorts, address, ports);
  const cpus = cpuFields(facts);
  if (isFlatSame && isMirrorSame && Object.keys(cpus).length === 0) return undefined;
  const list = Object.keys(ports).join(',');
  return {
    status: inState(
      facts,
      {
        targetNodeAddress: address,
        targetDirectMigrationNodePorts: replacing(state?.targetDirectMigrationNodePorts, ports),
        ...cpus,
      },
      { nodeAddress: address, directMigrationNodePorts: replacing(mirror?.directMigrationNodePorts, ports) },
    ),
    events: [
      { type: 'Normal', reason: 'PreparingTarget', message: 'VirtualMachineInstance Migration Target Prepared.' },
      {
        type: 'Normal',
        reason: 'PreparingTarget',
        message: `Migration Target is listening at ${address}, on ports: ${list}`,
      },
    ],
  };
}

/** By value and ports: upstream compares the address only, and ports of an agent that was started again stay unknown. */
function isPublished(address: unknown, published: unknown, wanted: string, ports: ProxyPorts): boolean {
  if (address !== wanted || !isRecord(published)) return false;
  const names = Object.keys(published);
  return names.length === Object.keys(ports).length && names.every((name) => published[name] === ports[name]);
}

/** A merge keeps what it does not name: ports that are closed are taken out by name. */
function replacing(published: unknown, ports: ProxyPorts): Json {
  const old = isRecord(published) ? Object.keys(published) : [];
  return { ...Object.fromEntries(old.map((port) => [port, null])), ...ports };
}

/**
 * What the source must know to pin the guest's CPUs for this node (pkg/virt-handler/migration-target.go): fields of
 * `migrationState`; none when the guest has no CPUs of its own or all is written.
 */
function cpuFields(facts: Facts): Json {
  const stage = stageOf(facts);
  const cpuSet = stage?.kind === 'prepared' ? stage.cpuSet : undefined;
  if (!hasDedicatedCpus(facts.vmi) || !cpuSet) return {};
  const state = stateOf(facts);
  const topology = JSON.stringify(goTopology(facts.observation.syncOptions.topology ?? []));
  const isWritten =
    state?.targetNodeTopology === topology && JSON.stringify(state.targetCPUSet) === JSON.stringify(cpuSet);
  return isWritten ? {} : { targetCPUSet: [...cpuSet], targetNodeTopology: topology };
}

/**
 * As Go writes the message `Topology` (pkg/handler-launcher-com/cmd/v1/cmd.proto): names of the proto file, nothing that is
 * zero or empty.
 */
function goTopology(cells: readonly NumaCell[]): Json {
  return withoutZeros({
    numa_cells: cells.map(({ id, memory, pages, distances, cpus }) =>
      withoutZeros({
        id,
        memory: memory && withoutZeros({ amount: memory.amount, unit: memory.unit }),
        pages: pages.map(({ count, unit, size }) => withoutZeros({ count, unit, size })),
        distances: distances.map((distance) => withoutZeros({ id: distance.id, value: distance.value })),
        cpus: cpus.map((cpu) => withoutZeros({ id: cpu.id, siblings: cpu.siblings })),
      }),
    ),
  });
}

function withoutZeros(fields: Json): Json {
  const isZero = (value: unknown) => !value || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isZero(value)));
}
