import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BackupGuest, mebibyte } from '../fixtures/backup-guest.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import { eventually } from '../fixtures/eventually.ts';
import { download } from '../fixtures/export-download.ts';
import { freePort } from '../fixtures/free-port.ts';
import { LauncherBench } from '../fixtures/launcher-bench.ts';
import { launcherVmi } from '../fixtures/launcher-vmi.ts';

/** Upstream's export server reads from our launcher what QEMU serves of a guest's disk. */

const { exportServer: program = '' } = JSON.parse(process.env.KUBELET_PARTS ?? '{}') as {
  readonly exportServer?: string;
};
const backupUid = '0b1c2d3e-0000-4000-8000-000000000001';
const [dataUri, mapUri] = ['/exports/data/data', '/exports/data/map'];
const token = 'what-only-the-reader-knows';
const diskBytes = 64 * mebibyte;
const patienceMs = 20_000;
const done = { success: true, message: '' };

interface Page {
  readonly extents: readonly { readonly offset: number; readonly length: number; readonly description: string }[];
  readonly next_offset: number | null;
}

/** Nothing runs in it: it is the way of the bytes that is tried. */
const vmi = launcherVmi();
vmi.spec.domain.devices = { disks: [{ name: 'data', disk: { bus: 'virtio' } }], autoattachPodInterface: false };
vmi.spec.volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };

