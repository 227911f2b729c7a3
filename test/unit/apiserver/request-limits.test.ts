import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { UserQuota } from '../../../src/apiserver/rest/limits.ts';

const limits = { what: 'watches', perUser: 3, inAll: 5 };

test('a user has so many of something, all users together so many, and what is given back can be had again', () => {
  const quota = new UserQuota(limits);
  const give = quota.take('a', 3);
  assert.throws(() => quota.take('a'), {
    code: 'TOO_MANY_REQUESTS',
    message: 'Too many requests, please try again later: user "a" may have 3 watches',
    details: { retryAfterSeconds: 1 },
  });
  quota.take('b', 2);
  assert.throws(() => quota.take('b'), { message: /all users together may have 5 watches/ });
  give();
  give();
  quota.take('b');
  assert.throws(() => quota.take('b'), { message: /user "b" may have 3/ });
  quota.take('c', 2);
});

test('whatever is taken and given back, no more is held than may be, and nothing stays counted', () => {
  const steps = fc.array(fc.record({ user: fc.constantFrom('a', 'b', 'c'), count: fc.integer({ min: 1, max: 4 }) }));
  fc.assert(
    fc.property(steps, (wanted) => {
      const quota = new UserQuota(limits);
      const held: { user: string; count: number; give: () => void }[] = [];
      for (const { user, count } of wanted) {
        try {
          held.push({ user, count, give: quota.take(user, count) });
        } catch {
          held.shift()?.give();
        }
        const sum = (of: typeof held) => of.reduce((total, item) => total + item.count, 0);
        assert.ok(sum(held) <= 5);
        assert.ok(['a', 'b', 'c'].every((name) => sum(held.filter((item) => item.user === name)) <= 3));
      }
      for (const { give } of held) give();
      quota.take('a', 3);
      quota.take('b', 2);
    }),
  );
});
