import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineBackup } from '../../../src/api/index.ts';
import { listOf, memberAt } from '../../../src/base/index.ts';
import { BackupNode, type Day, places } from '../../fixtures/backup-node.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { download } from '../../fixtures/export-download.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const patienceMs = 60_000;
const token = 'what-only-the-reader-knows';
const diskBytes = 16 * 2 ** 20;

interface Extent {
  readonly offset: number;
  readonly length: number;
  readonly description: string;
}

/** What a backup program has: the addresses of one disk, and a way to them. */
interface Reader {
  readonly backup: VirtualMachineBackup;
  get(kind: 'data' | 'map', query?: string, shown?: string): Promise<{ status: number; body: Buffer }>;
  /** An answer of which nothing is read. */
  open(): Promise<import('node:http').IncomingMessage>;
}

describe('backups in mode Pull, read over HTTPS by who has the token, on the standalone node', {
  skip: needsRoot,
}, () => {
  let kept: BackupNode;
  before(async () => {
    kept = await BackupNode.start();
    const data = { token: Buffer.from(token).toString('base64') };
    await kept.node.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'reader' }, data });
  });
  after(() => kept?.node.dispose());

  const pull = (name: string, changes: object = {}) =>
    kept.order(name, { mode: 'Pull', tokenSecretRef: 'reader', skipQuiesce: true, ...changes });

  async function says(name: string, type: string, words: RegExp): Promise<void> {
    await eventually(async () => {
      const { status } = await kept.backup(name);
      const found = findCondition(status?.conditions, type);
      assert.match(`${found?.status} ${found?.reason}: ${found?.message}`, words, JSON.stringify(status?.conditions));
    }, patienceMs);
  }

  /** As soon as it can be read. */
  async function reader(name: string): Promise<Reader> {
    await says(name, 'Progressing', /^True ExportReady: /);
    const backup = await kept.backup(name);
    const cert = backup.status?.endpointCert ?? '';
    const { dataEndpoint = '', mapEndpoint = '' } = backup.status?.includedVolumes?.[0] ?? {};
    const address = ['get', 'pod', `virt-export-${name}`, '-o', 'jsonpath={.status.podIP}'];
    // By no port-forward: in one, a stream that nobody reads keeps the others.
    const host = await kept.node.kubectl(...address);
    const port = 8443;
    const get: Reader['get'] = (kind, query = '', shown = token) => {
      const url = `${kind === 'data' ? dataEndpoint : mapEndpoint}${query}`;
      return download({ url, host, port, cert, token: shown });
    };
    const open = async () => {
      const { hostname, pathname } = new URL(dataEndpoint);
      const headers = { host: hostname, 'x-kubevirt-export-token': token };
      const options = { host, servername: hostname, port, path: pathname, headers };
      const [response] = await once(https.get({ ...options, ca: cert, agent: false }), 'response');
      return response;
    };
    // The launcher comes to the exporter by itself.
    await eventually(async () => assert.equal((await get('map')).status, 200), patienceMs);
    return { backup, get, open };
  }

  /** How a reader says that it has all. */
  async function end(name: string): Promise<void> {
    await kept.node.kubectl('delete', 'vmbackup', name, '--timeout=50s');
  }

  async function extents({ get }: Reader): Promise<readonly Extent[]> {
    const found: Extent[] = [];
    for (let next: number | null = 0; next !== null; ) {
      const { status, body } = await get('map', `?page_size=3&offset=${next}`);
      assert.equal(status, 200, body.toString());
      const page = JSON.parse(body.toString());
      found.push(...page.extents);
      next = page.next_offset;
    }
    assert.equal(found.at(-1)?.offset ?? 0, diskBytes - (found.at(-1)?.length ?? 0), 'the map ends with the disk');
    return found;
  }

  /** As a backup program does it: what is worth reading, onto what it has. */
  async function readInto(base: Buffer, from: Reader, wanted: (extent: Extent) => boolean): Promise<Buffer> {
    const disk = Buffer.from(base);
    for (const extent of (await extents(from)).filter(wanted)) {
      const { status, body } = await from.get('data', `?offset=${extent.offset}&length=${extent.length}`);
      assert.deepEqual([status, body.length], [200, extent.length]);
      body.copy(disk, extent.offset);
    }
    return disk;
  }

  async function leavesNothing(): Promise<void> {
    await eventually(async () => {
      const vmi = await kept.node.vmi('kept');
      assert.deepEqual(listOf(memberAt(vmi, 'spec', 'utilityVolumes')), []);
      assert.equal(memberAt(vmi, 'status', 'changedBlockTracking', 'backupStatus'), undefined);
      assert.doesNotMatch(await kept.node.kubectl('get', 'pod,service,vmexport', '-o', 'name'), /export/);
      const found = execFileSync('find', [await kept.directoryOf('backups'), '-name', '*.qcow2'], { encoding: 'utf8' });
      assert.equal(found, '');
    }, patienceMs);
  }

  const dayIn = (disk: Buffer, day: Day) => disk.subarray(places[day], places[day] + day.length).toString('latin1');
  let mine: Buffer = Buffer.alloc(diskBytes);

  test('the whole of the disk as it was when the backup began, whatever the guest writes meanwhile', async () => {
    await kept.writeInGuest('monday');
    await pull('full');
    const from = await reader('full');
    assert.equal(from.backup.status?.type, 'Full');
    await kept.writeInGuest('tuesday');
    const whole = await from.get('data');
    assert.deepEqual([whole.status, whole.body.length], [200, diskBytes]);
    assert.equal(dayIn(whole.body, 'monday'), 'monday');
    assert.equal(dayIn(whole.body, 'tuesday'), '\0'.repeat(7));
    mine = await readInto(Buffer.alloc(diskBytes), from, ({ description }) => !description.includes('zero'));
    assert.ok(mine.equals(whole.body), 'what is worth reading is the whole of it');
    for (const shown of ['wrong', '']) {
      assert.equal((await from.get('data', '', shown)).status, 401);
      assert.equal((await from.get('map', '', shown)).status, 401);
    }
    assert.match((await kept.node.cli(['explain', 'vmbackup/full'])).stdout, /export-ready/);
    await end('full');
    await leavesNothing();
    const { stdout } = await kept.node.cli(['explain', 'vmbackuptracker/kept']);
    assert.match(stdout, /checkpoint-known/);
  });

  test('an incremental one: what has changed since, read onto what the reader has, is the disk byte by byte', async () => {
    await kept.writeInGuest('wednesday');
    await pull('more');
    const from = await reader('more');
    assert.equal(from.backup.status?.type, 'Incremental');
    const changed = (await extents(from)).filter(({ description }) => description.includes('dirty'));
    const bytes = changed.reduce((sum, { length }) => sum + length, 0);
    assert.ok(bytes > 0 && bytes < 2 ** 20, `${bytes} bytes have changed`);
    mine = await readInto(mine, from, ({ description }) => description.includes('dirty'));
    for (const day of ['monday', 'tuesday', 'wednesday'] as const) assert.equal(dayIn(mine, day), day);
    assert.ok(mine.equals((await from.get('data')).body));
    await end('more');
    await leavesNothing();
  });

  test('goes on after the guest was started anew: the tracker is marked, and its launcher told, before it begins', async () => {
    await kept.turn('Halted');
    assert.ok(mine.equals(readFileSync(path.join(await kept.directoryOf('data'), 'disk.img'))), 'the disk itself');
    await kept.turn('Always');
    await eventually(async () => {
      const { stdout } = await kept.node.cli(['explain', 'vmbackuptracker/kept']);
      assert.match(stdout, /checkpoint-untold[\s\S]*checkpoint-known|checkpoint-known[\s\S]*checkpoint-untold/);
      const tracker = JSON.parse(await kept.node.kubectl('get', 'vmbackuptracker', 'kept', '-o', 'json'));
      assert.equal(tracker.status.checkpointRedefinitionRequired, undefined);
    }, patienceMs);
    await pull('after');
    const from = await reader('after');
    assert.equal(from.backup.status?.type, 'Incremental');
    mine = await readInto(mine, from, ({ description }) => description.includes('dirty'));
    assert.ok(mine.equals((await from.get('data')).body));
    await end('after');
  });

  test('nobody reads after its time: the launcher ends it, and the backup is complete', async () => {
    await pull('short', { ttlDuration: '60s' });
    const from = await reader('short');
    const silent = await from.open();
    silent.pause().on('error', () => undefined);
    // A reader that takes nothing keeps no other out.
    assert.equal((await from.get('data')).body.length, diskBytes);
    await says('short', 'Complete', /^True Completed: /);
    await leavesNothing();
    const { status } = await kept.backup('short');
    assert.deepEqual(
      status?.includedVolumes?.map(({ dataEndpoint }) => dataEndpoint),
      [undefined],
    );
    await end('short');
  });

  test('a VM that is stopped meanwhile fails its backup, which nobody reads any more, and leaves nothing', async () => {
    await pull('cut');
    const from = await reader('cut');
    await kept.turn('Halted');
    assert.notEqual(await from.get('data').then(({ status }) => status, String), 200);
    await says('cut', 'Failed', /^True (?:Failed|Source(?:Lost|Unhealthy)): /);
    await eventually(async () => {
      assert.doesNotMatch(await kept.node.kubectl('get', 'pod,service,vmexport', '-o', 'name'), /export/);
    }, patienceMs);
    assert.deepEqual(
      readdirSync(await kept.directoryOf('backups'), { recursive: true }).filter((name) =>
        String(name).endsWith('.qcow2'),
      ),
      [],
    );
    await kept.turn('Always');
  });

  test('an export of its name that is another’s keeps it waiting, in words', async () => {
    const source = { kind: 'PersistentVolumeClaim', name: 'data' };
    const object = { apiVersion: 'export.kubevirt.io/v1', kind: 'VirtualMachineExport', metadata: { name: 'taken' } };
    await kept.node.apply({ ...object, spec: { source } });
    await pull('taken');
    await says('taken', 'Progressing', /^True Initializing: VirtualMachineExport default\/taken exists and is not/);
    await kept.node.kubectl('delete', 'vmexport', 'taken', '--timeout=50s');
    const from = await reader('taken');
    assert.equal((await from.get('data', '?length=6')).body.toString(), 'monday');
    await end('taken');
  });
});