describe('a backup in mode Pull, of our launcher, by the export server of upstream', () => {
  let bench: LauncherBench;
  let guest: BackupGuest;
  let servers: TestAuthority;
  let launchers: TestAuthority;

  before(async () => {
    assert.ok(program, 'runs on a machine of its own: node scripts/test.mjs upstream');
    // The machine's own directory is root's alone, and this launcher is not root.
    process.env.TMPDIR = '/var';
    servers = await TestAuthority.make();
    launchers = await TestAuthority.make('backup.kubevirt.io');
    bench = await LauncherBench.create();
    guest = await BackupGuest.start(bench, vmi, (image) => {
      writeFileSync(image, '');
      truncateSync(image, diskBytes);
    });
  });
  after(async () => {
    guest?.shell.close();
    await bench?.dispose();
    await servers?.remove();
    await launchers?.remove();
  });

  const pull = (backupName: string, change: object = {}) =>
    guest.order({ mode: 'Pull', backupName, skipQuiesce: true, ...change });

  /** The exporter pod of one backup, as the controller of either makes it. */
  async function exporter(t: { after: (work: () => unknown) => void }, variables: Readonly<Record<string, string>>) {
    const pair = await servers.issue({ usage: 'serverAuth', commonName: 'x', hosts: ['localhost'] });
    const at = (name: string) => path.join(servers.dir, name);
    for (const [name, text] of Object.entries({ 'tls.crt': pair.cert, 'tls.key': pair.key, token })) {
      writeFileSync(at(name), text);
    }
    const port = await freePort();
    const env = {
      ...{ PATH: process.env.PATH, LISTEN_ADDR: `127.0.0.1:${port}`, POD_NAME: 'exporter' },
      ...{ CERT_FILE: at('tls.crt'), KEY_FILE: at('tls.key'), TOKEN_FILE: at('token') },
      ...{ BACKUP0_BACKUP_PATH: 'data', BACKUP0_DATA_URI: dataUri, BACKUP0_MAP_URI: mapUri },
      ...{ BACKUP_UID: backupUid, BACKUP_CACERT: launchers.pair.cert, BACKUP_TYPE: 'Full', ...variables },
    };
    const child = spawn(program, [], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    t.after(() => end(child));
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
    const get = (uri: string, query = '', shown = token) =>
      download({ url: `https://localhost${uri}${query}`, port, cert: servers.pair.cert, token: shown });
    return { port, get, log: () => said };
  }

  /** The launcher brings it to the exporter. */
  async function brought(backupName: string, { port, get, log }: Awaited<ReturnType<typeof exporter>>): Promise<void> {
    const { cert, key } = await launchers.issue({ commonName: `kubevirt.io:system:client:${backupUid}` });
    const to = { exportServerAddr: `localhost:${port}`, exportServerName: 'localhost', caCert: servers.pair.cert };
    assert.deepEqual(await pull(backupName, { cmd: 'Export', ...to, backupCert: cert, backupKey: key }), done);
    await eventually(async () => assert.equal((await get(mapUri, '?page_size=1')).status, 200, log()), patienceMs);
  }

  async function ended(backupName: string): Promise<void> {
    assert.deepEqual(await pull(backupName, { cmd: 'Abort' }), done);
    const { Failed, BackupMsg } = await guest.ended(backupName);
    assert.deepEqual([Failed, BackupMsg], [false, '']);
  }

  /** Each page leads to the next one. */
  async function extents({ get }: Awaited<ReturnType<typeof exporter>>): Promise<Page['extents']> {
    const found: Page['extents'][number][] = [];
    for (let next: number | null = 0; next !== null; ) {
      const { status, body } = await get(mapUri, `?page_size=2&offset=${next}`);
      assert.equal(status, 200, body.toString());
      const page: Page = JSON.parse(body.toString());
      found.push(...page.extents);
      next = page.next_offset;
    }
    return found;
  }

  /** Of the disk itself, while nobody writes to it. */
  function disk(): Buffer {
    const raw = path.join(guest.pod.shareDir, 'disk.raw');
    execFileSync('qemu-img', ['convert', '-U', '-f', 'raw', '-O', 'raw', guest.image, raw]);
    return readFileSync(raw);
  }

  test('has each byte as it was at its instant, whatever the guest writes meanwhile', async (t) => {
    await guest.fill('a', 1);
    await guest.fill('b', 33);
    const before = disk();
    assert.deepEqual(await pull('full'), done, guest.pod.log());
    const server = await exporter(t, {});
    assert.equal((await server.get(dataUri).catch(() => ({ status: 503 }))).status, 503, 'nobody has come yet');
    await brought('full', server);
    await guest.fill('c', 1);
    const whole = await server.get(dataUri);
    assert.equal(whole.status, 200);
    assert.ok(whole.body.equals(before));
    const offset = 33 * mebibyte;
    const part = await server.get(dataUri, `?offset=${offset - 4}&length=8`);
    assert.equal(part.body.toString('latin1'), '\0\0\0\0bbbb');
    const mapped = Buffer.alloc(diskBytes);
    for (const { offset, length, description } of await extents(server)) {
      if (description.includes('zero')) continue;
      const { body } = await server.get(dataUri, `?offset=${offset}&length=${length}`);
      assert.equal(body.length, length);
      body.copy(mapped, offset);
    }
    assert.ok(mapped.equals(before), 'what is worth reading is the whole of it');
    assert.equal((await server.get(dataUri, '', 'wrong')).status, 401);
    await ended('full');
    await eventually(async () => assert.equal((await server.get(dataUri)).status, 503, server.log()), patienceMs);
  });

  test('says what has changed since a checkpoint, and that read onto the earlier one is the disk', async (t) => {
    const earlier = disk();
    await guest.fill('d', 5);
    const incremental = guest.checkpointOf('full');
    assert.deepEqual(await pull('more', { incremental }), done, guest.pod.log());
    const before = disk();
    const server = await exporter(t, { BACKUP_TYPE: 'Incremental', BACKUP_CHECKPOINT: guest.checkpointOf('more') });
    await brought('more', server);
    await guest.fill('e', 5);
    const dirty = (await extents(server)).filter(({ description }) => description.includes('dirty'));
    assert.deepEqual(
      dirty.map(({ offset, length }) => [offset / mebibyte, length]),
      [
        [1, 65_536],
        [5, 65_536],
      ],
    );
    for (const { offset, length } of dirty) {
      const { body } = await server.get(dataUri, `?offset=${offset}&length=${length}`);
      body.copy(earlier, offset);
    }
    assert.ok(earlier.equals(before));
    await ended('more');
  });
});

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}
