import { type EndpointSlice, type Endpoints, type Pod, resources, type Service } from '../../api/index.ts';
import { type Clock, type Component, type Logger, sameJson, systemClock } from '../../base/index.ts';
import { EventRecorder, Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import { SingleReconciler } from '../../reconcile/index.ts';
import type { GuestDial } from '../guest-dial.ts';
import type { PodNetwork } from '../pod-network/index.ts';
import { takenPorts } from '../socket-tables.ts';
import { isSliceOf, labelChange, writeSlices } from './endpoint-slices.ts';
import { NodePortRelays } from './node-port-relays.ts';
import { type PlannedService, planServices, type ServicePlan } from './plan.ts';

export interface NodeServicesDeps {
  readonly client: KubeClient;
  readonly network: Pick<PodNetwork, 'serviceRange' | 'publish'>;
  readonly dial: Pick<GuestDial, 'dial'>;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** Programs of the machine come and go without a word. */
const lookAgainMs = 20_000;
const backoff = { baseMs: 500, maxMs: 30_000 };

/**
 * Services of the standalone node: an address for each, the pods behind it as EndpointSlices and Endpoints, what the network makes of both. All of them are planned at once, for
 * they share addresses and ports.
 */
export class NodeServices implements Component {
  readonly name = 'services';
  readonly #deps: Required<NodeServicesDeps>;
  readonly #services: Informer<Service>;
  readonly #pods: Informer<Pod>;
  readonly #endpoints: Informer<Endpoints>;
  readonly #slices: Informer<EndpointSlice>;
  readonly #events: EventRecorder;
  readonly #reconciler: SingleReconciler;
  readonly #relays: NodePortRelays;
  /** What was told of each, by UID. */
  #told = new Map<string, string>();

  constructor(deps: NodeServicesDeps) {
    const { client, log } = deps;
    this.#deps = { clock: systemClock, ...deps };
    const { clock } = this.#deps;
    this.#services = new Informer({ type: resources.services }, { client, log, clock });
    this.#pods = new Informer({ type: resources.pods }, { client, log, clock });
    this.#endpoints = new Informer({ type: resources.endpoints }, { client, log, clock });
    this.#slices = new Informer({ type: resources.endpointSlices }, { client, log, clock });
    this.#events = new EventRecorder({ component: 'service-controller' }, { client, log, clock });
    this.#relays = new NodePortRelays(deps);
    this.#reconciler = new SingleReconciler(
      { name: 'services', backoff, failedMessage: 'services could not be published' },
      { reconcile: (signal) => this.#reconcile(signal), clock, log },
    );
  }

  async start(signal?: AbortSignal): Promise<void> {
    const informers = this.#informers();
    for (const informer of informers) await informer.start();
    await Promise.all(informers.map((informer) => informer.waitForSync(signal)));
    const wake = () => this.#reconciler.wake();
    const handlers = { added: wake, updated: wake, deleted: wake };
    this.#reconciler.follow(...informers.map((informer) => informer.addHandlers(handlers)));
    wake();
  }

  /** What the network has stays, for VMs that run on: it removes that when it goes itself. */
  async stop(): Promise<void> {
    await this.#reconciler.stop();
    await this.#relays.stop();
    for (const informer of this.#informers()) await informer.stop();
    await this.#events.stop();
  }

  #informers() {
    return [this.#services, this.#pods, this.#endpoints, this.#slices] as const;
  }

  async #reconcile(signal: AbortSignal) {
    const { network } = this.#deps;
    // Ports that VMs list are at loopback addresses of their own: they are in the way of a packet filter, and not of a relay.
    const taken = await takenPorts(network.serviceRange ? '127.0.0.0/8' : '127.0.0.1');
    const plan = planServices({
      services: this.#services.list(),
      pods: this.#pods.list(),
      range: network.serviceRange,
      isPortTaken: (port, protocol) => taken[protocol].has(port) && !(protocol === 'tcp' && this.#relays.has(port)),
    });
    for (const each of plan.services) await this.#write(each, signal);
    await network.publish(plan);
    await this.#relays.set(plan.relays);
    this.#tell(plan);
    const hasServices = plan.services.length > 0;
    return { kind: 'done', ...(hasServices && { requeueAfterMs: lookAgainMs }) } as const;
  }

  async #write({ service, change, endpoints }: PlannedService, signal: AbortSignal): Promise<void> {
    const { client } = this.#deps;
    const { name, namespace = '', resourceVersion } = service.metadata;
    const ref = { name, namespace };
    if (change) {
      // Only onto what was planned from; what has come meanwhile is planned anew.
      const guarded = { metadata: { resourceVersion }, spec: change };
      await client.patch(resources.services, ref, guarded, 'merge', { signal }).catch(unlessOutdated);
    }
    const slices = this.#slices.list().filter((slice) => isSliceOf(slice, service));
    await writeSlices(endpoints?.slices ?? [], slices, { client, signal, onError: unlessOutdated });
    const found = this.#endpoints.get(`${namespace}/${name}`);
    if (!endpoints) {
      const isOurs = found?.metadata.ownerReferences?.some(({ uid }) => uid === service.metadata.uid) ?? false;
      if (isOurs) await client.delete(resources.endpoints, ref, { signal }).catch(unlessOutdated);
      return;
    }
    const { object } = endpoints;
    if (!found) await client.create(resources.endpoints, object, { signal }).catch(unlessOutdated);
    else {
      const labels = labelChange(found.metadata.labels, object.metadata.labels);
      if (!labels && sameJson(found.subsets ?? [], object.subsets ?? [])) return;
      const change = { ...(labels && { metadata: { labels } }), subsets: object.subsets ?? null };
      await client.patch(resources.endpoints, ref, change, 'merge', { signal }).catch(unlessOutdated);
    }
  }

  /** Once for what is new. */
  #tell({ services }: ServicePlan): void {
    const told = new Map<string, string>();
    for (const { service, problems } of services) {
      const uid = service.metadata.uid ?? '';
      told.set(uid, JSON.stringify(problems));
      if (this.#told.get(uid) === told.get(uid)) continue;
      for (const { reason, message } of problems) this.#events.record(service, 'Warning', reason, message);
    }
    this.#told = told;
  }
}

/** Its own watch says what has become of it. */
function unlessOutdated(error: unknown): void {
  if (!isKubeError(error, 'CONFLICT', 'NOT_FOUND', 'ALREADY_EXISTS')) throw error;
}
