import { annotations, findCondition, keyOf, resources } from '../../../src/api/index.ts';
import type { ClusterStore, Loose } from './store.ts';

const { migrations, pods, virtualMachineInstances: vmis } = resources;
const { evacuationMigration, workloadUpdateMigration, migrationRetryOf, migrationRefused } = annotations;
const losses = ['MigrationFailed', 'TargetPodEnded', 'TargetPodRemoved'];

export interface RetriesDeps {
  readonly store: ClusterStore;
  /** UID of the pod that has the guest, by UID of its VMI. */
  readonly guests: ReadonlyMap<string, string>;
}

/** What is tried again, by the truth of the store: each loss once, whatever answers are lost and controllers end; nothing else. */
export class Retries {
  readonly #deps: RetriesDeps;
  /** All that ever were, in the order of their creation. */
  readonly #made: Loose[] = [];
  /** Made by a leader that was late. */
  readonly #late = new Set<string>();
  /** Names of those that are to be tried again. */
  readonly #due = new Set<string>();

  constructor(deps: RetriesDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#made.filter(({ metadata }) => triedBy(metadata) !== undefined).length;
  }

  /**
   * What is wrong with a change of a migration. `isLate`: by a leader that another one has followed. Its request to try one again may arrive when
   * the one that its successor made has been cancelled and is gone: no client can take it back.
   */
  judge(before: Loose | undefined, after: Loose, isLate: boolean): string[] {
    if (!before) this.#made.push(after);
    if (!before && isLate) this.#late.add(after.metadata.uid ?? '');
    if (!before) return this.#judgeNew(after);
    if (after.status?.phase !== 'Failed' || before.status?.phase === 'Failed') return [];
    const isDue = conditionOf(after)?.reason === 'RetryDue';
    if (isDue) this.#due.add(after.metadata.name);
    const [must, mustNot] = [this.#isLoss(after), isOrderedOrAutomatic(after) || this.#isRefused(after)];
    if (must && !isDue) return [`${after.metadata.name} is lost for good: ${JSON.stringify(after.status)}`];
    if (mustNot && isDue) return [`${after.metadata.name} is to be tried again: ${JSON.stringify(after)}`];
    return [];
  }

  /** What was to be tried again, and nobody decided on. */
  left(): string[] {
    const there = this.#deps.store.list(migrations);
    return there.flatMap((each) => {
      const { name } = each.metadata;
      const reason = conditionOf(each)?.reason;
      if (reason === 'RetryDue') return [`${name} is still to be tried again`];
      return reason === 'Retried' && this.#triesOf(name) !== 1
        ? [`${name} was tried again ${this.#triesOf(name)} times`]
        : [];
    });
  }

  #judgeNew({ metadata }: Loose): string[] {
    const of = triedBy(metadata);
    if (of === undefined) return [];
    const lost = this.#made.find((each) => each.metadata.name === of);
    if (!lost || !this.#due.has(of)) return [`${metadata.name} tries ${of} again, which was not to be`];
    if (triedBy(lost.metadata) !== undefined) return [`${metadata.name} tries a retry again`];
    return this.#triesOf(of) > 1 ? [`${of} is tried again ${this.#triesOf(of)} times`] : [];
  }

  #triesOf(name: string): number {
    const tries = this.#made.filter(({ metadata }) => triedBy(metadata) === name);
    const late = tries.filter(({ metadata }) => this.#late.has(metadata.uid ?? ''));
    // The only one counts whoever made it.
    return Math.max(tries.length - late.length, Math.min(tries.length, 1));
  }

  /** Nobody wanted it to end, and its guest is where it was. */
  #isLoss(migration: Loose): boolean {
    const { spec, status } = migration;
    const vmi = this.#deps.store.find(vmis, keyOf({ metadata: { ...migration.metadata, name: spec.vmiName } }));
    if (vmi?.status?.phase !== 'Running' || vmi.metadata.deletionTimestamp) return false;
    if (!losses.includes(causeOf(migration)) || isOrderedOrAutomatic(migration) || this.#isRefused(migration))
      return false;
    if (vmi.status.migrationState?.abortRequested) return false;
    const pod = this.#deps.store.list(
      pods,
      ({ metadata }) => metadata.uid === this.#deps.guests.get(vmi.metadata.uid ?? ''),
    )[0];
    const isThere = pod && !pod.metadata.deletionTimestamp && pod.metadata.name === status.migrationState?.sourcePod;
    return Boolean(isThere) && !this.#hasNewer(migration);
  }

  #hasNewer({ metadata, spec }: Loose): boolean {
    const at = this.#made.findIndex((each) => each.metadata.uid === metadata.uid);
    const isBeside = (each: Loose) => each.metadata.uid !== metadata.uid && each.spec.vmiName === spec.vmiName;
    const sameSecond = (each: Loose) => each.metadata.creationTimestamp === metadata.creationTimestamp;
    return this.#made.some((each, index) => isBeside(each) && (index > at || sameSecond(each)));
  }

  /** By the word of its agent, where that is the cause. */
  #isRefused(migration: Loose): boolean {
    const { metadata, spec } = migration;
    const vmi = this.#deps.store.find(vmis, `${metadata.namespace}/${spec.vmiName}`);
    return causeOf(migration) === 'MigrationFailed' && vmi?.metadata.annotations?.[migrationRefused] === metadata.uid;
  }
}

const triedBy = ({ annotations: given }: Loose['metadata']) => given?.[migrationRetryOf];
const conditionOf = ({ status }: Loose) => findCondition(status?.conditions, 'migrationRetry');
const causeOf = ({ status }: Loose) => findCondition(status?.conditions, 'migrationFailed')?.reason ?? '';

function isOrderedOrAutomatic({ metadata, status }: Loose): boolean {
  const given = metadata.annotations ?? {};
  const isAborted = findCondition(status?.conditions, 'migrationAbortRequested') !== undefined;
  const isMadeBySomebody = [evacuationMigration, workloadUpdateMigration, migrationRetryOf].some(
    (name) => name in given,
  );
  return Boolean(metadata.deletionTimestamp) || isAborted || isMadeBySomebody;
}
