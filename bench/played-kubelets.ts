import { rmSync } from 'node:fs';
import path from 'node:path';
import { keyOf, type Pod, resources } from '../src/api/index.ts';
import { silentLogger, systemClock } from '../src/base/index.ts';
import { type SchedulableNode, StandaloneScheduler } from '../src/controller/scheduler/index.ts';
import { EventRecorder, Informer, isKubeError, type KubeClient } from '../src/kube/index.ts';
import { cachedObjects, ReadYourWrites } from '../src/reconcile/index.ts';
import { computeStatus } from '../test/fixtures/controller/cluster.ts';
import type { LauncherFleet, LauncherReport } from '../test/fixtures/scripted-launcher-fleet.ts';

/** A node's launchers and where their pods are. */
export interface KubeletNode {
  readonly name: string;
  readonly fleet: LauncherFleet;
  readonly podsDir: string;
}

export interface KubeletOptions {
  readonly nodes: readonly KubeletNode[];
  /** Of each guest; goes through the streams when it moves. */
  readonly memoryBytes: number;
}

const startedAt = { startedAt: '2026-01-01T00:00:00Z' };

/** What a cluster has beside KubeVirt, as far as launcher pods need it: kubelets that run scripted launchers, and a scheduler. */
export class PlayedKubelets {
  /** Last words of launchers that have ended, by UID of the pod. */
  readonly ended = new Map<string, LauncherReport>();
  readonly #options: KubeletOptions;
  readonly #client: KubeClient;
  readonly #pods: Informer<Pod>;
  readonly #nodes: Informer<SchedulableNode>;
  readonly #scheduler: StandaloneScheduler;
  readonly #events: EventRecorder;
  readonly #started = new Set<string>();
  /** What went wrong, in words. */
  readonly problems: string[] = [];

  constructor(options: KubeletOptions, client: KubeClient) {
    this.#options = options;
    this.#client = client;
    this.#pods = new Informer({ type: resources.pods, namespace: 'default' }, { client });
    this.#nodes = new Informer({ type: resources.nodes }, { client });
    this.#events = new EventRecorder({ component: 'default-scheduler' }, { client });
    const [log, clock, random] = [silentLogger, systemClock, Math.random];
    const ownPods = new ReadYourWrites(cachedObjects(this.#pods, keyOf), { wakeOnEcho: true });
    this.#scheduler = new StandaloneScheduler({
      ...{ client, ownPods, nodes: this.#nodes, events: this.#events, clock, log, random },
    });
  }

  async start(): Promise<void> {
    const look = (pod: Pod) => this.#look(pod).catch((error: unknown) => this.problems.push(String(error)));
    this.#pods.addHandlers({ added: look, updated: (_old, pod) => look(pod) });
    for (const { fleet } of this.#options.nodes) fleet.onEnded = (report) => void this.#end(report);
    for (const informer of [this.#pods, this.#nodes]) {
      await informer.start();
      await informer.waitForSync();
    }
    await this.#scheduler.start();
  }

  /** Launcher pods as the watch shows them. */
  get pods(): Pod[] {
    return this.#pods.list();
  }

  async stop(): Promise<void> {
    await this.#scheduler.stop();
    for (const informer of [this.#pods, this.#nodes]) await informer.stop();
    await this.#events.stop();
  }

  async #look(pod: Pod): Promise<void> {
    const { uid = '', deletionTimestamp } = pod.metadata;
    const node = this.#options.nodes.find(({ name }) => name === pod.spec.nodeName);
    if (!node) return;
    if (deletionTimestamp) {
      await node.fleet.kill([uid]);
      await this.#client.delete(resources.pods, pod.metadata, { graceSeconds: 0 }).catch(ifThere);
    } else if (!this.#started.has(uid)) {
      this.#started.add(uid);
      await node.fleet.add([{ podUid: uid, memoryBytes: this.#options.memoryBytes }]);
      await this.#report(pod, {
        phase: 'Running',
        conditions: [...(pod.status?.conditions ?? []), { type: 'Ready', status: 'True' }],
        containerStatuses: [computeStatus({ running: startedAt })],
      });
    }
  }

  async #end(report: LauncherReport): Promise<void> {
    this.ended.set(report.podUid, report);
    for (const { podsDir } of this.#options.nodes) {
      rmSync(path.join(podsDir, report.podUid), { recursive: true, force: true });
    }
    const pod = this.#pods.list().find(({ metadata }) => metadata.uid === report.podUid);
    if (!pod) return;
    const containerStatuses = [computeStatus({ terminated: { exitCode: 0 } })];
    await this.#report(pod, { phase: 'Succeeded', containerStatuses });
  }

  async #report({ metadata }: Pod, status: NonNullable<Pod['status']>): Promise<void> {
    await this.#client.patch(resources.pods, metadata, { status }, 'merge', { subresource: 'status' }).catch(ifThere);
  }
}

function ifThere(error: unknown): void {
  if (!isKubeError(error, 'NOT_FOUND')) throw error;
}
