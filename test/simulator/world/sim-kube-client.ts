import { type EventObject, type KubeObject, keyOf, type VirtualMachineInstance } from '../../../src/api/index.ts';
import {
  type KubeClient,
  KubeError,
  type KubeErrorCode,
  type WatchEvent,
  type WatchOptions,
} from '../../../src/kube/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { Life, Scheduler } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';
import { parseLabel, type SimApi, type WatchItem } from './sim-api.ts';
import { WatchStream } from './watch-stream.ts';

/** Windows of trouble between agents and the API server; a time in the past is no trouble. */
export interface ApiTrouble {
  downUntilMs: number;
  /** Requests fail with 429 or 500 this often. */
  errorRate: number;
  /** A request is done and its answer lost, this often. */
  lostRate: number;
  /** Lists of informers show an older state, or leave something out. */
  oldLists: boolean;
  /** Watches say nothing more and stay open. */
  silentUntilMs: number;
}

export interface SimKubeClientDeps {
  /** Watches of all agents that are open. */
  readonly streams: Set<WatchStream>;
  readonly api: SimApi;
  readonly wire: Wire;
  readonly scheduler: Scheduler;
  readonly chance: Chance;
  readonly trouble: ApiTrouble;
  readonly life: Life;
  readonly note: (text: string) => void;
  /** Before a PUT leaves, and when its answer has come. */
  readonly onPut: (vmi: VirtualMachineInstance) => void;
  readonly onWritten: (vmi: VirtualMachineInstance) => void;
  /** A watch tells something. */
  readonly onNews: () => void;
}

type Client = Pick<KubeClient, 'list' | 'watch' | 'update' | 'create' | 'patch'>;

const defaultTimeoutMs = 30_000;

/** One agent's client. Repeats nothing by itself: what the real one cannot repair comes through here. */
export class SimKubeClient implements Client {
  readonly #deps: SimKubeClientDeps;

  constructor(deps: SimKubeClientDeps) {
    this.#deps = deps;
  }

