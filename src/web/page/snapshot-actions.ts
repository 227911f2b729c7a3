import type { VmRow } from '../rows.ts';
import { keyOfRow, type PageState } from './page-state.ts';
import { isLive } from './row-model.ts';
import type { Vm } from './server-calls.ts';
import {
  type CloneSource,
  cloneWithDisks,
  removeOf,
  restoreSnapshot,
  type SnapshotFacts,
  takeSnapshot,
} from './snapshot-calls.ts';
import { type SnapshotLine, snapshotName, type UseLine, whatIsKept, whatIsRestored } from './snapshots-model.ts';
import { freeName, messageOf } from './words.ts';

/** As the API has names of objects. */
const namePattern = '[a-z0-9]([\\-a-z0-9]*[a-z0-9])?';
const nameHint = 'Small letters, digits and dashes.';

/** What can be done with the snapshots of a VM: each asks first, and says in words what came of it. */
export class SnapshotActions {
  /** While one is under way no other is begun. No key of a VM has a space. */
  readonly busyKey: string;
  readonly namespace: string;
  readonly #state: PageState;
  readonly #vm: Vm;
  readonly #row: VmRow | undefined;
  readonly #onDone: () => void;

  constructor(state: PageState, vm: Vm, row: VmRow | undefined, onDone: () => void) {
    this.busyKey = `snapshots ${keyOfRow(vm)}`;
    this.namespace = vm.namespace;
    this.#state = state;
    this.#vm = vm;
    this.#row = row;
    this.#onDone = onDone;
  }

  async take({ vm, snapshots }: SnapshotFacts): Promise<void> {
    const taken = new Set(snapshots.map(({ metadata }) => metadata.name));
    const row = this.#row;
    const hasAgent =
      row?.conditions.some(({ type, status }) => type === 'AgentConnected' && status === 'True') === true;
    const answer = await this.#state.ask({
      text: `Take a snapshot of ${this.#vm.name}?`,
      details: vm ? whatIsKept(vm, row !== undefined && isLive(row), hasAgent) : [],
      ...{ yes: 'Take snapshot', isHarsh: false },
      input: this.#name(snapshotName(this.#vm.name, new Date(), taken)),
    });
    if (!answer.isYes) return;
    const name = answer.choice;
    await this.#do(`Snapshot ${name}`, `The snapshot ${name} is being taken.`, () => takeSnapshot(this.#vm, name));
  }

  async restore(line: SnapshotLine, isRunning: boolean): Promise<void> {
    const { name } = this.#vm;
    const options = [
      { value: 'StopTarget', text: 'is stopped now' },
      { value: 'WaitEventually', text: 'runs until somebody stops it' },
    ];
    const answer = await this.#state.ask({
      text: `Restore ${name} to ${line.name}?`,
      details: whatIsRestored(line, isRunning),
      ...{ yes: 'Restore', isHarsh: true },
      ...(isRunning && { choices: { label: 'The machine', options } }),
    });
    if (!answer.isYes) return;
    const policy = isRunning ? answer.choice : undefined;
    await this.#do(`Restore ${name}`, `${name} is being restored to ${line.name}.`, () =>
      restoreSnapshot(this.#vm, line.name, policy),
    );
  }

  /** `snapshot` undefined: of the machine as it is. */
  async clone({ clones }: SnapshotFacts, snapshot?: string): Promise<void> {
    const { namespace, name } = this.#vm;
    const of = snapshot ?? name;
    const answer = await this.#state.ask({
      text: snapshot === undefined ? `Clone ${name} with its disks?` : `Make another machine of ${snapshot}?`,
      details: [
        'It gets claims of its own with the same on them, and addresses and serial numbers of its own. It is not started.',
        ...(snapshot === undefined ? ['A snapshot is taken for it, which goes when the clone is there.'] : []),
      ],
      ...{ yes: 'Clone', isHarsh: false },
      input: this.#name(this.#freeClone(clones.map(({ spec }) => spec.target?.name ?? ''))),
    });
    if (!answer.isYes) return;
    const source: CloneSource = {
      kind: snapshot === undefined ? 'VirtualMachine' : 'VirtualMachineSnapshot',
      name: of,
    };
    await this.#do(`Clone ${of}`, `${answer.choice} is being made of ${of}.`, () =>
      cloneWithDisks(namespace, source, answer.choice),
    );
  }

  async deleteSnapshot(name: string): Promise<void> {
    const text = `Delete the snapshot ${name}?`;
    const details = [
      'The copies of the disks go with it. Machines that were made of it, or restored to it, keep theirs.',
    ];
    if (!(await this.#state.ask({ text, details, yes: 'Delete', isHarsh: true })).isYes) return;
    await this.#do(`Delete ${name}`, `${name} is being deleted.`, () =>
      removeOf('snapshots', { namespace: this.namespace, name }),
    );
  }

  /** What is over is only no longer shown. */
  async drop({ kind, name, isOver, makes }: UseLine): Promise<void> {
    const text = makes === undefined ? `Give up the restore of ${this.#vm.name}?` : `Give up the clone ${makes}?`;
    const details = ['What it has made by now stays, claims for one. The machine can be started again.'];
    if (!isOver && !(await this.#state.ask({ text, details, yes: 'Give up', isHarsh: true })).isYes) return;
    const done = isOver ? `${name} is no longer listed.` : `${name} is given up.`;
    await this.#do(`Delete ${name}`, done, () => removeOf(kind, { namespace: this.namespace, name }));
  }

  async #do(what: string, done: string, act: () => Promise<void>): Promise<void> {
    this.#state.setBusy(this.busyKey, true);
    try {
      await act();
      this.#state.say(done);
    } catch (error) {
      this.#state.fail(`${what}: ${messageOf(error)}`);
    } finally {
      this.#state.setBusy(this.busyKey, false);
      this.#onDone();
    }
  }

  #freeClone(asked: readonly string[]): string {
    const isThere = (name: string) => this.#state.rows.value.has(keyOfRow({ namespace: this.namespace, name }));
    return freeName(`${this.#vm.name}-clone`, (name) => isThere(name) || asked.includes(name));
  }

  #name(value: string) {
    return { label: 'Name', value, hint: nameHint, pattern: namePattern };
  }
}
