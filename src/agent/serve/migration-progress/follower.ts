import type { ExplainMigration, Key, MigrationProgress, VirtualMachineInstance } from '../../../api/index.ts';
import { type Clock, type Component, errorMessage, Listeners, type Logger, rfc3339 } from '../../../base/index.ts';
import type { MigrationProxies, ProxyFigures } from '../../migration-proxy/ports.ts';
import type { DomainViews, MigrationNotes, VmiStore } from '../../vmi/ports.ts';
import type { SampledLaunchers } from '../metrics/index.ts';
import { jobOf, type Look, leftSeconds, nextLook } from './job.ts';

export interface MigrationFollowerDeps {
  readonly proxies: Pick<MigrationProxies, 'figures' | 'onChange'>;
  readonly vmis: Pick<VmiStore, 'get'>;
  readonly domains: Pick<DomainViews, 'view'>;
  readonly launchers: SampledLaunchers;
  readonly clock: Clock;
  readonly log: Logger;
}

const lookMs = 1_000;
const answerMs = 3_000;
/** Each note costs a write that all who watch VMIs are sent: a migration of seconds has some, one of an hour few. */
const firstNoteGapMs = 1_000;
const longestNoteGapMs = 10_000;

interface Followed {
  readonly uid: string;
  look: Look | undefined;
  note: string | undefined;
  nextNoteMs: number;
  noteGapMs: number;
  cancel: () => void;
}

/**
 * Follows the guests that leave this node: the launcher is asked once a second while the source's streams are open, and nothing
 * is asked while there are none. The result is read by explain at any time, and published as a note ever more rarely.
 */
export class MigrationFollower implements Component, MigrationNotes {
  readonly name = 'progress of migrations';
  readonly #deps: MigrationFollowerDeps;
  readonly #followed = new Map<Key, Followed>();
  readonly #listeners: Listeners<[Key]>;
  #end: (() => void) | undefined;

  constructor(deps: MigrationFollowerDeps) {
    this.#deps = deps;
    const failed = (error: unknown) =>
      deps.log.error({ reason: errorMessage(error) }, 'a listener of migrations failed');
    this.#listeners = new Listeners({ onError: failed });
  }

  async start(): Promise<void> {
    const { proxies } = this.#deps;
    this.#end = proxies.onChange((key) => this.#follow(key));
    for (const { key } of proxies.figures()) this.#follow(key);
  }

  async stop(): Promise<void> {
    this.#end?.();
    for (const key of [...this.#followed.keys()]) this.#forget(key);
  }

  onChange(listener: (key: Key) => void): () => void {
    return this.#listeners.add(listener);
  }

  noteOf(key: Key, uid: string): string | undefined {
    const followed = this.#followed.get(key);
    return followed?.uid === uid ? followed.note : undefined;
  }

  /** Both ends, for people. Undefined: this node has no streams of this VMI open. */
  explain(key: Key): ExplainMigration | undefined {
    const figures = this.#deps.proxies.figures().find((each) => each.key === key);
    const vmi = this.#deps.vmis.get(key);
    if (!figures || !vmi) return undefined;
    const { migrationState: state = {} } = vmi.status ?? {};
    const look = this.#followed.get(key)?.look;
    const left = look && leftSeconds(look);
    return {
      direction: figures.side === 'source' ? 'out' : 'in',
      peer: String((figures.side === 'source' ? state.targetNode : state.sourceNode) ?? ''),
      migration: String(state.migrationUid ?? ''),
      mode: this.#modeOf(key, vmi),
      ports: figures.ports,
      streams: figures.streams,
      bytes: figures.bytes,
      bytesPerSecond: look?.bytesPerSecond || figures.bytesPerSecond,
      ...(look && {
        processedBytes: look.processedBytes,
        remainingBytes: look.remainingBytes,
        totalBytes: look.totalBytes,
      }),
      ...(left !== undefined && { leftSeconds: left }),
    };
  }

  #follow(key: Key): void {
    const uid = this.#deps.vmis.get(key)?.metadata.uid;
    if (uid === undefined || !this.#source(key)) {
      this.#forget(key);
      return;
    }
    if (this.#followed.get(key)?.uid === uid) return;
    this.#forget(key);
    const noteGapMs = firstNoteGapMs;
    const followed: Followed = { uid, look: undefined, note: undefined, nextNoteMs: 0, noteGapMs, cancel: () => {} };
    this.#followed.set(key, followed);
    this.#askLater(key, followed);
  }

  #forget(key: Key): void {
    this.#followed.get(key)?.cancel();
    this.#followed.delete(key);
  }

  #source(key: Key): ProxyFigures | undefined {
    return this.#deps.proxies.figures().find((each) => each.key === key && each.side === 'source');
  }

  /** The pause is counted from the answer: a launcher that hangs is asked no more often. */
  #askLater(key: Key, followed: Followed): void {
    followed.cancel = this.#deps.clock.schedule(lookMs, () => {
      this.#ask(key, followed)
        .catch((error: unknown) => {
          this.#deps.log.debug(
            { vmi: key, reason: errorMessage(error) },
            'a launcher gives no figures of its migration',
          );
        })
        .finally(() => {
          if (this.#followed.get(key) === followed) this.#askLater(key, followed);
        });
    });
  }

  async #ask(key: Key, followed: Followed): Promise<void> {
    const { vmis, launchers, clock } = this.#deps;
    const vmi = vmis.get(key);
    const launcher = vmi?.metadata.uid === followed.uid ? launchers.find(vmi) : undefined;
    if (!vmi || !launcher) return;
    const job = jobOf(await launcher.domainStats(AbortSignal.timeout(answerMs)));
    if (!job || this.#followed.get(key) !== followed) return;
    followed.look = nextLook(followed.look, job, clock.monotonicMs());
    this.#publish(key, vmi, followed, followed.look);
  }

  #publish(key: Key, vmi: VirtualMachineInstance, followed: Followed, look: Look): void {
    const { clock } = this.#deps;
    const migration = vmi.status?.migrationState?.migrationUid;
    const nowMs = clock.monotonicMs();
    if (!migration || look.processedBytes === 0 || nowMs < followed.nextNoteMs) return;
    followed.nextNoteMs = nowMs + followed.noteGapMs;
    followed.noteGapMs = Math.min(longestNoteGapMs, 2 * followed.noteGapMs);
    const { processedBytes, remainingBytes, bytesPerSecond } = look;
    const left = leftSeconds(look);
    const progress: MigrationProgress = {
      migration,
      mode: this.#modeOf(key, vmi),
      ports: Object.keys(this.#source(key)?.ports ?? {}).map(Number),
      ...{ processedBytes, remainingBytes, bytesPerSecond },
      ...(left !== undefined && { leftSeconds: left }),
      at: rfc3339(clock.now()),
    };
    followed.note = JSON.stringify(progress);
    this.#listeners.notify(key);
  }

  /** The launcher knows of a switch to post-copy before the VMI does. */
  #modeOf(key: Key, { status, metadata }: VirtualMachineInstance): string {
    const view = this.#deps.domains.view(key, metadata.uid);
    const reported = view.kind === 'present' ? view.domain.Spec?.Metadata?.KubeVirt?.Migration?.Mode : undefined;
    return String(reported || status?.migrationState?.mode || 'PreCopy');
  }
}
