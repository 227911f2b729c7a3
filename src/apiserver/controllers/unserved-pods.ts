import { labels } from '../../api/index.ts';
import { errorMessage, type Logger, rfc3339 } from '../../base/index.ts';
import type { ApiObject } from '../object.ts';
import { addressOf, type ObjectContext, randomUuid } from '../objects/index.ts';
import { events, pods } from '../types/index.ts';

/** What virt-controller makes; anything else is a container that nobody runs here. */
const served: readonly (string | undefined)[] = ['virt-launcher', 'hotplug-disk'];

const message =
  'this node runs pods of virtual machines only: nothing will ever start this one. Delete it, and run its container elsewhere or in a VM';

/** Says at once, in an event, that a pod of a user's own will never run: it would be Pending without a word. */
export class UnservedPods {
  readonly #deps: { readonly context: ObjectContext; readonly log: Logger };
  #unsubscribe: () => void = () => undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(deps: { readonly context: ObjectContext; readonly log: Logger }) {
    this.#deps = deps;
  }

  start(): void {
    this.#unsubscribe = this.#deps.context.store.subscribe('/pods', ({ type, entry }) => {
      if (type !== 'ADDED' || served.includes(entry.object.metadata.labels?.[labels.app])) return;
      this.#writing = this.#writing.then(() => this.#say(entry.object));
    });
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await this.#writing;
  }

  async #say({ metadata }: ApiObject): Promise<void> {
    const { context, log } = this.#deps;
    const { name: pod, namespace = '', uid } = metadata;
    const at = rfc3339(context.clock.now());
    const name = `${pod.slice(0, 200)}.${randomUuid().slice(0, 8)}`;
    const object: ApiObject = {
      apiVersion: 'v1',
      kind: events.kind,
      metadata: { name, namespace, uid: randomUuid(), creationTimestamp: at },
      involvedObject: { apiVersion: 'v1', kind: pods.kind, name: pod, namespace, ...(uid !== undefined && { uid }) },
      type: 'Warning',
      reason: 'NotServed',
      message,
      source: { component: 'virt-node' },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    };
    const address = addressOf(events, { namespace, name });
    const writing = context.store.commit({ kind: 'put', ...address, object });
    await writing.catch((error) => log.warn({ pod, err: errorMessage(error) }, 'not said that a pod is not served'));
  }
}
