import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { vmiOf } from '../../fixtures/agent/builders.ts';
import { settle } from '../../fixtures/fake-clock.ts';
import { type Loop, startLoop } from './agent-loop.ts';

const names = Array.from({ length: 40 }, (_, index) => `vm${index}`);
const keyOf = (name: string) => `default/${name}`;
const uidOf = (name: string) => `uid-${name}`;

/** All handed over in the same moment. */
function handOver(loop: Loop): void {
  for (const name of names) {
    const vmi = vmiOf('Scheduled');
    loop.api.apply({ ...vmi, metadata: { ...vmi.metadata, name, uid: uidOf(name) } });
  }
}

const hasStarted = (loop: Loop, name: string) =>
  loop.launchers.launchers.get(uidOf(name))?.calls.includes('sync') === true;

suite('many starts at once', () => {
  test('the first launcher is told to start before all others were looked at', async (testContext) => {
    const loop = await startLoop(testContext);
    for (const name of names) loop.launchers.run(keyOf(name), uidOf(name));
    const looked = new Set<string>();
    const lookedAtFirstStart: number[] = [];
    const { launchers } = loop;
    const [state, connect] = [launchers.state.bind(launchers), launchers.connect.bind(launchers)];
    launchers.state = (target) => {
      looked.add(target.uid);
      return state(target);
    };
    launchers.connect = async (target, signal) => {
      const calls = await connect(target, signal);
      return {
        ...calls,
        syncVirtualMachine: (...args) => {
          lookedAtFirstStart.push(looked.size);
          return calls.syncVirtualMachine(...args);
        },
      };
    };
    handOver(loop);
    await settle();
    await settle();
    assert.ok((lookedAtFirstStart[0] ?? names.length) < names.length / 2, `${lookedAtFirstStart[0]} were looked at`);
    assert.deepEqual(
      names.filter((name) => loop.phase(keyOf(name)) !== 'Running'),
      [],
    );
  });

  test('a dozen launchers that hang delay none of the others, without a timer having passed', async (testContext) => {
    const loop = await startLoop(testContext);
    const hung = names.slice(0, 12);
    for (const name of names) loop.launchers.run(keyOf(name), uidOf(name), hung.includes(name) ? 'hangs' : 'works');
    handOver(loop);
    await settle();
    await settle();
    const others = names.slice(12);
    assert.deepEqual(
      others.filter((name) => !hasStarted(loop, name)),
      [],
    );
  });

  test('an agent that leaves waits for no turn', async (testContext) => {
    const loop = await startLoop(testContext);
    for (const name of names) loop.launchers.run(keyOf(name), uidOf(name), 'hangs');
    handOver(loop);
    let hasStopped = false;
    const stopping = loop.dispatcher.stop().then(() => {
      hasStopped = true;
    });
    await settle();
    await settle();
    assert.ok(hasStopped);
    await stopping;
  });
});
