import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { SeccompProfile } from '../../../../../src/agent/node/seccomp/index.ts';
import { seccompProfile } from '../../../../../src/agent/node/seccomp/seccomp-profile.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeSettings } from '../../../../fixtures/agent/fake-settings.ts';
import { eventually } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

let root: string;
let clock: FakeClock;
let settings: FakeSettings;
let duty: SeccompProfile;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'kubelet-'));
  clock = new FakeClock();
  settings = new FakeSettings();
  duty = new SeccompProfile({ kubeletRoot: root }, { settings, clock, log: silentLogger });
});

afterEach(async () => {
  await duty.stop();
  await rm(root, { recursive: true, force: true });
});

const fileOf = () => path.join(root, 'seccomp/kubevirt/kubevirt.json');
const installed = async () => JSON.parse(await readFile(fileOf(), 'utf8'));

/** It has stopped, so what it began is done. */
async function ran(): Promise<void> {
  await duty.start();
  await duty.stop();
}

test('the profile is installed for root only, whole, and nothing is left beside it', async () => {
  await ran();
  assert.deepEqual(await installed(), structuredClone(seccompProfile));
  assert.equal((await stat(fileOf())).mode & 0o777, 0o700);
  assert.equal((await stat(path.dirname(fileOf()))).mode & 0o777, 0o700);
  assert.deepEqual(await readdir(path.dirname(fileOf())), ['kubevirt.json']);
});

test('its content: 41 rules, userfaultfd allowed by the last one and in no other, and no name told twice', () => {
  const { syscalls, defaultErrnoRet, archMap } = seccompProfile;
  assert.deepEqual([syscalls.length, defaultErrnoRet, archMap.length], [41, 38, 7]);
  assert.deepEqual(syscalls.at(-1)?.names, ['userfaultfd']);
  assert.equal(syscalls.filter(({ names }) => names.includes('userfaultfd')).length, 1);
  assert.deepEqual(syscalls[0]?.names.length, 34);
  for (const { names } of syscalls) assert.equal(new Set(names).size, names.length);
  assert.deepEqual(syscalls[6]?.args, [{ index: 0, value: 0xffffffff, valueTwo: 0, op: 'SCMP_CMP_EQ' }]);
  assert.deepEqual(syscalls[31], {
    names: ['socket'],
    action: 'SCMP_ACT_ERRNO',
    args: [
      { index: 0, value: 16, valueTwo: 0, op: 'SCMP_CMP_EQ' },
      { index: 2, value: 9, valueTwo: 0, op: 'SCMP_CMP_EQ' },
    ],
    comment: '',
    includes: {},
    excludes: { caps: ['CAP_AUDIT_WRITE'] },
    errnoRet: 22,
    errno: 'EINVAL',
  });
  assert.equal(syscalls[35]?.args, null);
  const digest = createHash('sha256').update(JSON.stringify(seccompProfile)).digest('hex').slice(0, 16);
  assert.equal(digest, '2719a3758ab6fb07', 'the file changed: is that meant?');
});

test('a file that says the same in other bytes is left alone', async () => {
  await mkdir(path.dirname(fileOf()), { recursive: true });
  const { syscalls, ...rest } = seccompProfile;
  const text = JSON.stringify({ syscalls, ...rest }, undefined, 2);
  await writeFile(fileOf(), text);
  await ran();
  assert.equal(await readFile(fileOf(), 'utf8'), text);
});

for (const [what, content] of [
  ['torn', '{"defaultAction":'],
  ['empty', ''],
  ['another one', '{"defaultAction":"SCMP_ACT_ALLOW"}'],
] as const) {
  test(`a file that is ${what} is replaced`, async () => {
    await mkdir(path.dirname(fileOf()), { recursive: true });
    await writeFile(fileOf(), content);
    await ran();
    assert.deepEqual(await installed(), structuredClone(seccompProfile));
  });
}

test('with the gate off nothing is installed, and with the gate switched off later nothing is taken away', async () => {
  settings.setNode({ gates: { KubevirtSeccompProfile: false } });
  await duty.start();
  settings.setNode({ gates: { KubevirtSeccompProfile: true } });
  settings.setNode({ gates: { KubevirtSeccompProfile: false } });
  await duty.stop();
  assert.deepEqual(await installed(), structuredClone(seccompProfile));
});

test('without a kubelet on the machine no directory is made for it', async () => {
  await rm(root, { recursive: true });
  await ran();
  await assert.rejects(stat(root), { code: 'ENOENT' });
});

test('a kubelet that comes later gets the profile, and so does one whose directory was made anew', async () => {
  await rm(root, { recursive: true });
  await duty.start();
  for (let times = 0; times < 2; times++) {
    await mkdir(root, { recursive: true });
    await eventually(async () => {
      await clock.pass(5_000);
      assert.deepEqual(await installed(), structuredClone(seccompProfile));
    });
    await rm(root, { recursive: true });
  }
});

test('a profile that somebody takes away comes back', async () => {
  await ran();
  duty = new SeccompProfile({ kubeletRoot: root }, { settings, clock, log: silentLogger });
  await duty.start();
  await rm(fileOf());
  await eventually(async () => {
    await clock.pass(1_000);
    await installed();
  });
});

test('with the gate off a kubelet that comes later gets nothing', async () => {
  settings.setNode({ gates: { KubevirtSeccompProfile: false } });
  await rm(root, { recursive: true });
  await duty.start();
  await mkdir(root);
  await clock.pass(60_000);
  await duty.stop();
  assert.deepEqual(await readdir(root), []);
});

test('a directory that cannot be made is tried again later', async () => {
  await writeFile(path.join(root, 'seccomp'), 'in the way');
  await chmod(root, 0o700);
  await duty.start();
  await eventually(() => assert.equal(clock.timers, 2, 'the next try, and the look that comes every 30 s'));
  await rm(path.join(root, 'seccomp'));
  await clock.pass(300_000);
  await eventually(async () => assert.deepEqual(await installed(), structuredClone(seccompProfile)));
});
