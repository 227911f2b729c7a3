import { errorMessage, type Logger } from '../../base/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import { ApiError } from '../errors.ts';
import { stringAt } from '../object.ts';
import type { ObjectContext, Remover } from '../objects/index.ts';
import { collectionOf, type Entry } from '../store/index.ts';
import { apiTypes, namespaces } from '../types/index.ts';

export interface NamespaceEnderDeps {
  readonly context: ObjectContext;
  readonly remover: Remover;
  readonly log: Logger;
}

const contentTypes = apiTypes.filter(({ namespaced }) => namespaced);

/**
 * Empties namespaces that are being deleted, then takes them away. It uses the queue alone: it reads the store itself, which is never behind
 * its own writes, and decides one thing.
 */
export class NamespaceEnder {
  readonly #deps: NamespaceEnderDeps;
  readonly #queue: KeyedQueue;
  #unsubscribe: () => void = () => undefined;

  constructor(deps: NamespaceEnderDeps) {
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: 2, backoff: { baseMs: 50, maxMs: 30_000 } },
      {
        run: (name) => this.#run(name),
        clock: deps.context.clock,
        onError: (name, error) => deps.log.warn({ namespace: name, err: errorMessage(error) }, 'namespace not emptied'),
      },
    );
  }

  start(): void {
    const { store } = this.#deps.context;
    this.#unsubscribe = store.subscribe('*', ({ type, entry }) => {
      const name =
        entry.collection === collectionOf(namespaces) ? entry.name : type === 'DELETED' ? entry.namespace : '';
      if (this.#isEnding(name)) this.#queue.add(name);
    });
    for (const { name } of store.list(collectionOf(namespaces))) if (this.#isEnding(name)) this.#queue.add(name);
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await this.#queue.stop();
  }

  #isEnding(name: string): boolean {
    if (name === '') return false;
    const found = this.#deps.context.store.get({ collection: collectionOf(namespaces), namespace: '', name });
    return stringAt(found?.object, 'status', 'phase') === 'Terminating';
  }

  async #run(name: string): Promise<KeyResult> {
    const { context, remover } = this.#deps;
    if (!this.#isEnding(name)) return { kind: 'done' };
    // Creations that passed their check before the namespace was marked are visible after this.
    await context.store.barrier();
    const content = () =>
      contentTypes.flatMap((type) => context.store.list(collectionOf(type), name).map((entry) => ({ type, entry })));
    const fresh = content().filter(({ entry }) => !isMarked(entry));
    await Promise.all(fresh.map(({ type, entry }) => remover.remove(type, entry, {}).catch(ignoreMissing)));
    if (content().length === 0) await remover.finishNamespace(namespaces, name);
    // What keeps a finalizer wakes this again when it goes.
    return { kind: 'done' };
  }
}

function isMarked(entry: Entry): boolean {
  return entry.object.metadata.deletionTimestamp !== undefined;
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof ApiError && error.code === 'NOT_FOUND')) throw error;
}
