import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attack, launcherUser, localUser } from '../fixtures/attacker.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can become another user';

test('an attack runs as the user it says, without any right of root', { skip: needsRoot }, async () => {
  const nobody = { uid: 65_534, gid: 65_534, groups: [65_534], capabilities: '0000000000000000' };
  assert.deepEqual(await attack('whoami', localUser, {}), nobody);
  const launcher = { uid: 107, gid: 107, groups: [107], capabilities: '0000000000000000' };
  assert.deepEqual(await attack('whoami', launcherUser(process.pid), {}), launcher);
});
