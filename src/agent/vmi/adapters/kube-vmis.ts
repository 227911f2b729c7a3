import {
  isOlderVersion,
  type Key,
  labelQuery,
  labels,
  parseKey,
  resources,
  type VirtualMachineInstance,
} from '../../../api/index.ts';
import { type Clock, type Component, type Logger, silentLogger } from '../../../base/index.ts';
import {
  fieldSelector,
  Informer,
  type InformerHealth,
  isKubeError,
  type KubeClient,
  type KubeError,
} from '../../../kube/index.ts';
import type { VmiLookup, VmiStore, VmiWriter, WriteResult } from '../ports.ts';

type Vmi = VirtualMachineInstance;

export interface KubeVmisDeps {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly log?: Logger;
  readonly clock?: Clock;
  readonly random?: () => number;
}

/**
 * The VMIs of one node from two watches, by hand-over label and by migration target label: never those of other nodes, so
 * memory does not grow with the cluster.
 */
export class KubeVmis implements VmiStore, Component {
  readonly name = 'vmi informers';
  readonly #informers: readonly Informer<Vmi>[];

  constructor(nodeName: string, { log = silentLogger, ...deps }: KubeVmisDeps) {
    this.#informers = [labels.nodeName, labels.migrationTargetNodeName].map(
      (label) =>
        new Informer<Vmi>(
          {
            type: resources.virtualMachineInstances,
            labelSelector: labelQuery({ key: label, operator: 'In', values: [nodeName] }),
          },
          { ...deps, log: log.child({ selector: label }) },
        ),
    );
  }

  get synced(): boolean {
    return this.#informers.every(({ hasSynced }) => hasSynced);
  }

  /** A VMI in both lists is one object seen at two times: the later one counts. */
  get(key: Key): Vmi | undefined {
    let newest: Vmi | undefined;
    for (const informer of this.#informers) {
      const vmi = informer.get(key);
      if (vmi && (!newest || isOlderVersion(newest, vmi))) newest = vmi;
    }
    return newest;
  }

  keys(): Iterable<Key> {
    return new Set(this.#informers.flatMap((informer) => [...informer.keys()]));
  }

  onChange(listener: (key: Key) => void): () => void {
    const notify = ({ metadata }: Vmi) => listener(`${metadata.namespace}/${metadata.name}`);
    const ends = this.#informers.map((informer) =>
      informer.addHandlers({ added: notify, updated: (_old, vmi) => notify(vmi), deleted: notify }),
    );
    return () => {
      for (const end of ends) end();
    };
  }

  /** Of each watch, for health and `explain`. */
  get health(): readonly (InformerHealth & { readonly objects: number })[] {
    return this.#informers.map((informer) => ({ ...informer.health, objects: informer.size }));
  }

  async start(): Promise<void> {
    for (const informer of this.#informers) await informer.start();
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.waitForSync(signal)));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.stop()));
  }
}

const requestTimeoutMs = 10_000;

/** LIST with a field selector: the stock role of virt-handler has no `get` on VMIs. */
export function kubeVmiLookup(client: Pick<KubeClient, 'list'>): VmiLookup {
  return {
    find: async (key, signal) => {
      const ref = parseKey(key);
      if (!ref) return undefined;
      const { items } = await client.list<Vmi>(resources.virtualMachineInstances, {
        namespace: ref.namespace,
        fieldSelector: fieldSelector({ 'metadata.name': ref.name }),
        timeoutMs: requestTimeoutMs,
        signal,
      });
      return items.find(({ metadata }) => metadata.name === ref.name);
    },
  };
}

/** PUT of the whole object: the stock role has no `patch` on VMIs, and the CRD has no status subresource. */
export function kubeVmiWriter(client: Pick<KubeClient, 'update'>): VmiWriter {
  return {
    put: async (vmi, signal): Promise<WriteResult> => {
      try {
        const options = { signal, timeoutMs: requestTimeoutMs };
        return { kind: 'written', vmi: await client.update<Vmi>(resources.virtualMachineInstances, vmi, options) };
      } catch (error) {
        if (isKubeError(error, 'CONFLICT')) return { kind: 'conflict' };
        if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
        if (isKubeError(error, 'TOO_LARGE')) return { kind: 'refused', code: 'TOO_LARGE', message: wordsOf(error) };
        // A webhook or an admission policy refuses with 403, 422, or 400; the schema with 422.
        if (isKubeError(error, 'INVALID', 'FORBIDDEN'))
          return { kind: 'refused', code: 'NOT_ALLOWED', message: wordsOf(error) };
        throw error;
      }
    },
  };
}

/** Without the request's path, which is this agent's business. */
function wordsOf(error: KubeError): string {
  return error.status?.message ?? error.message;
}
