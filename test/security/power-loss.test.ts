import assert from 'node:assert/strict';
import { appendFile, cp, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { ensureCertificates } from '../../src/apiserver/index.ts';
import { sleep } from '../../src/base/index.ts';
import { replaceFile } from '../../src/host/index.ts';
import { ImageStore } from '../../src/standalone/index.ts';
import { AcknowledgedWrites } from '../fixtures/acknowledged-writes.ts';
import { ApiChildProgram } from '../fixtures/api-child-process.ts';
import { eventually } from '../fixtures/eventually.ts';
import { PowerCutDisk, whyNoPowerCut } from '../fixtures/power-cut-disk.ts';
import { seededRandom } from '../fixtures/seeded-random.ts';

const skip = whyNoPowerCut() ?? false;
const rounds = 12;
const mebibyte = 1024 * 1024;

const maps = '/api/v1/namespaces/default/configmaps';

/** Rejects with ENOSPC. */
async function fill(file: string): Promise<void> {
  for (const size of [mebibyte, 4096]) {
    for (;;) {
      const isFull = await appendFile(file, Buffer.alloc(size), { flush: true }).then(
        () => false,
        () => true,
      );
      if (isFull) break;
    }
  }
  await appendFile(file, Buffer.alloc(4096), { flush: true });
}

async function spoilNewestLog(db: string, damage: (log: Buffer) => Buffer): Promise<void> {
  const logs = (await readdir(db)).filter((name) => name.endsWith('.log')).sort();
  const file = path.join(db, logs.at(-1) ?? '');
  await writeFile(file, damage(await readFile(file)));
}

describe('the power fails', { skip }, () => {
  let disk: PowerCutDisk;
  before(async () => {
    disk = await PowerCutDisk.create(256 * mebibyte);
  });
  after(() => disk?.dispose());

  test('a write that was not synced is lost, one that was stays: so this disk can tell', async () => {
    const [lost, kept] = [path.join(disk.dir, 'lost'), path.join(disk.dir, 'kept')];
    const handle = await open(kept, 'w');
    await handle.writeFile('synced');
    await handle.sync();
    await handle.close();
    await writeFile(lost, 'not synced');
    await disk.cut();
    await assert.rejects(readFile(kept), { code: 'EIO' });
    await disk.restore();
    assert.equal(await readFile(lost, 'utf8').catch(() => ''), '');
    assert.equal(await readFile(kept, 'utf8'), 'synced');
  });

  test('a file replaced for good, an image and its certificates are whole; one replaced for a program only is not', async () => {
    const file = (name: string) => path.join(disk.dir, name);
    const source = path.join(disk.dir, '..', 'image.raw');
    const content = 'x'.repeat(mebibyte);
    await writeFile(source, content);
    await replaceFile(file('for-good'), 'whole', 0o600);
    const images = new ImageStore({ dir: file('images') });
    const image = await images.add('some/image', source);
    const made = await ensureCertificates(file('certificates'));
    await replaceFile(file('for-a-program'), 'whole', 0o600, 'process');
    await disk.cut();
    await disk.restore();
    const textOf = (name: string) => readFile(name, 'utf8').catch(() => '');
    assert.equal(await textOf(file('for-a-program')), '');
    assert.equal(await textOf(file('for-good')), 'whole');
    assert.ok((await textOf(path.join(image, 'disk', 'image.raw'))) === content, 'the image is not whole');
    assert.deepEqual(await ensureCertificates(file('certificates')), made);
  });

  describe('while eight clients write to the API', () => {
    let program: ApiChildProgram;
    before(async () => {
      program = await ApiChildProgram.build();
    });
    after(() => program.dispose());
    afterEach(() => program.kill());

    test(`in ${rounds} rounds no acknowledged write is lost, none is half, and the revision never goes back`, async (t) => {
      const random = seededRandom('power-loss');
      const names = Array.from({ length: 8 }, (_, index) => `map-${index}`);
      const writes = new AcknowledgedWrites(names, random);
      const dataDir = path.join(disk.dir, 'api');
      for (let round = 0; round < rounds; round++) {
        const client = await program.start(dataDir);
        assert.deepEqual(await writes.compare(client), [], `round ${round}`);
        let isCut = false;
        const writing = writes.run(client, () => isCut);
        const enough = writes.total + 1 + Math.floor(random() * 400);
        while (writes.total < enough) await Promise.race([sleep(1), writing]);
        await disk.cut(() => {
          isCut = true;
          program.freeze();
        });
        await program.kill();
        await writing;
        await disk.restore();
      }
      assert.deepEqual(await writes.compare(await program.start(dataDir)), []);
      await program.kill();
      t.diagnostic(`${writes.total} acknowledged writes, 0 lost`);
      assert.ok(writes.total > rounds * 20, `only ${writes.total} writes`);
    });

    test('on a full disk a change is refused with what to do and is not seen; with room again all goes on', async () => {
      const dataDir = path.join(disk.dir, 'full');
      const client = await program.start(dataDir);
      const put = (text: string) => client.put(`${maps}/full`, { metadata: { name: 'full' }, data: { text } });
      assert.equal((await client.post(maps, { metadata: { name: 'full' }, data: { text: 'before' } })).status, 201);
      const ballast = path.join(disk.dir, 'ballast');
      await assert.rejects(fill(ballast), { code: 'ENOSPC' });
      const refused = await put('x'.repeat(200_000));
      assert.equal(refused.status, 500);
      assert.match(refused.body.message, /No space left on device.*free some space there/);
      assert.equal((await client.get(`${maps}/full`)).body.data.text, 'before');
      assert.equal((await client.get('/readyz')).status, 500);
      await rm(ballast);
      await eventually(async () => assert.equal((await put('after')).status, 200));
      assert.equal((await client.get('/readyz')).status, 200);
      await program.kill();
      const again = await program.start(dataDir);
      assert.equal((await again.get(`${maps}/full`)).body.data.text, 'after');
      assert.deepEqual((await again.get('/api/v1/namespaces/default/events')).body.items, []);
    });

    test('on a disk that is mounted read-only it does not start, and says what to do', async () => {
      await disk.remount('ro');
      await assert.rejects(
        program.start(path.join(disk.dir, 'full')),
        /is mounted read-only: see in the kernel log why/,
      );
      await disk.remount('rw');
      await program.start(path.join(disk.dir, 'full'));
    });

    /** Damage that no sync helps against: it is done to what was on disk. */
    const damages: [string, (log: Buffer) => Buffer][] = [
      ['its last byte', (log) => log.subarray(0, -1)],
      ['its last 100 bytes', (log) => log.subarray(0, -100)],
      ['its last 5000 bytes', (log) => log.subarray(0, -5000)],
      [
        'a bit of its newest change',
        (log) => log.fill(log.readUInt8(log.length - 50) ^ 1, log.length - 50, log.length - 49),
      ],
    ];
    test('a log that lost its end, or a bit there, is told by an event, and the revision goes on above all', async () => {
      const names = Array.from({ length: 8 }, (_, index) => `torn-${index}`);
      const writes = new AcknowledgedWrites(names, seededRandom('torn'));
      const original = path.join(disk.dir, 'torn');
      let isOver = false;
      const writing = writes.run(await program.start(original), () => isOver);
      while (writes.total < 200) await Promise.race([sleep(1), writing]);
      // All is acknowledged: the end of the log is a change that somebody relies on.
      isOver = true;
      await writing;
      await program.kill();
      for (const [what, damage] of damages) {
        const copy = await mkdtemp(path.join(disk.dir, 'copy-'));
        await cp(original, copy, { recursive: true });
        await spoilNewestLog(path.join(copy, 'db'), damage);
        const client = await program.start(copy);
        const { body } = await client.get('/api/v1/namespaces/default/events');
        const messages = body.items.map(({ reason, message }: Record<string, string>) => `${reason}: ${message}`);
        assert.match(messages.join(), /^DatabaseLostWrites: the newest \d+ changes of the database were lost/, what);
        const revision = Number(body.metadata.resourceVersion);
        assert.ok(revision > writes.highest, `${what}: back from ${writes.highest} to ${revision}`);
        const watch = await client.watch(`/api/v1/configmaps?watch=true&resourceVersion=${writes.highest}`);
        assert.equal((await watch.next())?.object.code, 410, what);
        watch.close();
        await program.kill();
      }
    });
  });
});