  list: Client['list'] = async <T extends KubeObject>(
    _type: unknown,
    options: {
      labelSelector?: string | undefined;
      fieldSelector?: string | undefined;
      signal?: AbortSignal | undefined;
    } = {},
  ) => {
    const { api, chance, trouble } = this.#deps;
    const name = /^metadata\.name=(.*)$/.exec(options.fieldSelector ?? '')?.[1];
    const isInformer = name === undefined;
    return this.#call(isInformer ? 'LIST' : `LIST ${name}`, options, () => {
      const label = isInformer ? parseLabel(options.labelSelector) : undefined;
      const isOld = isInformer && trouble.oldLists && chance.happens(0.7);
      const version = isOld ? api.someOldVersion(1 + chance.int(8)) : api.version;
      let items = api.list(label, name, version);
      const leavesOut = isOld && chance.happens(0.5);
      if (leavesOut) items = items.filter(() => chance.happens(0.5));
      return { items: items as unknown as T[], resourceVersion: String(version) };
    });
  };

  update: Client['update'] = async <T extends KubeObject>(
    _type: unknown,
    object: T,
    options: { signal?: AbortSignal | undefined; timeoutMs?: number | undefined } = {},
  ) => {
    const { api, life, note } = this.#deps;
    const vmi = object as unknown as VirtualMachineInstance;
    const sent = JSON.stringify(vmi);
    this.#deps.onPut(vmi);
    const answer = await this.#call(`PUT ${vmi.metadata.name} ${vmi.status?.phase}`, options, () => {
      const before = api.get(keyOf(vmi));
      const written = api.put(JSON.parse(sent) as VirtualMachineInstance, life.name);
      note(`written as ${written.metadata.resourceVersion}: ${changesOf(before, written).join(', ')}`);
      return written;
    });
    this.#deps.onWritten(answer);
    return answer as unknown as T;
  };

  create: Client['create'] = async <T extends KubeObject>(
    _type: unknown,
    object: T,
    options: { signal?: AbortSignal | undefined } = {},
  ) => {
    const event = object as unknown as EventObject;
    return this.#call(`POST event ${event.reason}`, options, () => {
      this.#deps.api.events++;
      return object;
    });
  };

  patch: Client['patch'] = async <T extends KubeObject>(
    _type: unknown,
    _ref: unknown,
    _body: unknown,
    _kind: unknown,
    options: { signal?: AbortSignal | undefined } = {},
  ) =>
    this.#call('PATCH event', options, () => {
      this.#deps.api.events++;
      return {} as T;
    });

  watch: Client['watch'] = <T extends KubeObject>(_type: unknown, options: WatchOptions) => this.#watch<T>(options);

  async *#watch<T extends KubeObject>(options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const { api, scheduler } = this.#deps;
    const stream = new WatchStream(this.#deps, parseLabel(options.labelSelector), options.signal);
    try {
      await this.#call('WATCH', options, () => api.watch(stream, Number(options.resourceVersion)));
      options.onOpen?.();
      const endMs = scheduler.nowMs + (options.timeoutSeconds ?? 300) * 1000;
      stream.endAt(endMs, options.idleTimeoutMs ?? 300_000);
      for (let item = await stream.next(); item !== 'end'; item = await stream.next()) {
        if (item === 'expired') {
          yield { type: 'ERROR', status: { code: 410, reason: 'Expired', message: 'too old' } as never };
          return;
        }
        yield eventOf<T>(item);
      }
    } finally {
      stream.close();
    }
  }

  async #call<T>(
    label: string,
    options: { signal?: AbortSignal | undefined; timeoutMs?: number | undefined },
    handle: () => T,
  ): Promise<T> {
    const { wire, scheduler, chance, trouble, life, note } = this.#deps;
    const stop = new AbortController();
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    const late = () => stop.abort(new KubeError('TIMEOUT', `${label}: no answer in ${timeoutMs} ms`));
    const cancel = scheduler.after(timeoutMs, `${label} deadline`, life, late);
    const onAbort = () => stop.abort(options.signal?.reason);
    if (options.signal?.aborted) onAbort();
    else options.signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await wire.request({ life, label, signal: stop.signal }, async () => {
        const fate = fateOf(chance, trouble, scheduler.nowMs);
        if (fate !== 'ok') note(fate);
        if (fate === 'hangs') return await new Promise<never>(() => undefined);
        if (fate !== 'ok' && fate !== 'lost') throw new KubeError(fate, `${label}: ${fate}`);
        const value = handle();
        if (fate === 'lost') throw new KubeError('UNREACHABLE', `${label}: the connection was reset`);
        return value;
      });
    } finally {
      cancel();
      options.signal?.removeEventListener('abort', onAbort);
    }
  }
}

/** What a write changed, in words: the top of what differs. */
function changesOf(before: VirtualMachineInstance | undefined, after: VirtualMachineInstance): string[] {
  const flat = (vmi: VirtualMachineInstance | undefined) =>
    new Map(
      [vmi?.metadata, vmi?.spec, vmi?.status].flatMap((part, index) =>
        Object.entries(part ?? {}).map(([field, value]) => [`${partNames[index]}.${field}`, JSON.stringify(value)]),
      ),
    );
  const [old, now] = [flat(before), flat(after)];
  const fields = new Set([...old.keys(), ...now.keys()]);
  fields.delete('metadata.resourceVersion');
  return [...fields].filter((field) => old.get(field) !== now.get(field)).sort();
}

const partNames = ['metadata', 'spec', 'status'];

type Fate = 'ok' | 'hangs' | 'lost' | KubeErrorCode;

function fateOf(chance: Chance, trouble: ApiTrouble, nowMs: number): Fate {
  if (nowMs < trouble.downUntilMs) return chance.happens(0.2) ? 'hangs' : 'UNREACHABLE';
  if (chance.happens(trouble.errorRate))
    return chance.pick(['TOO_MANY_REQUESTS', 'SERVER_ERROR', 'BAD_RESPONSE'] as const);
  return chance.happens(trouble.lostRate) ? 'lost' : 'ok';
}

function eventOf<T extends KubeObject>(item: WatchItem): WatchEvent<T> {
  if (item.type === 'BOOKMARK') return { type: 'BOOKMARK', resourceVersion: String(item.version) };
  return { type: item.type, object: JSON.parse(item.text) as T };
}
