import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DomainLock } from '../../../../src/launcher/lifecycle/domain-lock.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';

test('one holder at a time, in the order of the requests, also after a failure', async () => {
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: new FakeClock() });
  const seen: string[] = [];
  const step = (name: string, fails = false) =>
    lock.run(name, async () => {
      seen.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    });
  const results = await Promise.allSettled([step('a'), step('b', true), step('c')]);
  assert.deepEqual(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('who waits too long behind a hung holder gets BUSY with its name, and is never run', async () => {
  const clock = new FakeClock();
  const lock = new DomainLock({ maxWaitMs: 15_000 }, { clock });
  let release: () => void = () => undefined;
  const hung = lock.run('SyncVMI', () => new Promise<void>((resolve) => (release = resolve)));
  let ran = false;
  const late = lock.run('PauseVMI', async () => {
    ran = true;
  });
  const refused = assert.rejects(late, { code: 'BUSY', message: /PauseVMI: SyncVMI is still running after 15 s/ });
  await clock.pass(15_000);
  await refused;
  release();
  await hung;
  await lock.run('next', async () => undefined);
  assert.equal(ran, false);
  assert.equal(clock.timers, 0);
});
