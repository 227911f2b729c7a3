import { type KubeObject, type ResourceType, resources } from '../../../src/api/index.ts';
import { type KubeClient, KubeError, type WatchEvent, type WatchOptions } from '../../../src/kube/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { Life, Scheduler } from '../engine/scheduler.ts';
import type { ClusterStore, Loose, StoreWatcher } from './store.ts';

/** How often something goes wrong between a controller and the API server. */
export interface Trouble {
  errorRate: number;
  lostRate: number;
  /** Watches are slow by up to this. */
  watchDelayMs: number;
  /** Watches break this often, at each event. */
  cutRate: number;
}

export interface ClientDeps {
  readonly store: ClusterStore;
  readonly scheduler: Scheduler;
  readonly chance: Chance;
  readonly life: Life;
  readonly trouble: Trouble;
  /** Called around each write, which may be the last that this process does. */
  readonly onWrite: (moment: 'before' | 'after') => void;
  /** Asked before each write is sent; throws in a leader that knows that its lease is over. */
  readonly guard: () => void;
}

type Options = { readonly signal?: AbortSignal | undefined; readonly labelSelector?: string | undefined };
type Ref = { readonly namespace?: string | undefined; readonly name: string };

const keyIn = (type: ResourceType, { namespace, name }: Ref) => (type.namespaced ? `${namespace}/${name}` : name);

/** `key`, `key in (a,b)` or `key=value`, joined by commas. */
function matcherOf(selector: string | undefined): (object: Loose) => boolean {
  const terms = (selector ?? '').match(/[^,(]+(\([^)]*\))?/g) ?? [];
  const tests = terms.map((term) => {
    const [, key = '', values] = /^([^\s=]+)(?:\s+in\s+\(([^)]*)\)|={1,2}(.*))?$/.exec(term.trim()) ?? [];
    const wanted = (values ?? /=(.*)$/.exec(term)?.[1])?.split(',').map((value) => value.trim());
    return ({ metadata }: Loose) => {
      const value = metadata.labels?.[key];
      return wanted === undefined ? value !== undefined : value !== undefined && wanted.includes(value);
    };
  });
  return (object) => tests.every((holds) => holds(object));
}

