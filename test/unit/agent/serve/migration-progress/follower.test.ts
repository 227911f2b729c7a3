import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { ProxyFigures } from '../../../../../src/agent/migration-proxy/index.ts';
import { MigrationFollower } from '../../../../../src/agent/serve/migration-progress/index.ts';
import { annotations, publishedProgress, type VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const key = 'default/vm';
const mebibyte = 2 ** 20;
const source: ProxyFigures = {
  ...{ key, side: 'source', ports: { '40001': 0, '40002': 49_152 } },
  ...{ streams: 2, bytes: 7, bytesPerSecond: 3, refused: 0, stalledSeconds: 0 },
};
const vmi = {
  metadata: { namespace: 'default', name: 'vm', uid: 'u1' },
  status: { migrationState: { migrationUid: 'm1', sourceNode: 'a', targetNode: 'b' } },
} as unknown as VirtualMachineInstance;

let clock: FakeClock;
let figures: ProxyFigures[];
let changed: (key: string) => void;
let asked: number;
let answer: () => Promise<string>;
let notes: string[];
let follower: MigrationFollower;

const job = (sent: number, left: number) =>
  JSON.stringify({
    MigrateDomainJobInfo: {
      ...{ DataProcessedSet: true, DataProcessed: sent * mebibyte },
      ...{ DataRemainingSet: true, DataRemaining: left * mebibyte, DataTotalSet: true, DataTotal: 200 * mebibyte },
    },
  });

beforeEach(async () => {
  clock = new FakeClock();
  figures = [];
  asked = 0;
  notes = [];
  let sent = 0;
  answer = async () => {
    sent += 10;
    return job(sent, Math.max(0, 200 - sent));
  };
  follower = new MigrationFollower({
    proxies: {
      figures: () => figures,
      onChange: (listener) => {
        changed = listener;
        return () => undefined;
      },
    },
    vmis: { get: () => vmi },
    domains: { view: () => ({ kind: 'absent' }) },
    launchers: {
      find: () => ({
        domainStats: () => {
          asked++;
          return answer();
        },
        filesystems: async () => '',
        dirtyRate: async () => 0n,
      }),
    },
    clock,
    log: silentLogger,
  });
  follower.onChange((changedKey) => notes.push(follower.noteOf(changedKey, 'u1') ?? ''));
  await follower.start();
});

/** Each answer comes before the next second. */
async function seconds(many: number): Promise<void> {
  for (let second = 0; second < many; second++) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function openSource(): void {
  figures = [source];
  changed(key);
}

test('while nothing leaves this node no launcher is asked, also while a guest arrives', async () => {
  await seconds(60);
  figures = [{ ...source, side: 'target' }];
  changed(key);
  await seconds(60);
  assert.equal(asked, 0);
  assert.equal(follower.explain(key)?.direction, 'in');
  assert.equal(follower.explain(key)?.peer, 'a');
});

test('a guest that leaves is followed each second until its streams are closed, and then no more', async () => {
  openSource();
  await seconds(5);
  assert.equal(asked, 5);
  const { ports, ...shown } = follower.explain(key) ?? {};
  assert.deepEqual(ports, source.ports);
  assert.deepEqual(shown, {
    ...{ direction: 'out', peer: 'b', migration: 'm1', mode: 'PreCopy', streams: 2, bytes: 7 },
    ...{ bytesPerSecond: 10 * mebibyte, processedBytes: 50 * mebibyte, remainingBytes: 150 * mebibyte },
    ...{ totalBytes: 200 * mebibyte, leftSeconds: 15 },
  });
  figures = [];
  changed(key);
  await seconds(60);
  assert.equal(asked, 5);
  assert.equal(follower.explain(key), undefined);
  assert.equal(follower.noteOf(key, 'u1'), undefined);
});

test('notes become rarer: some in the first seconds, then one in ten seconds', async () => {
  openSource();
  await seconds(3_600);
  assert.ok(notes.length > 355 && notes.length < 365, `${notes.length} notes in an hour`);
  const firstMinute = notes.filter((text) => JSON.parse(text).processedBytes <= 600 * mebibyte);
  assert.equal(firstMinute.length, 9);
});

test('a note is what the page reads, and nothing of another migration or after the end', async () => {
  openSource();
  await seconds(3);
  const noted = (status: object, note = notes.at(-1) ?? '') =>
    publishedProgress({
      metadata: { ...vmi.metadata, annotations: { [annotations.migrationProgress]: note } },
      spec: {},
      status: { migrationState: status },
    } as unknown as VirtualMachineInstance);
  const { at, ...shown } = noted({ migrationUid: 'm1' }) ?? {};
  assert.ok(!Number.isNaN(Date.parse(String(at))));
  assert.deepEqual(shown, {
    ...{ migration: 'm1', mode: 'PreCopy', ports: [40_001, 40_002], leftSeconds: 18 },
    ...{ processedBytes: 20 * mebibyte, remainingBytes: 180 * mebibyte, bytesPerSecond: 10 * mebibyte },
  });
  assert.ok((notes.at(-1) ?? '').length < 300);
  assert.equal(noted({ migrationUid: 'm2' }), undefined);
  assert.equal(noted({ migrationUid: 'm1', endTimestamp: '2026-01-02T03:04:05Z' }), undefined);
  for (const note of ['', '{', '[]', '{"migration":"m1"}', 'x'.repeat(5_000), 'null']) {
    assert.equal(noted({ migrationUid: 'm1' }, note), undefined);
  }
});

test('a launcher that does not answer, or talks nonsense, costs figures only', async () => {
  openSource();
  answer = () => Promise.reject(new Error('away'));
  await seconds(2);
  answer = async () => '{"MigrateDomainJobInfo":{"DataProcessedSet":true,"DataProcessed":"much"}}';
  await seconds(2);
  assert.equal(asked, 4);
  assert.equal(follower.explain(key)?.processedBytes, undefined);
  assert.equal(follower.explain(key)?.bytesPerSecond, 3);
  assert.deepEqual(notes, []);
});
