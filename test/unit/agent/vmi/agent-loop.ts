import { type DispatcherOptions, VmiDispatcher } from '../../../../src/agent/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../../fixtures/agent/fake-launchers.ts';
import { type FakeWorld, fakeWorld } from '../../../fixtures/agent/fake-world.ts';
import { settle } from '../../../fixtures/fake-clock.ts';

export interface Loop extends FakeWorld {
  dispatcher: VmiDispatcher;
  /** Ends the agent and starts a new one on the same world. */
  restart(keepGhosts?: boolean): Promise<void>;
  phase(vmiKey?: string): string | undefined;
  rules(vmiKey?: string): string[];
  reasons(vmiKey?: string): string[];
  condition(type: string, vmiKey?: string): { status: string; reason?: string; message?: string } | undefined;
}

const options: DispatcherOptions = { concurrency: 64, backoff: { baseMs: 20, maxMs: 60_000 } };

/** Starts the real loop on a fake world; `prepare` runs before the agent does. */
export async function startLoop(
  testContext: { after(fn: () => Promise<void>): void },
  prepare: (world: FakeWorld) => void = () => undefined,
): Promise<Loop> {
  const world = fakeWorld();
  prepare(world);
  const create = () => new VmiDispatcher(options, { ports: world.ports, log: silentLogger });
  const loop: Loop = {
    ...world,
    dispatcher: create(),
    restart: async (keepGhosts = true) => {
      await loop.dispatcher.stop();
      world.launchers.restartAgent(keepGhosts);
      await world.restartHostWork();
      loop.dispatcher = create();
      await loop.dispatcher.start();
      await settle();
    },
    phase: (vmiKey = key) => world.api.stored(vmiKey)?.status?.phase,
    rules: (vmiKey = key) => loop.dispatcher.reconciler.decisions.of(vmiKey).map(({ rule }) => rule),
    reasons: (vmiKey = key) => world.events.filter((event) => event.key === vmiKey).map(({ reason }) => reason),
    condition: (type, vmiKey = key) => world.api.stored(vmiKey)?.status?.conditions?.find((each) => each.type === type),
  };
  testContext.after(() => loop.dispatcher.stop());
  await loop.dispatcher.start();
  await settle();
  return loop;
}

/** A VMI that runs. */
export async function startRunning(testContext: {
  after(fn: () => Promise<void>): void;
}): Promise<{ loop: Loop; launcher: FakeLauncher }> {
  const loop = await startLoop(testContext);
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  if (loop.phase() !== 'Running') throw new Error(`not running: ${loop.rules().join(', ')}`);
  return { loop, launcher };
}

export function markDeleted(loop: Loop, vmiKey = key): void {
  loop.api.change(vmiKey, (vmi) => {
    vmi.metadata.deletionTimestamp = loop.clock.now().toISOString();
  });
}
