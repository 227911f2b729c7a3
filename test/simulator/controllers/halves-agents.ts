import { annotations, keyOf, labels, resources } from '../../../src/api/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { ClusterStore, Loose } from './store.ts';

export interface HalvesDeps {
  readonly store: ClusterStore;
  readonly chance: Chance;
  readonly now: () => string;
  /** 0: whatever begins ends well. */
  readonly failRate: () => number;
  readonly isSynchronizing: () => boolean;
  readonly onProblem: (text: string) => void;
}

const { pods, migrations, virtualMachineInstances: vmis } = resources;
const isOver = ({ status }: Loose) => status?.phase === 'Succeeded' || status?.phase === 'Failed';
const endOf = ({ spec }: Loose) => (spec?.sendTo ? 'source' : 'target');
const compute = { name: 'compute', ready: true, restartCount: 0, image: 'virt-launcher', imageID: '' };

/** All around the controllers of both ends but the API server, a step at a time: kubelets, agents, and the synchronization controllers between them. */
export class HalvesActors {
  /** UID of the pod that has a guest, by its name. */
  readonly guests = new Map<string, string>();
  readonly #deps: HalvesDeps;

  constructor(deps: HalvesDeps) {
    this.#deps = deps;
  }

  tick(): void {
    const { store, chance, isSynchronizing } = this.#deps;
    for (const pod of store.list(pods)) if (pod.spec?.nodeName && chance.happens(0.5)) this.#kubelet(pod);
    for (const vmi of store.list(vmis)) if (chance.happens(0.5)) this.#agent(vmi);
    if (isSynchronizing()) for (const migration of store.list(migrations)) this.#synchronize(migration);
  }

