import {
  findCondition,
  hasLeftForElsewhere,
  isMigrationTarget,
  type MigrationState,
  migrationEnd,
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { listOf, memberAt, sameJson } from '../../base/index.ts';
import { claimNameOf } from '../pod/index.ts';
import type { MigrationFacts } from './observation.ts';

/** Of a VMI, written by virt-synchronization-controller: why it cannot reach the other side. */
const unreachable = 'DecentralizedLiveMigrationFailure';

export const isSourceEnd = ({ migration }: Pick<MigrationFacts, 'migration'>) => migrationEnd(migration) === 'source';
export const isTargetEnd = ({ migration }: Pick<MigrationFacts, 'migration'>) => migrationEnd(migration) === 'target';

/** The VMI's account of this migration from the moment on that its synchronization controller can see it, before any agent does. */
export function announcedState({ migration, vmi, uid }: MigrationFacts): MigrationState | undefined {
  const end = migrationEnd(migration);
  const state = vmi?.status?.migrationState;
  if (!end || !state) return undefined;
  const own = end === 'source' ? state.sourceState : state.targetState;
  return own?.migrationUID === uid ? state : undefined;
}

/** It has what the synchronization controller looks for. */
export function isAnnounced(facts: MigrationFacts): boolean {
  const state = announcedState(facts);
  if (!state) return false;
  const { sendTo } = facts.migration.spec;
  return !sendTo || (state.targetState?.syncAddress === sendTo.connectURL && state.sourceState !== undefined);
}

/** Both objects know of each other. */
export function areJoined(facts: MigrationFacts): boolean {
  const { sourceState, targetState } = announcedState(facts) ?? {};
  return Boolean(sourceState?.migrationUID && targetState?.migrationUID);
}

/** The target can make its pod: it knows where the guest is. Upstream waits for labels of that node, too, which it need not have. */
export function isSourceKnown(facts: MigrationFacts): boolean {
  const { sourceState } = announcedState(facts) ?? {};
  return areJoined(facts) && Boolean(sourceState?.node && sourceState.pod);
}

/** What the other side has to know of the guest here; undefined: nothing can be said yet. */
export function sourceDescription({ vmi, sourcePod, nodeLabels, uid, keptState }: MigrationFacts) {
  const node = vmi?.status?.nodeName;
  if (!vmi || !node || !sourcePod) return undefined;
  const { name: pod } = sourcePod.metadata;
  const [claim] = keptState.sources;
  const { selinuxContext } = vmi.status ?? {};
  const persistentStatePVCName = claim?.metadata.name;
  return {
    state: { migrationUid: uid, sourceNode: node, sourcePod: pod },
    sourceState: {
      node,
      pod,
      ...(selinuxContext !== undefined && { selinuxContext }),
      ...(persistentStatePVCName !== undefined && { persistentStatePVCName }),
      nodeSelectors: selectorsOf(nodeLabels),
    },
  };
}

const neededLabels = [
  'host-model-cpu.node.kubevirt.io/',
  'host-model-required-features.node.kubevirt.io/',
  'cpu-vendor.node.kubevirt.io/',
];
const architecture = 'kubernetes.io/arch';

/** Never empty: an empty map is lost on its way, and a controller of upstream's on the other side waits for one. */
function selectorsOf(nodeLabels: Readonly<Record<string, string>>): Record<string, string> {
  const found = Object.entries(nodeLabels).filter(([name]) => neededLabels.some((prefix) => name.startsWith(prefix)));
  if (found.length > 0) return Object.fromEntries(found);
  return { [architecture]: nodeLabels[architecture] ?? 'amd64' };
}

/** The state says all of it. What a volume is copied to the synchronization controller replaces by the other side's own words, which stay. */
export function isDescribed(facts: MigrationFacts): boolean {
  const description = sourceDescription(facts);
  const state = announcedState(facts);
  if (!description || !state) return false;
  const has = (wanted: object, there: object | undefined) => sameJson({ ...there, ...wanted }, there);
  const ownWords = (volumes: readonly unknown[]) =>
    volumes.map((each) => [memberAt(each, 'volumeName'), memberAt(each, 'sourcePVCInfo')]);
  const isListed = sameJson(ownWords(listOf(facts.vmi?.status?.migratedVolumes)), ownWords(copiedVolumes(facts)));
  return has(description.state, state) && has(description.sourceState, state.sourceState) && isListed;
}

/** All volumes on claims: nothing is shared between two places. The other side has claims of the same names. */
export function copiedVolumes({ vmi, claims }: Pick<MigrationFacts, 'vmi' | 'claims'>): object[] {
  return (vmi?.spec.volumes ?? []).flatMap((volume) => {
    const name = claimNameOf(volume);
    const claim = volume.memoryDump || name === undefined ? undefined : claims.get(name);
    if (!claim) return [];
    const info = claimInfo(claim);
    return [{ volumeName: volume.name, sourcePVCInfo: info, destinationPVCInfo: info }];
  });
}

function claimInfo({ metadata, spec, status }: PersistentVolumeClaim): object {
  return {
    claimName: metadata.name,
    ...(spec.accessModes && { accessModes: spec.accessModes }),
    ...(spec.volumeMode !== undefined && { volumeMode: spec.volumeMode }),
    ...(spec.resources?.requests && { requests: spec.resources.requests }),
    ...(status?.capacity && { capacity: status.capacity }),
  };
}

/** In the words of the synchronization controller; undefined: it says of nothing that it went wrong. */
export function troubleOf(vmi: VirtualMachineInstance | undefined): { reason: string; message: string } | undefined {
  const found = findCondition(vmi?.status?.conditions, unreachable);
  if (found?.status !== 'True') return undefined;
  return { reason: found.reason || 'DecentralizedNotLiveMigratable', message: found.message ?? '' };
}

/** Why the object cannot be one end of a migration, whatever the other one is; undefined: it can. */
export function faultOf({ migration, vmi }: MigrationFacts): string | undefined {
  const { sendTo, receive } = migration.spec;
  if (sendTo && receive) return 'it names both sendTo and receive: make two objects, each of them beside its own VMI';
  if (!sendTo?.migrationID && !receive?.migrationID)
    return 'it lacks the migrationID by which the other object is found';
  if (sendTo && !sendTo.connectURL) {
    return 'sendTo lacks connectURL, the address (host:port) of virt-synchronization-controller of the other side';
  }
  if (!vmi) return undefined;
  if (sendTo && isMigrationTarget(vmi)) return 'its VMI waits for a guest itself';
  if (receive && !isMigrationTarget(vmi)) {
    return 'its VMI was not made to receive a guest: give its VM the runStrategy WaitAsReceiver before it has one';
  }
  return undefined;
}

/** The VMI of a source may be over: that is what its migration wanted. */
export function hasLeftAsWanted({ migration, vmi, uid }: MigrationFacts): boolean {
  return isSourceEnd({ migration }) && vmi?.status?.migrationState?.migrationUid === uid && hasLeftForElsewhere(vmi);
}
