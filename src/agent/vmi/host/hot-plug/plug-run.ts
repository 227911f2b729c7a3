import { errorMessage } from '../../../../base/index.ts';
import type { BlockDevice } from '../../../../host/index.ts';
import { carryOut, type PlugDeps, type Task, taskOf, type Wanted } from './plug.ts';

export type HotPlugFacts = {
  /** In the launcher, by this hook's last call. */
  readonly volumes: readonly string[];
  /** Wanted and not there: volume → why. */
  readonly awaited: Readonly<Record<string, string>>;
  /** The same, for what does not come by waiting alone. */
  readonly failed: Readonly<Record<string, string>>;
};

/** All volumes of one call: looked at first, so that their devices are allowed in one step. */
export class PlugRun {
  readonly errors: unknown[] = [];
  readonly #deps: PlugDeps;
  #tasks: { readonly wanted: Wanted; readonly task: Task }[] = [];
  readonly #volumes: string[] = [];
  readonly #awaited: Record<string, string> = {};
  readonly #failed: Record<string, string> = {};

  constructor(deps: PlugDeps) {
    this.#deps = deps;
  }

  get devices(): BlockDevice[] {
    return this.#tasks.flatMap(({ task }) => ('device' in task && task.device ? task.device : []));
  }

  hasTask(volume: string): boolean {
    return this.#tasks.some(({ wanted }) => wanted.volume === volume);
  }

  get facts(): HotPlugFacts {
    return { volumes: this.#volumes, awaited: this.#awaited, failed: this.#failed };
  }

  async look(wanted: Wanted): Promise<void> {
    await this.#trying(wanted, async () => {
      if (wanted.refusal) throw wanted.refusal;
      const task = await taskOf(wanted, this.#deps);
      if (task.kind === 'missing') this.#awaited[wanted.volume] = task.because;
      else this.#tasks.push({ wanted, task });
    });
  }

  /** Without their rules no node is made; images and directories need none. */
  async allowDevices(allow: () => Promise<void>): Promise<void> {
    try {
      await allow();
    } catch (error) {
      const refused = this.#tasks.filter(({ task }) => 'device' in task && task.device);
      for (const { wanted } of refused) this.#fail(wanted, error);
      this.#tasks = this.#tasks.filter((each) => !refused.includes(each));
    }
  }

  async carryOut(): Promise<void> {
    for (const { wanted, task } of this.#tasks) {
      await this.#trying(wanted, async () => {
        await carryOut(wanted, task, this.#deps);
        this.#volumes.push(wanted.volume);
      });
    }
  }

  close(): void {
    for (const { task } of this.#tasks) if (task.kind === 'bind') task.source.close();
  }

  async #trying(wanted: Wanted, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#fail(wanted, error);
    }
  }

  #fail({ volume }: Wanted, error: unknown): void {
    this.errors.push(error);
    const [what, why] = [`volume ${volume} cannot be plugged: `, errorMessage(error)];
    this.#failed[volume] = why.startsWith(what) ? why : `${what}${why}`;
  }
}