  #kubelet(pod: Loose): void {
    const { store, chance, now, failRate } = this.#deps;
    const isTarget = pod.metadata.labels?.[labels.migrationJobUid] !== undefined;
    const isGuests = [...this.guests.values()].includes(pod.metadata.uid ?? '');
    const write = (status: object) =>
      store.change(pods, keyOf(pod), (each) => Object.assign(each, { status: { ...each.status, ...status } }));
    if (pod.metadata.deletionTimestamp) {
      if (isGuests) this.#deps.onProblem(`the pod of a guest is deleted: ${keyOf(pod)}`);
      store.delete(pods, keyOf(pod), { graceSeconds: 0 }, 'world');
    } else if ((pod.status?.phase ?? 'Pending') === 'Pending') {
      const state = { running: { startedAt: now() } };
      const ready = { conditions: [{ type: 'Ready', status: 'True' }], containerStatuses: [{ ...compute, state }] };
      write(isTarget && chance.happens(failRate()) ? { phase: 'Failed' } : { phase: 'Running', ...ready });
    } else if (isTarget && !isGuests && !isOver(pod) && chance.happens(failRate() / 10)) write({ phase: 'Failed' });
  }

  #agent(vmi: Loose): void {
    const { metadata, status = {} } = vmi;
    const isReceiver = metadata.annotations?.[annotations.createMigrationTarget] === 'true';
    const state = status.migrationState ?? {};
    if (isReceiver) this.#target(vmi, state);
    else if (status.phase === 'Scheduled') this.#start(vmi);
    else if (status.phase === 'Running') this.#source(vmi, state);
  }

  #write({ metadata }: Loose, status: object, own: object = {}): void {
    this.#deps.store.change(vmis, keyOf({ metadata } as Loose), (each) => {
      const { migrationState, ...rest } = status as Loose['status'];
      Object.assign(each.status, rest);
      if (migrationState) each.status.migrationState = { ...each.status.migrationState, ...migrationState };
      Object.assign(each.metadata, own);
    });
  }

  #start(vmi: Loose): void {
    const { store, onProblem } = this.#deps;
    const [pod] = store.list(pods, (each) => vmi.status.activePods?.[each.metadata.uid ?? ''] !== undefined);
    if (!pod || isOver(pod)) return;
    if (this.guests.has(vmi.metadata.name)) onProblem(`two guests of ${vmi.metadata.name}`);
    this.guests.set(vmi.metadata.name, pod.metadata.uid ?? '');
    this.#write(vmi, { phase: 'Running', selinuxContext: 'none' });
  }

  #target(vmi: Loose, state: Loose['status']): void {
    const { chance, now, failRate } = this.#deps;
    if (vmi.metadata.labels?.[labels.migrationTargetNodeName] === undefined) return;
    const failure = { failed: true, completed: true, endTimestamp: now() };
    const { [labels.migrationTargetNodeName]: _target, ...own } = vmi.metadata.labels;
    if (state.failed) this.#write(vmi, {}, { labels: own });
    else if (state.endTimestamp && !state.completed) this.#write(vmi, { migrationState: failure });
    else if (state.migrationUid && !state.targetNodeAddress) {
      const ready = {
        targetNodeAddress: '10.0.0.2',
        targetState: { ...state.targetState, nodeAddress: '10.0.0.2' },
      };
      this.#write(vmi, { migrationState: chance.happens(failRate()) ? failure : ready });
    }
  }

  #source(vmi: Loose, state: Loose['status']): void {
    const { chance, now, failRate } = this.#deps;
    if (state.completed && !state.failed && state.targetState?.syncAddress && state.sourceNode) {
      this.#leave(vmi, state);
      return;
    }
    if (!state.targetNodeAddress || state.endTimestamp || !state.migrationUid || !state.targetState?.syncAddress)
      return;
    const failure = { failed: true, completed: true, endTimestamp: now(), abortRequested: true };
    // Libvirt knows that the guest has gone, whatever the other side has said so far.
    if (vmi.status.activePods?.[this.guests.get(vmi.metadata.name) ?? ''] === undefined) return;
    const [there, pod] = this.#otherSide(vmi, state);
    const isReady =
      there && pod && !isOver(pod) && !pod.metadata.deletionTimestamp && !there.status.migrationState?.failed;
    if (state.abortRequested || !isReady || chance.happens(failRate())) this.#write(vmi, { migrationState: failure });
    else if (!state.startTimestamp) this.#write(vmi, { migrationState: { startTimestamp: now() } });
    else if (there.status.migrationState?.startTimestamp) this.#arrive(vmi, there, pod);
  }

  /** libvirt moves it, and the agent of the target takes the VMI over. */
  #arrive(vmi: Loose, there: Loose, pod: Loose): void {
    const { now } = this.#deps;
    this.guests.set(vmi.metadata.name, pod.metadata.uid ?? '');
    const { [labels.migrationTargetNodeName]: _target, ...own } = there.metadata.labels ?? {};
    const migrationState = { completed: true, endTimestamp: now(), targetNodeDomainReadyTimestamp: now() };
    this.#write(
      there,
      { phase: 'Running', nodeName: pod.spec.nodeName, migrationState },
      { labels: own, annotations: {} },
    );
  }

  /** The launcher of the source has nothing left to do. */
  #leave(vmi: Loose, state: Loose['status']): void {
    const { store } = this.#deps;
    store.change(pods, `${vmi.metadata.namespace}/${state.sourcePod}`, (each) =>
      Object.assign(each.status, { phase: 'Succeeded' }),
    );
  }

  #otherSide(vmi: Loose, { targetState }: Loose['status']): [Loose | undefined, Loose | undefined] {
    const { store } = this.#deps;
    const [there] = store.list(vmis, ({ metadata }) => metadata.uid === targetState?.virtualMachineInstanceUID);
    const [pod] = store.list(
      pods,
      ({ metadata }) => metadata.name === targetState?.pod && metadata.namespace !== vmi.metadata.namespace,
    );
    return [there, pod];
  }

  /** What one half says is copied to the other one; the deletion of one is the deletion of the other (pkg/synchronization-controller). */
  #synchronize(migration: Loose): void {
    const { store } = this.#deps;
    const end = endOf(migration);
    const vmi = store.find(vmis, `${migration.metadata.namespace}/${migration.spec.vmiName}`);
    const state = vmi?.status?.migrationState;
    const own = end === 'source' ? state?.sourceState : state?.targetState;
    if (own?.migrationUID !== migration.metadata.uid || !state.sourceState || !state.targetState) return;
    const id = (migration.spec.sendTo ?? migration.spec.receive).migrationID;
    const [other] = store.list(migrations, (each) => {
      return endOf(each) !== end && (each.spec?.sendTo ?? each.spec?.receive)?.migrationID === id;
    });
    if (!other) return;
    if (migration.metadata.deletionTimestamp && !other.metadata.deletionTimestamp) {
      const known = end === 'source' ? state.targetState.migrationUID : state.sourceState.migrationUID;
      if (known === other.metadata.uid) store.delete(migrations, keyOf(other), {}, 'world');
    }
    const there = store.find(vmis, `${other.metadata.namespace}/${other.spec.vmiName}`);
    const before = there?.status?.migrationState ?? {};
    const isOthers = before.migrationUid && before.migrationUid !== other.metadata.uid;
    if (!there || before.completed || isOthers || isOver({ status: other.status } as Loose)) return;
    const after = end === 'source' ? ofSource(before, state) : ofTarget(before, state);
    if (JSON.stringify(after) !== JSON.stringify(before)) this.#write(there, { migrationState: after });
  }
}

const common = ({ startTimestamp, endTimestamp }: Loose['status']) => ({
  ...(startTimestamp && { startTimestamp }),
  ...(endTimestamp && { endTimestamp }),
});

function ofSource(before: Loose['status'], state: Loose['status']): object {
  const { sourceState, abortRequested, endTimestamp, failed = false, completed = false } = state;
  return {
    ...before,
    ...common(state),
    sourceState: { ...sourceState, syncAddress: sourceState.syncAddress ?? 'source:9185' },
    ...(sourceState.node && { sourceNode: sourceState.node, sourcePod: sourceState.pod }),
    ...(abortRequested && endTimestamp && { failed, completed }),
  };
}

function ofTarget(before: Loose['status'], state: Loose['status']): object {
  const { targetState, failed, completed } = state;
  return {
    ...before,
    ...common(state),
    targetState: { ...targetState, syncAddress: targetState.syncAddress ?? 'target:9185' },
    ...(targetState.node && { targetNode: targetState.node, targetPod: targetState.pod }),
    ...(targetState.nodeAddress && { targetNodeAddress: targetState.nodeAddress }),
    ...(completed && { completed }),
    ...(failed && { failed }),
  };
}
