import { Listeners, type Logger } from '../../base/index.ts';
import type { LauncherPhase, Transition } from './phase.ts';

type Over = Extract<LauncherPhase, { kind: 'reporting' | 'left' }>;
type Listener = (phase: LauncherPhase) => void;

/** The one place that holds the launcher's phase. What acts on a phase listens here, and keeps no copy. */
export class LauncherLife {
  readonly #log: Logger;
  readonly #listeners = new Listeners<[phase: LauncherPhase]>();
  #phase: LauncherPhase = { kind: 'setting-up' };

  constructor(deps: { readonly log: Logger }) {
    this.#log = deps.log;
  }

  get phase(): LauncherPhase {
    return this.#phase;
  }

  /** Takes the transition if the phase has it; the listeners are called when it has. */
  move(transition: Transition): void {
    const before = this.#phase;
    const phase = transition(before);
    if (phase === before) return;
    this.#phase = phase;
    this.#log.debug({ from: before.kind, ...phase }, 'launcher phase');
    this.#listeners.notify(phase);
  }

  onChange(listener: Listener): () => void {
    return this.#listeners.add(listener);
  }

  /** Resolves when QEMU has ended, or when the launcher is to leave without it. */
  async over(): Promise<Over> {
    const now = overOf(this.#phase);
    if (now) return now;
    return new Promise((resolve) => {
      const stop = this.onChange((phase) => {
        const over = overOf(phase);
        if (!over) return;
        stop();
        resolve(over);
      });
    });
  }
}

function overOf(phase: LauncherPhase): Over | undefined {
  return phase.kind === 'reporting' || phase.kind === 'left' ? phase : undefined;
}
