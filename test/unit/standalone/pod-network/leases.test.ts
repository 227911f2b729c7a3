import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { Leases } from '../../../../src/standalone/pod-network/leases.ts';

const subnets = { ipv4: { address: '10.9.8.0', prefix: 28 }, ipv6: { address: 'fd00:0:0:1::', prefix: 64 } };

describe('addresses of pods', () => {
  let root: string;
  let dir: string;
  let leases: Leases;
  before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'leases-'));
  });
  beforeEach(async () => {
    dir = await mkdtemp(path.join(root, 'one-'));
    leases = new Leases(dir);
    await leases.load();
  });
  after(() => rm(root, { recursive: true, force: true }));

  test('are not given without a file: after a restart another pod could have them', async () => {
    await mkdir(path.join(dir, 'a'));
    await assert.rejects(leases.take('a', '', subnets), { code: 'EISDIR' });
    assert.deepEqual(leases.addressesOf('a', subnets), []);
    await rm(path.join(dir, 'a'), { recursive: true });
    await leases.take('a', '', subnets);
    assert.deepEqual(await readdir(dir), ['a']);
  });

  test('stay with their pods over a restart, whatever comes and goes meanwhile', async () => {
    for (const uid of ['a', 'b', 'c']) await leases.take(uid, `${uid}.default`, subnets);
    const of = (from: Leases) => ['a', 'b', 'c'].map((uid) => from.addressesOf(uid, subnets));
    const before = of(leases);
    await leases.release('b');
    const later = new Leases(dir);
    await later.load();
    assert.deepEqual([of(later)[0], of(later)[1], of(later)[2]], [before[0], [], before[2]]);
    assert.deepEqual(
      [...later.names()],
      [
        ['a.default', 'a'],
        ['c.default', 'c'],
      ],
    );
    await later.take('a', 'another', subnets);
    assert.deepEqual(later.addressesOf('a', subnets), before[0]);
  });

  test('are the same in both families, the same for the same UID, and never the bridge’s', async () => {
    await leases.take('a', '', subnets);
    const [ipv4 = '', ipv6 = ''] = leases.addressesOf('a', subnets);
    const offset = Number(ipv4.split('.')[3]);
    assert.ok(offset >= 2 && offset <= 14);
    assert.equal(ipv6, `fd00:0:0:1::${offset.toString(16)}`);
    const other = new Leases(await mkdtemp(path.join(root, 'other-')));
    await other.load();
    await other.take('a', '', subnets);
    assert.deepEqual(other.addressesOf('a', subnets), [ipv4, ipv6]);
  });

  test('are each one pod’s, also when all ask at once, until none is left: then the error says so', async () => {
    const uids = Array.from({ length: 13 }, (_, at) => `pod-${at}`);
    await Promise.all(uids.map((uid) => leases.take(uid, '', subnets)));
    assert.equal(new Set(uids.map((uid) => leases.addressesOf(uid, subnets)[0])).size, 13);
    await assert.rejects(leases.take('late', '', subnets), /all 13 addresses of 10\.9\.8\.0\/28 are taken/);
    await leases.release('pod-3');
    await leases.take('late', '', subnets);
  });

  test('of a file that is torn are nobody’s', async () => {
    await writeFile(path.join(dir, 'torn'), '{"offset":');
    await writeFile(path.join(dir, 'odd'), '{"offset":"2","name":3}');
    await leases.load();
    assert.deepEqual(leases.uids(), []);
    await leases.release('torn');
    assert.deepEqual(await readdir(dir), ['odd']);
  });

  test('of a file that gives what no pod can have, or what another one has, are nobody’s', async () => {
    const kept = { low: 1, network: 0, minus: -3, far: 5_000, half: 2.5, b: 5, c: 5, 'd.1234.tmp': 6 };
    for (const [uid, offset] of Object.entries(kept)) {
      await writeFile(path.join(dir, uid), JSON.stringify({ offset, name: '', turn: uid === 'c' ? 1 : 2 }));
    }
    await leases.load();
    assert.deepEqual(leases.uids(), ['c']);
    await writeFile(path.join(dir, 'big'), '{"offset":300,"name":"x.default"}');
    await leases.load();
    assert.deepEqual(leases.addressesOf('big', subnets), [], 'the range of a /28 ends before');
  });

  test('have no name of a file that is none of DNS', async () => {
    await writeFile(path.join(dir, 'evil'), JSON.stringify({ offset: 3, name: 'a.b\n10.0.0.1 bank.test', turn: 1 }));
    await leases.load();
    assert.deepEqual([leases.uids(), [...leases.names()]], [['evil'], []]);
  });

  test('of two pods with one name the later one has it, also after a restart', async () => {
    await leases.take('z-first', 'vm.default', subnets);
    await leases.take('a-second', 'vm.default', subnets);
    assert.equal(leases.names().get('vm.default'), 'a-second');
    const later = new Leases(dir);
    await later.load();
    assert.equal(later.names().get('vm.default'), 'a-second');
    await later.take('0-third', 'vm.default', subnets);
    await later.load();
    assert.equal(later.names().get('vm.default'), '0-third');
  });
});
