import type { HookContext, HostHook, HostOutcome, HostRequest } from '../../../../../../src/agent/index.ts';
import { HostWork } from '../../../../../../src/agent/vmi/host/index.ts';
import { silentLogger } from '../../../../../../src/base/index.ts';
import type { SharedRecordFiles } from '../../../../../../src/host/index.ts';
import { clusterConfig, key, uid, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { FakeClock } from '../../../../../fixtures/fake-clock.ts';

export const requestOf = (more: Partial<HostRequest> = {}): HostRequest => ({
  key,
  uid,
  vmi: vmiOf('Scheduled'),
  launcherPid: 77,
  process: { pid: 77, startTime: '1' },
  purpose: 'start',
  config: clusterConfig,
  signal: new AbortController().signal,
  ...more,
});

export const release = (work: HostWork) => work.release(uid, new AbortController().signal);

export function workOf(hooks: readonly HostHook[], files: SharedRecordFiles, clock = new FakeClock()): HostWork {
  return new HostWork({ hooks, files, clock, log: silentLogger });
}

export const shownParts = ({ parts }: HostOutcome) => parts.map(({ name, outcome }) => `${name} ${outcome}`);

export const isRecordOf = (value: unknown): value is { readonly token: number } =>
  typeof value === 'object' && value !== null && 'token' in value && typeof value.token === 'number';

/** What hooks do to the machine: it outlives the agent. */
export class Machine {
  readonly mounts = new Set<string>();
  #tokens = 0;

  /** A hook whose undo needs what it saved: the mount has a name that nothing else tells. `step`: before each thing that lasts. */
  mountHook(name: string, step: (what: string) => Promise<void> = async () => undefined): HostHook {
    return {
      name,
      readState: (kept) => (isRecordOf(kept) ? { token: kept.token } : undefined),
      readFacts: (kept) => (isRecordOf(kept) ? { token: kept.token } : undefined),
      prepare: async ({ state }: HookContext) => {
        const known = isRecordOf(state.current) ? state.current.token : undefined;
        const token = known ?? ++this.#tokens;
        if (known === undefined) await state.save({ token });
        await step(`${name} mounts`);
        this.mounts.add(`${name} ${token}`);
        return { kind: 'done', facts: { token } };
      },
      release: async ({ state }) => {
        await step(`${name} unmounts`);
        if (isRecordOf(state)) this.mounts.delete(`${name} ${state.token}`);
      },
    };
  }
}
