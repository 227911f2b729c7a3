import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { HostHook } from '../../../../../../src/agent/index.ts';
import { HostWork } from '../../../../../../src/agent/vmi/host/index.ts';
import { silentLogger } from '../../../../../../src/base/index.ts';
import { recordDirectory } from '../../../../../../src/host/index.ts';
import { uid } from '../../../../../fixtures/agent/builders.ts';
import { memoryFiles, prepared } from '../../../../../fixtures/agent/host-hooks.ts';
import { FakeClock } from '../../../../../fixtures/fake-clock.ts';
import { Machine, release, requestOf, shownParts, workOf } from './bench.ts';

function directoryOf(t: TestContext): string {
  const dir = mkdtempSync(path.join(tmpdir(), 'host-work-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return path.join(dir, 'host-work');
}

const recordOf = (more: object) =>
  JSON.stringify({
    version: 1,
    uid,
    key: 'default/vm1',
    hooks: { mount: { stage: 'done', state: { token: 9 } } },
    ...more,
  });

test('a checkpoint is one file of the agent alone, and is gone after the release', async (t) => {
  const directory = directoryOf(t);
  const work = workOf([new Machine().mountHook('mount')], recordDirectory(directory));
  await work.start();
  await work.run(requestOf());
  assert.equal(statSync(path.join(directory, uid)).mode & 0o777, 0o600);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
  assert.deepEqual(JSON.parse(readFileSync(path.join(directory, uid), 'utf8')), {
    version: 1,
    uid,
    key: 'default/vm1',
    process: { pid: 77, startTime: '1' },
    hooks: { mount: { stage: 'done', state: { token: 1 }, facts: { token: 1 } } },
  });
  await release(work);
  assert.deepEqual(readdirSync(directory), []);
});

for (const [what, content, code] of [
  ['torn', recordOf({}).slice(0, 40), 'CHECKPOINT_INVALID'],
  ['empty', '', 'CHECKPOINT_INVALID'],
  ['of another UID', recordOf({ uid: 'other' }), 'CHECKPOINT_INVALID'],
  ['no object', '[]', 'CHECKPOINT_INVALID'],
  ['of a foreign shape', '{"mountTargetEntries":[],"usesSafePaths":true}', 'CHECKPOINT_INVALID'],
  ['nested without end', `${'['.repeat(5_000)}${']'.repeat(5_000)}`, 'CHECKPOINT_INVALID'],
  ['too large', recordOf({ padding: 'x'.repeat(70_000) }), 'CHECKPOINT_TOO_LARGE'],
] as const) {
  test(`a checkpoint that is ${what} is told and set aside, and its hooks begin anew`, async (t) => {
    const directory = directoryOf(t);
    mkdirSync(directory);
    writeFileSync(path.join(directory, uid), content);
    const machine = new Machine();
    const work = workOf([machine.mountHook('mount')], recordDirectory(directory));
    await work.start();
    writeFileSync(path.join(directory, uid), content);
    const end = await work.run(requestOf());
    assert.equal(end.kind, 'done');
    assert.deepEqual(shownParts(end), ['checkpoint failed', 'mount done']);
    assert.match(
      end.parts[0]?.because ?? '',
      new RegExp(`^${code}: the checkpoint of VMI .* cannot be used and was set aside`),
    );
    assert.deepEqual([...machine.mounts], ['mount 1']);
    assert.deepEqual(readdirSync(directory).sort(), [uid, `${uid}.unusable`]);
    await release(work);
    assert.deepEqual(readdirSync(directory), []);
    assert.deepEqual([...machine.mounts], []);
  });

  test(`a checkpoint that is ${what} keeps no clean-up from its end`, async () => {
    const files = memoryFiles();
    files.files.set(uid, content);
    const end = await release(workOf([new Machine().mountHook('mount')], files));
    assert.equal(end.kind, 'done');
    assert.deepEqual([...files.files.keys()], []);
  });
}

test('a checkpoint of a newer agent is left to that one: nothing is done and nothing touched', async (t) => {
  const directory = directoryOf(t);
  mkdirSync(directory);
  const newer = recordOf({ version: 2 });
  writeFileSync(path.join(directory, uid), newer);
  const machine = new Machine();
  const clock = new FakeClock();
  const work = workOf([machine.mountHook('mount')], recordDirectory(directory), clock);
  const untouched = () => {
    assert.deepEqual(readdirSync(directory), [uid]);
    assert.equal(readFileSync(path.join(directory, uid), 'utf8'), newer);
  };
  await work.start();
  await work.recorded();
  untouched();
  for (const end of [await work.run(requestOf()), await release(work)]) {
    assert.deepEqual([end.kind, shownParts(end)], ['wait', ['checkpoint waits']]);
    assert.match(end.parts[0]?.because ?? '', /is of a newer agent \(it has version 2, .*left as it is/);
  }
  clock.advance(599_999);
  assert.equal((await release(work)).kind, 'wait');
  untouched();
  assert.deepEqual([...machine.mounts], []);
});

test('an agent that is alone with a checkpoint of a newer one sets it aside after ten minutes', async () => {
  const files = memoryFiles();
  files.files.set(uid, recordOf({ version: 2 }));
  const clock = new FakeClock();
  const machine = new Machine();
  const work = workOf([machine.mountHook('mount')], files, clock);
  await work.start();
  clock.advance(600_000);
  const end = await work.run(requestOf());
  assert.deepEqual([end.kind, shownParts(end)], ['done', ['checkpoint failed', 'mount done']]);
  assert.match(end.parts[0]?.because ?? '', /^CHECKPOINT_NEWER: .* cannot be used and was set aside/);
  assert.deepEqual([...files.files.keys()].sort(), [uid, `${uid}.unusable`]);
});

test('a leftover whose VMI is back under a newer agent is not removed', async () => {
  const files = memoryFiles();
  const work = workOf([new Machine().mountHook('mount')], files);
  await work.run(requestOf());
  files.onChange = () => {
    throw Object.assign(new Error('EIO'), { code: 'EIO' });
  };
  await release(work);
  files.onChange = () => undefined;
  files.files.set(uid, recordOf({ version: 2 }));
  await work.removeLeftovers();
  await work.removeLeftovers();
  assert.deepEqual([...files.files.values()], [recordOf({ version: 2 })]);
});

test('what takes the place of a checkpoint and is no file is set aside and removed', async (t) => {
  const directory = directoryOf(t);
  for (const place of [uid, `${uid}.unusable`, `.${uid}.0.tmp`])
    mkdirSync(path.join(directory, place, 'inner'), { recursive: true });
  const work = workOf([new Machine().mountHook('mount')], recordDirectory(directory));
  const end = await work.run(requestOf());
  assert.match(end.parts[0]?.because ?? '', /was set aside \(it is no plain file\)/);
  await release(work);
  assert.deepEqual(readdirSync(directory), []);
});

test('a checkpoint that cannot be set aside is not said to be', async () => {
  const files = memoryFiles();
  files.files.set(uid, 'torn');
  files.rename = async () => Promise.reject(Object.assign(new Error('EIO: disk'), { code: 'EIO' }));
  const end = await workOf([new Machine().mountHook('mount')], files).run(requestOf());
  assert.match(end.parts[0]?.because ?? '', /cannot be used and could not be set aside: EIO: disk/);
});

test('a start beside a checkpoint that can neither be used nor be set aside says so, and blames no other agent', async () => {
  const files = memoryFiles();
  files.files.set(uid, 'torn');
  const { rename } = files;
  files.rename = async () => Promise.reject(Object.assign(new Error('EIO: disk'), { code: 'EIO' }));
  const machine = new Machine();
  const work = workOf([machine.mountHook('mount')], files);
  const end = await work.run(requestOf());
  assert.equal(end.kind, 'failed');
  for (const { because = '' } of end.parts.slice(0, 2)) {
    assert.match(
      because,
      /^CHECKPOINT_INVALID: .*could not be set aside: EIO: disk: see that .*: none can be saved in its place$/,
    );
  }
  assert.deepEqual([...machine.mounts], [], 'what nothing tells of is not made');
  files.rename = rename;
  assert.equal((await work.run(requestOf())).kind, 'done');
  assert.deepEqual([...machine.mounts], ['mount 2']);
});

test('a checkpoint that can neither be used nor be set aside keeps no VM: what is not known stays mounted, and that is told', async () => {
  const files = memoryFiles();
  files.files.set(uid, 'torn');
  const { rename } = files;
  files.rename = async () => Promise.reject(Object.assign(new Error('EIO: disk'), { code: 'EIO' }));
  const machine = new Machine();
  machine.mounts.add('mount 9');
  const work = workOf([machine.mountHook('mount')], files);
  const end = await release(work);
  assert.equal(end.kind, 'done');
  const told = end.parts.find(({ name }) => name === 'checkpoint');
  assert.match(
    told?.because ?? '',
    /^CHECKPOINT_INVALID: .* could not be set aside: EIO: disk: see that .* can be written/,
  );
  assert.deepEqual([...machine.mounts], ['mount 9']);
  await work.removeLeftovers();
  assert.deepEqual([...files.files.values()], ['torn'], 'it is tried again, as long as it takes');
  files.rename = rename;
  await work.removeLeftovers();
  assert.deepEqual([...files.files.keys()], []);
});

test('what another agent has made of a checkpoint that could not be used is not released with it', async () => {
  const files = memoryFiles();
  files.files.set(uid, 'torn');
  files.rename = async () => Promise.reject(Object.assign(new Error('EIO: disk'), { code: 'EIO' }));
  const hook: HostHook = {
    name: 'slow',
    prepare: async () => prepared,
    release: async () => void files.files.set(uid, recordOf({})),
  };
  const end = await release(workOf([hook], files));
  assert.deepEqual([end.kind, [...files.files.values()]], ['failed', [recordOf({})]]);
});

test('of checkpoints that cannot be used some are kept, not all', async () => {
  const files = memoryFiles();
  for (let index = 0; index < 100; index++) files.files.set(`uid-${index}`, 'torn');
  const work = workOf([new Machine().mountHook('mount')], files);
  await work.start();
  assert.equal(files.files.size, 32);
});

test('a directory that is removed under the agent is made again by the next write', async (t) => {
  const directory = directoryOf(t);
  const work = workOf([new Machine().mountHook('mount')], recordDirectory(directory));
  await work.start();
  rmSync(directory, { recursive: true });
  const end = await work.run(requestOf());
  assert.deepEqual([end.kind, shownParts(end)], ['done', ['mount done']]);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
});

test('a failure to remove the checkpoint brings no memory of a released UID back', async () => {
  const files = memoryFiles();
  const warnings: unknown[] = [];
  const log = { ...silentLogger, warn: (...args: unknown[]) => void warnings.push(args) };
  const work = new HostWork({ hooks: [new Machine().mountHook('mount')], files, clock: new FakeClock(), log });
  files.onChange = () => {
    throw Object.assign(new Error('EIO'), { code: 'EIO' });
  };
  await release(work);
  await release(work);
  assert.equal(warnings.length, 2, 'the second is no repetition of what is remembered');
});

test('a link in place of a checkpoint is not followed', async (t) => {
  const directory = directoryOf(t);
  mkdirSync(directory);
  const foreign = path.join(path.dirname(directory), 'foreign');
  writeFileSync(foreign, recordOf({}));
  symlinkSync(foreign, path.join(directory, uid));
  const machine = new Machine();
  machine.mounts.add('mount 9');
  await workOf([machine.mountHook('mount')], recordDirectory(directory)).run(requestOf());
  assert.deepEqual([...machine.mounts], ['mount 9', 'mount 1']);
  assert.equal(readFileSync(foreign, 'utf8'), recordOf({}));
});

test('a UID that could name another file has no checkpoint, and what cannot be undone is not begun', async () => {
  const files = memoryFiles();
  const machine = new Machine();
  const work = workOf([machine.mountHook('mount')], files);
  for (const bad of ['../x', '', 'a/b', `${uid}.unusable`]) {
    assert.equal((await work.run(requestOf({ uid: bad }))).kind, 'failed');
    assert.equal((await work.release(bad, new AbortController().signal)).kind, 'done');
  }
  assert.deepEqual([[...files.files.keys()], [...machine.mounts]], [[], []]);
});

test('a full disk keeps a hook from what it could not undo, and none that leaves nothing behind', async () => {
  const files = memoryFiles();
  files.onChange = () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  const machine = new Machine();
  const plain: HostHook = { name: 'plain', prepare: async () => prepared };
  const end = await workOf([plain, machine.mountHook('mount')], files).run(requestOf());
  assert.deepEqual(shownParts(end), ['checkpoint failed', 'plain done', 'mount failed']);
  assert.match(end.parts[2]?.because ?? '', /^CHECKPOINT_NOT_SAVED: .*free some space/);
  assert.deepEqual([...machine.mounts], []);
  // What leaves nothing behind keeps nothing, so a full disk is no concern of it.
  const onlyPlain = await workOf([plain], files).run(requestOf());
  assert.deepEqual([onlyPlain.kind, shownParts(onlyPlain)], ['done', ['plain done']]);
});

/** Two agents on one node. In the first hook of the one, `at` the first time, the other one does its work. */
function overlapping(at: 'prepare' | 'release') {
  const files = memoryFiles();
  const machine = new Machine();
  const other = workOf([machine.mountHook('mount')], files);
  let isBeside = true;
  const meanwhile = async (now: typeof at) => {
    if (now !== at || !isBeside) return;
    isBeside = false;
    // As if it had cleaned up, too.
    if (now === 'release') files.files.delete(uid);
    await other.run(requestOf());
  };
  const beside: HostHook = {
    name: 'beside',
    prepare: () => meanwhile('prepare').then(() => prepared),
    release: () => meanwhile('release'),
  };
  return { files, machine, work: workOf([beside, machine.mountHook('mount')], files) };
}

test('what an agent that overlaps has saved meanwhile is not written over, and counts the next time', async () => {
  const { files, machine, work } = overlapping('prepare');
  const end = await work.run(requestOf());
  assert.deepEqual(shownParts(end).slice(0, 2), ['beside done', 'mount failed']);
  assert.match(end.parts[1]?.because ?? '', /^CHECKPOINT_CHANGED: .*another agent of this node/);
  assert.deepEqual(JSON.parse(files.files.get(uid) ?? '').hooks.mount.state, { token: 1 });
  assert.equal((await work.run(requestOf())).kind, 'done');
  assert.deepEqual([...machine.mounts], ['mount 1']);
  await release(work);
  assert.deepEqual([[...machine.mounts], [...files.files.keys()]], [[], []]);
});

test('what an agent that overlaps saves between the look at a checkpoint and the write is not written over', async () => {
  const files = memoryFiles();
  const machine = new Machine();
  const other = workOf([machine.mountHook('mount')], files);
  let reads = 0;
  // The answer to a look right before a write comes late: it tells what was there before the other agent's work.
  const slow = {
    ...files,
    read: async (name: string, maxBytes: number) => {
      const text = await files.read(name, maxBytes).catch((error: Error) => error);
      if (reads++ === 1) await other.run(requestOf());
      if (text instanceof Error) throw text;
      return text;
    },
  };
  const work = workOf([machine.mountHook('mount')], slow);
  await work.run(requestOf());
  await work.run(requestOf());
  assert.deepEqual([...machine.mounts], ['mount 1']);
  await release(work);
  assert.deepEqual([[...machine.mounts], [...files.files.keys()]], [[], []]);
});

test('what an agent that overlaps makes while this one cleans up keeps its checkpoint, and is released the next time', async () => {
  const { files, machine, work } = overlapping('release');
  await work.run(requestOf());
  const end = await release(work);
  assert.equal(end.kind, 'failed');
  assert.match(end.parts.at(-1)?.because ?? '', /^CHECKPOINT_CHANGED: /);
  await work.removeLeftovers();
  assert.deepEqual([[...machine.mounts], [...files.files.keys()]], [['mount 2'], [uid]]);
  assert.equal((await release(work)).kind, 'done');
  assert.deepEqual([[...machine.mounts], [...files.files.keys()]], [[], []]);
});

test('a state beyond the bound is refused to its hook, and what was saved before still counts', async () => {
  const files = memoryFiles();
  const greedy: HostHook = {
    name: 'greedy',
    readState: (kept) => String(kept),
    prepare: async ({ state }) => {
      await state.save('small');
      await state.save('x'.repeat(70_000));
      return prepared;
    },
  };
  const end = await workOf([greedy], files).run(requestOf());
  assert.match(end.parts[0]?.because ?? '', /^CHECKPOINT_TOO_LARGE: /);
  assert.equal(JSON.parse(files.files.get(uid) ?? '').hooks.greedy.state, 'small');
});

test('a disk that does not give a checkpoint is waited for: what is in it would be lost', async () => {
  const files = memoryFiles();
  const machine = new Machine();
  const hooks = [machine.mountHook('mount')];
  await workOf(hooks, files).run(requestOf());
  const broken = { ...files, read: async () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })) };
  const end = await release(workOf(hooks, broken));
  assert.equal(end.kind, 'failed');
  assert.match(end.parts[0]?.because ?? '', /^CHECKPOINT_UNREADABLE: /);
  assert.deepEqual([...machine.mounts], ['mount 1']);
  assert.equal((await release(workOf(hooks, files))).kind, 'done');
  assert.deepEqual([...machine.mounts], []);
});

