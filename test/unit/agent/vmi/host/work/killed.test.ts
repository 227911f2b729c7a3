import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostHook } from '../../../../../../src/agent/index.ts';
import { type MemoryFiles, memoryFiles, prepared } from '../../../../../fixtures/agent/host-hooks.ts';
import { Machine, release, requestOf, workOf } from './bench.ts';

/**
 * A process that is killed before the n-th thing that lasts: a write of a checkpoint, its removal, a mount, an unmount. From then
 * on nothing of it happens; machine and directory stay as they are then.
 */
class Process {
  happened: string[] = [];
  readonly #lives: number;

  constructor(lives: number) {
    this.#lives = lives;
  }

  get isDead(): boolean {
    return this.happened.length > this.#lives;
  }

  async step(what: string): Promise<void> {
    this.happened.push(what);
    if (this.isDead) await new Promise(() => undefined);
  }
}

const names = ['disks', 'network', 'mounts'];

function hooksOf(machine: Machine, process: Process): HostHook[] {
  const mounting = names.map((name) => machine.mountHook(name, (what) => process.step(what)));
  return [{ name: 'plain', prepare: async () => prepared }, ...mounting];
}

function filesOf(directory: MemoryFiles, process: Process): MemoryFiles {
  return {
    ...directory,
    exchange: async (name, change) => {
      await process.step(change.after === undefined ? 'remove' : 'write');
      return directory.exchange(name, change);
    },
    remove: async (name) => {
      await process.step('remove');
      await directory.remove(name);
    },
  };
}

/** Resolves when it is done or dead. */
async function live(process: Process, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  void work.then(() => {
    isOver = true;
  });
  while (!isOver && !process.isDead) await new Promise((resolve) => setImmediate(resolve));
}

const immortal = () => new Process(Number.POSITIVE_INFINITY);

/** What a first process did until it was killed at each of its instants, as the next one finds it. */
async function* killedAtEachInstant(begin: 'prepare' | 'release') {
  for (let instant = 0; ; instant++) {
    const machine = new Machine();
    const directory = memoryFiles();
    if (begin === 'release') await workOf(hooksOf(machine, immortal()), directory).run(requestOf());
    const process = new Process(instant);
    const work = workOf(hooksOf(machine, process), filesOf(directory, process));
    await live(process, begin === 'prepare' ? work.run(requestOf()) : release(work));
    if (!process.isDead) return;
    yield { instant: `${instant}: before ${process.happened.at(-1)}`, machine, directory };
  }
}

for (const begin of ['prepare', 'release'] as const) {
  test(`killed at any instant of ${begin}, the next process releases all of it, though the VMI is no more`, async () => {
    let instants = 0;
    for await (const { instant, machine, directory } of killedAtEachInstant(begin)) {
      instants++;
      const end = await release(workOf(hooksOf(machine, immortal()), directory));
      assert.equal(end.kind, 'done', instant);
      assert.deepEqual([[...machine.mounts], [...directory.files.keys()]], [[], []], instant);
    }
    assert.ok(instants >= 5, `only ${instants} instants`);
  });

  test(`killed at any instant of ${begin}, the next process prepares it as if nothing had happened`, async () => {
    for await (const { instant, machine, directory } of killedAtEachInstant(begin)) {
      const work = workOf(hooksOf(machine, immortal()), directory);
      assert.equal((await work.run(requestOf())).kind, 'done', instant);
      assert.equal(machine.mounts.size, names.length, `${instant}: ${[...machine.mounts].join(', ')}`);
      await release(work);
      assert.deepEqual([[...machine.mounts], [...directory.files.keys()]], [[], []], instant);
    }
  });
}
