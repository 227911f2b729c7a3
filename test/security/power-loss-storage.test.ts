import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseQuantity } from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import { ImageStore, type NodePaths, nodePaths } from '../../src/standalone/index.ts';
import { ApiChildProgram } from '../fixtures/api-child-process.ts';
import type { ApiClient } from '../fixtures/api-client.ts';
import { ChildProgram } from '../fixtures/child-program.ts';
import { eventually } from '../fixtures/eventually.ts';
import { PowerCutDisk, whyNoPowerCut } from '../fixtures/power-cut-disk.ts';
import { seededRandom } from '../fixtures/seeded-random.ts';

const skip = whyNoPowerCut() ?? false;
/** By hand: STORAGE_ROUNDS=100. */
const rounds = Number(process.env.STORAGE_ROUNDS ?? 4);
const mebibyte = 2 ** 20;
const imageBytes = 4 * mebibyte;
const token = 'token-of-the-storage-test';
const claims = '/api/v1/namespaces/default/persistentvolumeclaims';
const dataVolumes = '/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes';
const snapshots = '/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots';

interface Stored {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: { readonly resources: { readonly requests: { readonly storage: string } } };
  readonly status?: {
    readonly phase?: string;
    readonly readyToUse?: boolean;
    readonly capacity?: { readonly storage: string };
  };
}