test('what a hook does not understand, or throws over, it is not given; a hook that this agent does not have stays nobody’s', async () => {
  const files = memoryFiles();
  files.files.set(
    uid,
    recordOf({ hooks: { mount: { stage: 'done', state: 'of a newer build' }, gone: { stage: 'done' } } }),
  );
  const machine = new Machine();
  const tripping = { ...machine.mountHook('mount'), readFacts: () => JSON.parse('{') };
  const work = workOf([tripping], files);
  await work.start();
  await work.run(requestOf());
  assert.deepEqual([...machine.mounts], ['mount 1']);
  assert.deepEqual(Object.keys(JSON.parse(files.files.get(uid) ?? '').hooks), ['mount', 'gone']);
  await release(work);
  assert.equal(files.files.size, 0);
});

test('a checkpoint that the disk does not let go holds up no clean-up, and is removed later, unless its UID is back', async () => {
  const files = memoryFiles();
  const work = workOf([new Machine().mountHook('mount')], files);
  const lock = () => {
    files.onChange = () => {
      throw Object.assign(new Error('EIO'), { code: 'EIO' });
    };
  };
  const unlock = () => {
    files.onChange = () => undefined;
  };
  for (const isBack of [false, true]) {
    await work.run(requestOf());
    lock();
    const end = await release(work);
    assert.deepEqual([end.kind, shownParts(end)], ['done', ['mount done', 'checkpoint failed']]);
    await work.removeLeftovers();
    assert.deepEqual([...files.files.keys()], [uid]);
    unlock();
    if (isBack) await work.run(requestOf());
    await work.removeLeftovers();
    assert.deepEqual([...files.files.keys()], isBack ? [uid] : []);
  }
});
