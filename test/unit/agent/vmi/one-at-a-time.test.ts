import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { LauncherCalls } from '../../../../src/agent/index.ts';
import { domainOf, vmiOf } from '../../../fixtures/agent/builders.ts';
import type { FakeWorld } from '../../../fixtures/agent/fake-world.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { type Loop, startLoop } from './agent-loop.ts';

const destructive: readonly (keyof LauncherCalls)[] = [
  'shutdownVirtualMachine',
  'killVirtualMachine',
  'deleteVirtualMachine',
  'signalTargetPodCleanup',
];

/** How many destructive calls are under way, for each VMI and over all of them, and the most there ever were. */
class InFlight {
  readonly #now = new Map<string, number>();
  mostOfOneVmi = 0;
  mostOfAll = 0;
  calls = 0;

  /** Puts itself between the agent and its launchers; answers take time. */
  watch(world: FakeWorld): void {
    const { launchers, clock } = world;
    const connect = launchers.connect.bind(launchers);
    launchers.connect = async (target, signal) => {
      const calls = await connect(target, signal);
      const slow = destructive.map((name) => [
        name,
        async (...args: unknown[]) => {
          this.#begin(target.uid);
          try {
            await new Promise<void>((resolve) => clock.schedule(50, resolve));
            return await (calls[name] as (...args: unknown[]) => Promise<void>)(...args);
          } finally {
            this.#end(target.uid);
          }
        },
      ]);
      return { ...calls, ...Object.fromEntries(slow) };
    };
  }

  #begin(uid: string): void {
    this.calls++;
    const count = (this.#now.get(uid) ?? 0) + 1;
    this.#now.set(uid, count);
    this.mostOfOneVmi = Math.max(this.mostOfOneVmi, count);
    const all = [...this.#now.values()].reduce((sum, each) => sum + each, 0);
    this.mostOfAll = Math.max(this.mostOfAll, all);
  }

  #end(uid: string): void {
    this.#now.set(uid, (this.#now.get(uid) ?? 1) - 1);
  }
}

const names = ['vm1', 'vm2', 'vm3'];
const keyOf = (name: string) => `default/${name}`;
const uidOf = (name: string) => `uid-${name}`;

type Happening = readonly [what: 'delete' | 'remove' | 'stop' | 'touch' | 'again' | 'pass', name: string];

async function happen(loop: Loop, [what, name]: Happening): Promise<void> {
  const key = keyOf(name);
  const launcher = loop.launchers.launchers.get(uidOf(name));
  if (what === 'pass') await loop.clock.pass(30);
  if (!launcher || !loop.api.stored(key)) return;
  const running = domainOf('Running', 'Unknown', { UID: uidOf(name) });
  running.ObjectMeta.name = name;
  switch (what) {
    case 'delete':
      loop.api.change(key, ({ metadata }) => {
        metadata.deletionTimestamp = loop.clock.now().toISOString();
      });
      break;
    case 'remove':
      loop.api.remove(key);
      break;
    case 'stop':
      loop.launchers.become(launcher, {
        ...running,
        Status: { ...running.Status, Status: 'Shutoff', Reason: 'Shutdown' },
      });
      break;
    case 'again':
      loop.launchers.become(launcher, running);
      break;
    case 'touch':
      loop.api.change(key, ({ metadata }) => {
        metadata.annotations = { touched: String(loop.clock.monotonicMs()) };
      });
  }
  await settle();
}

const happenings: fc.Arbitrary<readonly Happening[]> = fc.array(
  fc.tuple(fc.constantFrom('delete', 'delete', 'remove', 'stop', 'touch', 'again', 'pass'), fc.constantFrom(...names)),
  { minLength: 5, maxLength: 25 },
);

test('one destructive call at most is under way for one VMI, whatever happens, and VMIs do not wait for each other', async (t) => {
  let mostOfAll = 0;
  let calls = 0;
  const property = fc.asyncProperty(happenings, async (list) => {
    const inFlight = new InFlight();
    const loop = await startLoop(t, (world) => inFlight.watch(world));
    for (const name of names) {
      loop.launchers.run(keyOf(name), uidOf(name));
      const vmi = vmiOf('Scheduled');
      loop.api.apply({ ...vmi, metadata: { ...vmi.metadata, name, uid: uidOf(name) } });
    }
    await settle();
    for (const each of list) await happen(loop, each);
    await loop.clock.pass(5_000);
    await loop.dispatcher.stop();
    assert.ok(inFlight.mostOfOneVmi <= 1, `${inFlight.mostOfOneVmi} at once`);
    mostOfAll = Math.max(mostOfAll, inFlight.mostOfAll);
    calls += inFlight.calls;
  });
  await fc.assert(property, { numRuns: 40 });
  assert.ok(calls > 40, `only ${calls} destructive calls were seen`);
  assert.ok(mostOfAll > 1, 'calls for several VMIs ran side by side');
});