describe('the storage of a node is killed, or its power fails, at any moment', { skip }, () => {
  let disk: PowerCutDisk;
  let paths: NodePaths;
  let api: ApiChildProgram;
  let storage: ChildProgram;
  let client: ApiClient;
  const content = randomBytes(imageBytes);
  const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
  const whole = digestOf(content);

  before(async () => {
    disk = await PowerCutDisk.create(512 * mebibyte);
    paths = nodePaths(path.join(disk.dir, 'node'));
    [api, storage] = [await ApiChildProgram.build(token), await ChildProgram.build('storage-child')];
    const source = path.join(disk.dir, '..', 'source');
    await writeFile(source, content);
    await new ImageStore({ dir: paths.imagesDir }).add('golden', source);
  });
  after(async () => {
    await storage?.dispose();
    await api?.dispose();
    await disk?.dispose();
  });

  const list = async (url: string): Promise<Stored[]> => (await client.get(url)).body.items;
  const make = async (url: string, apiVersion: string, kind: string, name: string, spec: object) => {
    const { status, text } = await client.post(url, { apiVersion, kind, metadata: { name }, spec });
    assert.equal(status, 201, text);
  };
  const fill = (name: string, source: object, storage: string) =>
    make(dataVolumes, 'cdi.kubevirt.io/v1beta1', 'DataVolume', name, {
      source,
      storage: { resources: { requests: { storage } } },
    });

  /** All that takes its time, of this round and on what the last one has made. */
  async function ask(round: number): Promise<void> {
    const last = `image-${round - 1}`;
    await fill(`image-${round}`, { registry: { url: 'docker://golden' } }, '4Mi');
    if (round === 0) return;
    await fill(`copy-${round}`, { pvc: { namespace: 'default', name: last } }, '8Mi');
    const source = { persistentVolumeClaimName: last };
    await make(snapshots, 'snapshot.storage.k8s.io/v1', 'VolumeSnapshot', `snapshot-${round}`, { source });
    const larger = { spec: { resources: { requests: { storage: `${5 + (round % 3)}Mi` } } } };
    assert.equal((await client.patch(`${claims}/${last}`, 'merge', larger)).status, 200);
  }

  /** What says that it is there is there, and whole. Resolves with what is done, and how large it says to be. */
  async function wholeOnes(): Promise<Map<string, number>> {
    const begin = async (file: string) => digestOf((await readFile(file)).subarray(0, imageBytes));
    const done = new Map<string, number>();
    const filled = (await list(dataVolumes)).filter(({ status }) => status?.phase === 'Succeeded');
    const imageOf = ({ metadata: { name, uid } }: Stored) =>
      path.join(paths.claimsDir, `default_${name}_${uid}`, 'disk.img');
    for (const claim of await list(claims)) {
      const { name } = claim.metadata;
      if (claim.status?.phase !== 'Bound') continue;
      const { size } = await stat(imageOf(claim));
      const capacity = parseQuantity(claim.status.capacity?.storage) ?? 0;
      assert.ok(size >= capacity, `${name} has ${size} bytes and says ${capacity}`);
      done.set(`claim ${name}`, capacity);
      if (!filled.some((each) => each.metadata.name === name)) continue;
      assert.equal(await begin(imageOf(claim)), whole, `${name} says that it is filled, and is not whole`);
      done.set(`disk ${name}`, 0);
    }
    for (const { metadata, status } of await list(snapshots)) {
      if (!status?.readyToUse) continue;
      const file = path.join(paths.snapshotsDir, `snapshot-${metadata.uid}.img`);
      assert.equal(await begin(file), whole, `${metadata.name} says that it is ready, and is not whole`);
      done.set(metadata.name, 0);
    }
    return done;
  }

  async function allDone(): Promise<void> {
    const open = (await list(dataVolumes)).filter(({ status }) => status?.phase !== 'Succeeded');
    assert.deepEqual(
      open.map(({ metadata, status }) => [metadata.name, status]),
      [],
    );
    const waiting = (await list(snapshots)).filter(({ status }) => !status?.readyToUse);
    assert.deepEqual(
      waiting.map(({ metadata, status }) => [metadata.name, status]),
      [],
    );
    for (const { metadata, spec, status } of await list(claims)) {
      assert.equal(status?.capacity?.storage, spec.resources.requests.storage, metadata.name);
    }
  }

  async function start(): Promise<void> {
    client = await api.start(paths.apiDir);
    await storage.start([paths.stateDir, client.server, token]);
  }

  /** Of the storage alone; or everything, with what the disk had not got yet. */
  async function end(isPower: boolean): Promise<void> {
    if (isPower) {
      await disk.cut(() => {
        api.freeze();
        storage.freeze();
      });
    }
    await Promise.all([storage.kill(), api.kill()]);
    // A copy that outlives its node has the disk open for a moment.
    if (isPower) await eventually(() => disk.restore());
  }

  async function removeOld(round: number): Promise<void> {
    for (const url of [
      `${dataVolumes}/image-${round}`,
      `${dataVolumes}/copy-${round}`,
      `${snapshots}/snapshot-${round}`,
    ]) {
      await client.delete(url);
    }
  }

  test(`in ${rounds} rounds and more nothing that was said to be there is lost, or half; what was begun is finished`, async (t) => {
    const random = seededRandom('storage');
    const seen = { kills: 0, cuts: 0, done: 0, open: 0 };
    await start();
    // A quick machine may be done each time before the end comes, a slow one may have done nothing yet.
    const isOneSided = () => seen.done === 0 || seen.open === 0;
    for (let round = 0; round < rounds || (isOneSided() && round < 4 * rounds); round++) {
      await ask(round);
      await sleep(random() ** 3 * 1_500);
      const acknowledged = await wholeOnes();
      seen.open += (await list(dataVolumes)).filter(({ status }) => status?.phase !== 'Succeeded').length;
      const isPower = random() < 0.5;
      await end(isPower);
      client = await api.start(paths.apiDir);
      const kept = await wholeOnes();
      const lost = [...acknowledged].filter(([name, bytes]) => (kept.get(name) ?? -1) < bytes);
      assert.deepEqual(lost, [], `lost in round ${round}`);
      seen[isPower ? 'cuts' : 'kills']++;
      seen.done += acknowledged.size;
      await storage.start([paths.stateDir, client.server, token]);
      await eventually(allDone, 60_000);
      await wholeOnes();
      await removeOld(round - 2);
    }
    const drafts = (await readdir(paths.claimsDir)).filter((name) => name.startsWith('.'));
    assert.deepEqual(drafts, []);
    t.diagnostic(JSON.stringify(seen));
    assert.ok(!isOneSided(), 'the end came when nothing was under way, or nothing was done yet');
    await rm(path.join(disk.dir, '..', 'source'));
  });
});
