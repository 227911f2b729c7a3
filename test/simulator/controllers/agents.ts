import { keyOf, labels, resources } from '../../../src/api/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { ClusterStore, Loose } from './store.ts';

export interface ActorsDeps {
  readonly store: ClusterStore;
  readonly chance: Chance;
  readonly now: () => string;
  /** Kubelet and agent of this node are silent. */
  readonly isAway: (node: string) => boolean;
  /** 0: whatever begins ends well. */
  readonly failRate: () => number;
}

const vmis = resources.virtualMachineInstances;
const isOver = (pod: Loose) => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
const running = (at: string) => [
  {
    name: 'compute',
    ready: true,
    restartCount: 0,
    image: 'virt-launcher',
    imageID: '',
    state: { running: { startedAt: at } },
  },
];

/** Kubelets and agents of all nodes, a step at a time: what they do in reality, sometimes late, sometimes badly, sometimes not at all. */
export class Actors {
  /** UID of the pod that has the guest, by UID of its VMI. */
  readonly guests = new Map<string, string>();
  readonly #deps: ActorsDeps;

  constructor(deps: ActorsDeps) {
    this.#deps = deps;
  }

  tick(): void {
    const { store, isAway } = this.#deps;
    for (const pod of store.list(resources.pods)) {
      if (pod.spec?.nodeName && !isAway(pod.spec.nodeName)) this.#kubelet(pod);
    }
    for (const vmi of store.list(vmis)) this.#agents(vmi);
  }

  #kubelet(pod: Loose): void {
    const { store, chance, now, failRate } = this.#deps;
    const write = (change: (each: Loose) => void) => store.change(resources.pods, keyOf(pod), change);
    const hasGuest = [...this.guests.values()].includes(pod.metadata.uid ?? '');
    if (pod.metadata.deletionTimestamp) {
      if (hasGuest) this.#endGuest(pod);
      if (chance.happens(0.5)) store.delete(resources.pods, keyOf(pod), { graceSeconds: 0 }, 'world');
    } else if ((pod.status?.phase ?? 'Pending') === 'Pending' && !this.#neverStarts(pod)) {
      if (!chance.happens(0.4)) return;
      const phase = isTarget(pod) && chance.happens(failRate()) ? 'Failed' : 'Running';
      const conditions = [{ type: 'Ready', status: 'True' }];
      write((each) =>
        Object.assign(each, {
          status: { phase, ...(phase === 'Running' && { conditions, containerStatuses: running(now()) }) },
        }),
      );
    } else if (pod.status?.phase === 'Running' && !hasGuest && isTarget(pod) && chance.happens(failRate() / 10)) {
      write((each) => Object.assign(each, { status: { phase: 'Failed', message: 'evicted' } }));
    }
  }

  /** Its image cannot be pulled, say. */
  #neverStarts({ metadata }: Loose): boolean {
    return this.#deps.failRate() > 0 && isTarget({ metadata } as Loose) && Number(metadata.uid?.slice(-1)) === 7;
  }

  #endGuest({ metadata }: Loose): void {
    const { store } = this.#deps;
    for (const vmi of store.list(vmis, (each) => this.guests.get(each.metadata.uid ?? '') === metadata.uid)) {
      store.change(vmis, keyOf(vmi), (each) => {
        each.status.phase = 'Succeeded';
      });
      this.guests.delete(vmi.metadata.uid ?? '');
    }
  }

  #agents(vmi: Loose): void {
    const { store, chance, isAway } = this.#deps;
    const { status = {}, metadata } = vmi;
    const write = (change: (each: Loose) => void) => store.change(vmis, keyOf(vmi), change);
    const state = status.migrationState ?? {};
    const source = status.nodeName ?? '';
    const target = metadata.labels?.[labels.migrationTargetNodeName];
    if (status.phase === 'Scheduled' && !isAway(source) && chance.happens(0.5)) this.#start(vmi);
    if (status.phase !== 'Running' || !chance.happens(0.5)) return;
    if (target !== undefined && !isAway(target) && state.targetNode === target) this.#target(state, target, write);
    if (!isAway(source) && state.sourceNode === source && !state.endTimestamp && state.targetNodeAddress) {
      this.#source(vmi, state, write);
    }
  }

  #start(vmi: Loose): void {
    const { store } = this.#deps;
    const { status } = vmi;
    const [pod] = store.list(resources.pods, ({ metadata, spec }) => {
      return status.activePods?.[metadata.uid ?? ''] !== undefined && spec.nodeName === status.nodeName;
    });
    if (!pod || isOver(pod)) return;
    this.guests.set(vmi.metadata.uid ?? '', pod.metadata.uid ?? '');
    store.change(vmis, keyOf(vmi), (each) => {
      const conditions = [{ type: 'LiveMigratable', status: 'True' }];
      Object.assign(each.status, { phase: 'Running', conditions, selinuxContext: 'none' });
    });
  }

  #target(state: Loose['status'], target: string, write: (change: (each: Loose) => void) => void): void {
    const { chance, now, failRate } = this.#deps;
    if (state.failed || state.completed) {
      write((each) => {
        if (each.metadata.labels?.[labels.migrationTargetNodeName] === target) {
          delete each.metadata.labels[labels.migrationTargetNodeName];
        }
      });
    } else if (!state.targetNodeAddress) {
      const isFailing = chance.happens(failRate());
      write((each) => {
        const failure = { failed: true, completed: true, endTimestamp: now(), failureReason: 'no room' };
        Object.assign(each.status.migrationState, isFailing ? failure : { targetNodeAddress: '10.0.0.2' });
      });
    }
  }

  #source(vmi: Loose, state: Loose['status'], write: (change: (each: Loose) => void) => void): void {
    const { store, chance, now, failRate, isAway } = this.#deps;
    const pod = store.find(resources.pods, `${vmi.metadata.namespace}/${state.targetPod}`);
    const isReady = pod !== undefined && !isOver(pod) && !pod.metadata.deletionTimestamp;
    if (!state.startTimestamp && isReady && !state.abortRequested) {
      write((each) => Object.assign(each.status.migrationState, { startTimestamp: now(), mode: 'PreCopy' }));
    } else if (state.abortRequested || !isReady || chance.happens(failRate())) {
      const failure = {
        failed: true,
        completed: true,
        startTimestamp: now(),
        endTimestamp: now(),
        failureReason: 'cut',
      };
      write((each) => Object.assign(each.status.migrationState, failure));
    } else if (!isAway(state.targetNode) && chance.happens(0.5)) {
      const old = this.guests.get(vmi.metadata.uid ?? '');
      this.guests.set(vmi.metadata.uid ?? '', pod.metadata.uid ?? '');
      write((each) => {
        Object.assign(each.status.migrationState, { completed: true, endTimestamp: now() });
        each.status.nodeName = state.targetNode;
        delete each.status.evacuationNodeName;
        each.metadata.labels = { ...each.metadata.labels, [labels.nodeName]: state.targetNode };
        delete each.metadata.labels[labels.migrationTargetNodeName];
      });
      for (const left of store.list(resources.pods, ({ metadata }) => metadata.uid === old)) {
        store.change(resources.pods, keyOf(left), (each) => Object.assign(each.status, { phase: 'Succeeded' }));
      }
    }
  }
}

function isTarget({ metadata }: Loose): boolean {
  return metadata.labels?.[labels.migrationJobUid] !== undefined;
}