/** The client of one controller process: latencies, errors, lost answers; nothing of a dead process arrives. */
export function simClient(deps: ClientDeps): KubeClient {
  const { store, scheduler, chance, life, trouble } = deps;
  const isWrite = (label: string) => !/^(GET|LIST) /.test(label);
  /** A write that the process did not live to send does not arrive. */
  const handled = <T>(label: string, handle: () => T): T => {
    if (!isWrite(label)) return handle();
    deps.onWrite('before');
    if (life.dead) throw new KubeError('UNREACHABLE', `${label}: never sent`);
    const value = handle();
    deps.onWrite('after');
    return value;
  };
  const call = <T>(label: string, { signal }: Options, handle: () => T): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (isWrite(label)) deps.guard();
      let over = signal?.aborted === true;
      if (over) reject(signal?.reason);
      const onAbort = () => {
        over = true;
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      const answer = (finish: () => void) =>
        scheduler.after(chance.latencyMs(), `${label} answered`, life, () => {
          signal?.removeEventListener('abort', onAbort);
          if (!over) finish();
        });
      scheduler.after(chance.latencyMs(), label, life, () => {
        if (over) return;
        const code = chance.happens(trouble.errorRate) && chance.pick(['SERVER_ERROR', 'TOO_MANY_REQUESTS'] as const);
        if (code) return void answer(() => reject(new KubeError(code, `${label}: ${code}`)));
        try {
          const value = handled(label, handle);
          const isLost = chance.happens(trouble.lostRate);
          answer(() => (isLost ? reject(new KubeError('UNREACHABLE', `${label}: no answer`)) : resolve(value)));
        } catch (error) {
          answer(() => reject(error));
        }
      });
    });
  const own = (type: ResourceType) => type.resource;
  const client = {
    get: (type: ResourceType, ref: Ref, options: Options = {}) =>
      call(`GET ${own(type)}`, options, () => store.get(type, keyIn(type, ref))),
    list: (type: ResourceType, options: Options & { namespace?: string } = {}) =>
      call(`LIST ${own(type)}`, options, () => {
        const matches = matcherOf(options.labelSelector);
        const items = store.list(type, (each) => matches(each) && isIn(each, options.namespace));
        return { items: structuredClone(items), resourceVersion: store.version };
      }),
    create: (type: ResourceType, object: Loose, options: Options = {}) => {
      if (type === resources.events) return Promise.resolve(object);
      return call(`POST ${own(type)}`, options, () => store.create(type, object, life.name));
    },
    update: (type: ResourceType, object: Loose, options: Options = {}) => {
      const part = type === resources.migrations ? 'not-status' : 'all';
      return call(`PUT ${own(type)}`, options, () => store.put(type, object, part, life.name));
    },
    updateStatus: (type: ResourceType, object: Loose, options: Options = {}) =>
      call(`PUT ${own(type)}/status`, options, () => store.put(type, object, 'status', life.name)),
    patch: (type: ResourceType, ref: Ref, body: unknown, kind: string, options: Options = {}) => {
      if (type === resources.events) return Promise.resolve({});
      return call(`PATCH ${own(type)}`, options, () => store.patch(type, keyIn(type, ref), body, kind, life.name));
    },
    delete: (type: ResourceType, ref: Ref, options: Options & { uid?: string; graceSeconds?: number } = {}) =>
      call(`DELETE ${own(type)}`, options, () => store.delete(type, keyIn(type, ref), options, life.name)),
    createSubresource: (type: ResourceType, ref: Ref, name: string, body: object, options: Options = {}) =>
      call(`POST ${own(type)}/${name}`, options, () => {
        if (name !== 'binding') return;
        const pod = store.get(type, keyIn(type, ref));
        if (pod.spec.nodeName) throw new KubeError('CONFLICT', 'bound already');
        pod.spec.nodeName = (body as { target?: { name?: string } }).target?.name;
        store.put(type, pod, 'all', life.name);
      }),
    watch: (type: ResourceType, options: WatchOptions) => watch(type, options, deps),
  };
  return client as unknown as KubeClient;
}

function isIn({ metadata }: KubeObject, namespace: string | undefined): boolean {
  return namespace === undefined || metadata.namespace === namespace;
}

/** Events in order, each after a while; what changed between list and watch comes as it is now. */
async function* watch(
  type: ResourceType,
  options: WatchOptions,
  { store, scheduler, chance, life, trouble }: ClientDeps,
): AsyncGenerator<WatchEvent<KubeObject>> {
  const arrived: (WatchEvent<KubeObject> | 'cut')[] = [];
  let wake = () => {};
  let lastMs = 0;
  const later = (event: WatchEvent<KubeObject> | 'cut') => {
    lastMs = Math.max(lastMs + 0.001, scheduler.nowMs + chance.latencyMs() + chance.next() * trouble.watchDelayMs);
    scheduler.after(lastMs - scheduler.nowMs, `watch ${type.resource}`, life, () => {
      arrived.push(event);
      wake();
    });
  };
  const since = Number(options.resourceVersion);
  const matches = matcherOf(options.labelSelector);
  const watcher: StoreWatcher = {
    writer: life.name,
    type: type.resource,
    matches,
    push: (kind, object) => {
      later({ type: kind, object });
      if (chance.happens(trouble.cutRate)) later('cut');
    },
  };
  if (store.lastChangeOf(type) > since) {
    yield { type: 'ERROR', status: { code: 410, reason: 'Expired', message: 'too old' } as never };
    return;
  }
  store.watchers.add(watcher);
  options.signal?.addEventListener('abort', () => wake(), { once: true });
  try {
    options.onOpen?.();
    while (!options.signal?.aborted) {
      const event = arrived.shift();
      if (event === 'cut') throw new KubeError('UNREACHABLE', 'watch broke');
      if (event) yield event;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    store.watchers.delete(watcher);
  }
}
