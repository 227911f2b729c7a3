import { annotations, keyOf, labels, resources } from '../../../src/api/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { ClusterStore, Loose } from './store.ts';

export interface ActorsDeps {
  readonly store: ClusterStore;
  readonly chance: Chance;
  readonly now: () => string;
  /** Kubelet and agent of this node are silent: they do not reach the API server. What runs there runs on. */
  readonly isAway: (node: string) => boolean;
  /** Only the agent is silent. */
  readonly isAgentAway: (node: string) => boolean;
  /** Agents send heartbeats, and machines die. */
  readonly losesNodes: boolean;
  /** Two guests of one name write to the same disks. */
  readonly onTwin: (name: string) => void;
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
  /** Node of each pod that ever had a guest, and name of each VMI that had one; both by UID. */
  readonly #places = new Map<string, string>();
  readonly #names = new Map<string, string>();
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
    if (this.#deps.losesNodes) for (const node of store.list(resources.nodes)) this.#heartbeat(node);
  }

  /** The machine ends, and with it its processes; the API server does not know. */
  loseNode(node: string): void {
    for (const [vmi, pod] of this.guests) if (this.#places.get(pod) === node) this.guests.delete(vmi);
  }

  /** The kubelet of a machine that began anew finds no container of the pods that it had. */
  rebootNode(node: string): void {
    const { store } = this.#deps;
    const started = (pod: Loose) => pod.spec?.nodeName === node && pod.status?.phase === 'Running';
    for (const pod of store.list(resources.pods, started)) {
      store.change(resources.pods, keyOf(pod), (each) => {
        each.status = { phase: 'Failed', reason: 'NodeLost', message: 'the machine began anew' };
      });
    }
  }

  /** With the word that the node may be used, as agents send it. */
  #heartbeat({ metadata }: Loose): void {
    const { store, chance, now, isAgentAway } = this.#deps;
    const last = Date.parse(metadata.annotations?.[annotations.heartbeat] ?? '') || 0;
    if (isAgentAway(metadata.name) || Date.parse(now()) - last < chance.between(60_000, 132_000)) return;
    store.change(resources.nodes, metadata.name, (each) => {
      each.metadata.annotations = { ...each.metadata.annotations, [annotations.heartbeat]: now() };
      each.metadata.labels = { ...each.metadata.labels, [labels.schedulable]: 'true' };
    });
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
    const { store, chance, isAgentAway: isAway } = this.#deps;
    const { status = {}, metadata } = vmi;
    const write = (change: (each: Loose) => void) => store.change(vmis, keyOf(vmi), change);
    const state = status.migrationState ?? {};
    const source = status.nodeName ?? '';
    const target = metadata.labels?.[labels.migrationTargetNodeName];
    if (status.phase === 'Scheduled' && !isAway(source) && chance.happens(0.5)) this.#start(vmi);
    if (status.phase !== 'Running' || !chance.happens(0.5)) return;
    if (!this.guests.has(metadata.uid ?? '')) {
      // The agent finds neither guest nor launcher.
      if (!isAway(source)) write((each) => Object.assign(each.status, { phase: 'Failed' }));
      return;
    }
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
    if (!pod || isOver(pod)) {
      // The launcher has ended before its guest began.
      const uids = Object.keys(status.activePods ?? {});
      const isLeft =
        store.list(resources.pods, (each) => uids.includes(each.metadata.uid ?? '') && !isOver(each)).length > 0;
      if (uids.length > 0 && !isLeft)
        store.change(vmis, keyOf(vmi), (each) => Object.assign(each.status, { phase: 'Failed' }));
      return;
    }
    this.#place(vmi, pod);
    store.change(vmis, keyOf(vmi), (each) => {
      const conditions = [{ type: 'LiveMigratable', status: 'True' }];
      Object.assign(each.status, { phase: 'Running', conditions, selinuxContext: 'none' });
    });
  }

  #place({ metadata: { name, uid = '' } }: Loose, pod: Loose): void {
    if ([...this.guests.keys()].some((each) => each !== uid && this.#names.get(each) === name)) this.#deps.onTwin(name);
    this.guests.set(uid, pod.metadata.uid ?? '');
    this.#names.set(uid, name);
    this.#places.set(pod.metadata.uid ?? '', pod.spec.nodeName);
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
        if (isFailing && isRefusal(state.migrationUid)) {
          each.metadata.annotations = {
            ...each.metadata.annotations,
            [annotations.migrationRefused]: state.migrationUid,
          };
        }
      });
    }
  }

  #source(vmi: Loose, state: Loose['status'], write: (change: (each: Loose) => void) => void): void {
    const { store, chance, now, failRate, isAgentAway: isAway } = this.#deps;
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
      this.#place(vmi, pod);
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

/** Every other failure of a target is one that its agent wants. */
function isRefusal(migrationUid: string): boolean {
  return Number(migrationUid.slice(-1)) % 2 === 0;
}

function isTarget({ metadata }: Loose): boolean {
  return metadata.labels?.[labels.migrationJobUid] !== undefined;
}
