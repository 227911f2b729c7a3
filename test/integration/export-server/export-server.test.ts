import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, open, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { parse, parseAllDocuments } from 'yaml';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { ExportServer } from '../../../src/export-server/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { ExportServerUnderTest, exportToken } from '../../fixtures/export-server.ts';

const never = new AbortController().signal;
const mebibyte = 2 ** 20;

describe('the server of an exporter pod', () => {
  let server: ExportServerUnderTest;
  before(async () => {
    server = await ExportServerUnderTest.make();
    const disk = await open(server.at('disk/disk.img'), 'w');
    await disk.write('begin', 0);
    await disk.write('end', 3 * mebibyte - 3);
    await disk.close();
    await mkdir(server.at('files/sub'));
    await writeFile(server.at('files/sub/<a>&.txt'), 'in a directory');
    await writeFile(server.at('files/plain'), 'plain');
    await symlink('plain', server.at('files/inside'));
    await symlink('/etc/passwd', server.at('files/outside'));
    await symlink('../../../../../../etc/passwd', server.at('files/climbing'));
    execFileSync('mkfifo', [server.at('files/pipe')]);
    await server.start();
  });
  after(() => server?.stop());

  test('a disk comes as it is, with holes as zeros, and in parts', async () => {
    const expected = await readFile(server.at('disk/disk.img'));
    const whole = await server.get('/volumes/root/disk.img');
    assert.equal(whole.status, 200);
    assert.equal(whole.headers['content-length'], String(3 * mebibyte));
    assert.ok(whole.body.equals(expected));
    const end = await server.get('/volumes/root/disk.img', { range: 'bytes=-3' });
    assert.deepEqual([end.status, end.body.toString()], [206, 'end']);
    assert.equal(end.headers['content-range'], `bytes ${3 * mebibyte - 3}-${3 * mebibyte - 1}/${3 * mebibyte}`);
    assert.equal((await server.get('/volumes/root/disk.img', { range: `bytes=${4 * mebibyte}-` })).status, 416);
    const head = await server.get('/volumes/root/disk.img', {}, 'HEAD');
    assert.deepEqual([head.status, head.headers['content-length'], head.body.length], [200, String(3 * mebibyte), 0]);
  });

  test('a disk by gzip is small where nothing is on it', async () => {
    const { status, body } = await server.get('/volumes/root/disk.img.gz');
    assert.equal(status, 200);
    assert.ok(body.length < mebibyte / 8, `${body.length} bytes`);
    assert.ok(gunzipSync(body).equals(await readFile(server.at('disk/disk.img'))));
  });

  test('without the token nobody gets anything; by header or by query it is enough', async () => {
    const path = '/volumes/root/disk.img';
    const refused = [
      { 'x-kubevirt-export-token': '' },
      { 'x-kubevirt-export-token': 'wrong' },
      { 'x-kubevirt-export-token': `${exportToken}x` },
      { 'x-kubevirt-export-token': 'ä'.repeat(2_000) },
    ];
    for (const headers of refused) assert.equal((await server.get(path, headers)).status, 401);
    for (const target of [
      path,
      '/volumes/files/dir/',
      '/internal/manifests/all',
      '/internal/manifests/secret',
      '/nothing',
    ])
      assert.equal((await server.get(target, { 'x-kubevirt-export-token': 'wrong' })).status, 401, target);
    const wrong = { 'x-kubevirt-export-token': 'wrong' };
    assert.equal((await server.get(`${path}?x-kubevirt-export-token=${exportToken}`, wrong)).status, 200);
    assert.equal((await server.get('/exportready', wrong)).body.toString(), 'OK\n');
    assert.equal((await server.get('/nothing')).status, 404);
  });

  test('an empty token lets nobody in, and a new one counts at once', async () => {
    const status = async (token: string) =>
      (await server.get('/volumes/root/disk.img', { 'x-kubevirt-export-token': token }, 'HEAD')).status;
    try {
      await writeFile(server.at('token/token'), '');
      assert.deepEqual([await status(''), await status(exportToken)], [401, 401]);
      await writeFile(server.at('token/token'), 'new');
      assert.deepEqual([await status('new'), await status(exportToken)], [200, 401]);
      await rm(server.at('token/token'));
      assert.equal(await status('new'), 503);
    } finally {
      await writeFile(server.at('token/token'), exportToken);
    }
    assert.equal(await status(exportToken), 200);
  });

  test('a header that is too long is refused, and harms nobody', async () => {
    const { status } = await server.get('/volumes/root/disk.img', { 'x-long': 'x'.repeat(64 * 1024) });
    assert.equal(status, 431);
    assert.equal((await server.get('/exportready')).status, 200);
  });

  test('directories are lists of links, and their files come one by one', async () => {
    const root = await server.get('/volumes/files/dir/');
    assert.match(root.body.toString(), /<a href="\.\/sub\/">sub\/<\/a>/);
    const sub = await server.get('/volumes/files/dir/sub/');
    assert.match(sub.body.toString(), /<a href="\.\/%3Ca%3E%26\.txt">&lt;a&gt;&amp;\.txt<\/a>/);
    assert.equal((await server.get('/volumes/files/dir/sub/%3Ca%3E%26.txt')).body.toString(), 'in a directory');
    assert.equal((await server.get('/volumes/files/dir/sub')).headers.location, 'sub/');
    assert.equal((await server.get('/volumes/files/dir/inside')).body.toString(), 'plain');
    const part = await server.get('/volumes/files/dir/plain', { range: 'bytes=1-2' });
    assert.deepEqual([part.status, part.body.toString()], [206, 'la']);
  });

  test('no name leads out of a volume', async () => {
    const names = ['outside', 'climbing', '../token/token', '..%2ftoken%2ftoken', 'pipe', 'a%00b', '%ff', 'missing'];
    for (const name of names) {
      const { status, body } = await server.get(`/volumes/files/dir/${name}`);
      assert.ok(status === 404 || status === 400, `${name}: ${status}`);
      assert.doesNotMatch(body.toString(), /root:|abcdefghij/);
    }
  });

  test('a disk that is a link to a file of the server is not served', async () => {
    const evil = await ExportServerUnderTest.make();
    try {
      await rm(evil.at('disk'), { recursive: true });
      await mkdir(evil.at('disk'));
      await symlink(evil.at('token/token'), evil.at('disk/disk.img'));
      await evil.start();
      for (const target of ['/volumes/root/disk.img', '/volumes/root/disk.img.gz'])
        assert.equal((await evil.get(target)).status, 404);
    } finally {
      await evil.stop();
    }
  });

  test('an archive has all of a volume, and links in it stay links', async () => {
    await truncate(server.at('files/plain'), 5);
    await writeFile(server.at('files/sparse'), '');
    await truncate(server.at('files/sparse'), 64 * mebibyte);
    const { status, body } = await server.get('/volumes/files/disk.tar.gz');
    assert.equal(status, 200);
    assert.ok(body.length < mebibyte / 4, `${body.length} bytes`);
    const listed = execFileSync('tar', ['tvzf', '-'], { input: body }).toString();
    assert.match(listed, /67108864 .* \.\/sparse/);
    assert.match(listed, /\.\/outside -> \/etc\/passwd/);
  });

  test('only GET gets anything', async () => {
    const targets = ['/volumes/root/disk.img', '/volumes/root/disk.img.gz', '/volumes/files/disk.tar.gz'];
    for (const target of targets) assert.equal((await server.get(target, {}, 'PUT')).status, 400);
    assert.equal((await server.get('/internal/manifests/secret', {}, 'POST')).status, 400);
  });

  test('a client that goes away in the middle ends its download, and the next one is served', async () => {
    await truncate(server.at('files/sparse'), 4 * 1024 * mebibyte);
    try {
      for (let round = 0; round < 40; round++) await abandon(server.port, '/volumes/files/dir/sparse');
    } finally {
      await rm(server.at('files/sparse'));
    }
    await eventually(async () => assert.equal((await server.get('/volumes/root/disk.img', {}, 'HEAD')).status, 200));
  });

  test('a new certificate is served without a restart', async () => {
    const before = await serialOf(server.port);
    await server.writeCertificate();
    await eventually(async () => assert.notEqual(await serialOf(server.port), before));
  });
});

describe('manifests of an exported VM', () => {
  let server: ExportServerUnderTest;
  const volumes = [
    { name: 'root', dataVolume: { name: 'root' } },
    { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
    { name: 'init', cloudInitNoCloud: { userData: 'x' } },
  ];
  const empty = { source: { http: { url: '' } } };
  const vm = {
    metadata: { name: 'box', namespace: 'default' },
    spec: {
      dataVolumeTemplates: [
        { metadata: { name: 'root' }, spec: empty },
        { metadata: { name: 'other' }, spec: { source: { blank: {} } } },
      ],
      template: { spec: { volumes } },
    },
  };
  const write = (name: string, value: unknown) =>
    writeFile(server.at(`manifests/${name}`), typeof value === 'string' ? value : JSON.stringify(value));
  before(async () => {
    server = await ExportServerUnderTest.make();
    await write('export-name', 'backup');
    await write('internal_host', 'virt-export-backup.default.svc');
    await write('internal_ca_cm', { metadata: { name: 'export-ca-cm-backup' }, data: { 'ca.pem': 'PEM' } });
    await write('virtualmachine-manifest', vm);
    await write('dv-data', { metadata: { name: 'data' }, spec: empty });
    await server.start({
      VOLUME1_EXPORT_RAW_GZIP_URI: '/volumes/backup-data/disk.img.gz',
    });
  });
  after(() => server?.stop());

  const http = (claim: string) => ({
    url: `https://virt-export-backup.default.svc/volumes/${claim}/disk.img.gz`,
    certConfigMap: 'export-ca-cm-backup',
    secretExtraHeaders: ['header-secret-backup'],
  });

  test('a list as JSON: the authority, the VM and DataVolumes that come from here', async () => {
    const { status, body } = await server.get('/internal/manifests/all');
    assert.equal(status, 200);
    const { kind, items } = JSON.parse(body.toString());
    assert.equal(kind, 'List');
    assert.deepEqual(
      items.map((each: { kind: string }) => each.kind),
      ['ConfigMap', 'VirtualMachine', 'DataVolume'],
    );
    const [root, other] = items[1].spec.dataVolumeTemplates;
    assert.deepEqual(root.spec.source, { http: http('root') });
    assert.deepEqual(other.spec.source, { blank: {} });
    // The claim that was made of a snapshot is named after the export.
    assert.deepEqual(items[2].spec.source, { http: http('backup-data') });
    assert.equal(items[2].apiVersion, 'cdi.kubevirt.io/v1beta1');
  });

  test('the same as YAML, one document each', async () => {
    const { body, headers } = await server.get('/internal/manifests/all', { accept: 'application/yaml' });
    assert.equal(headers['content-type'], 'application/yaml');
    const documents = parseAllDocuments(body.toString())
      .map((each) => each.toJSON())
      .filter(Boolean);
    assert.deepEqual(
      documents.map(({ kind }) => kind),
      ['ConfigMap', 'VirtualMachine', 'DataVolume'],
    );
  });

  test('the secret has the header as containerized-data-importer reads it', async () => {
    const { body } = await server.get('/internal/manifests/secret', { accept: 'application/yaml' });
    assert.deepEqual(parse(body.toString().replace(/---\n$/, '')), {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'header-secret-backup' },
      stringData: { token: `x-kubevirt-export-token:${exportToken}` },
    });
  });

  test('where nothing leads to it from outside, there is nothing for outside', async () => {
    assert.equal((await server.get('/external/manifests/all')).status, 404);
  });

  test('what is not whole is not given out', async () => {
    await write('virtualmachine-manifest', '{"metadata":');
    assert.equal((await server.get('/internal/manifests/all')).status, 503);
    const missing = { ...vm, spec: { ...vm.spec, dataVolumeTemplates: [{ metadata: { name: 'gone' }, spec: empty }] } };
    await write('virtualmachine-manifest', missing);
    const { status, body } = await server.get('/internal/manifests/all');
    assert.equal(status, 503);
    assert.match(body.toString(), /disk gone .* not among the volumes/);
    await write('virtualmachine-manifest', vm);
  });
});

describe('the end of an export server', () => {
  test('it ends by itself at its deadline', async () => {
    const server = await ExportServerUnderTest.make();
    try {
      await server.start({ DEADLINE: new Date(Date.now() + 2_000).toISOString() });
      await server.ended;
      await assert.rejects(server.get('/exportready'));
    } finally {
      await server.stop();
    }
  });

  test('one that cannot read its volume does not serve', async () => {
    const server = await ExportServerUnderTest.make();
    try {
      await rm(server.at('disk'), { recursive: true });
      const settings = server.settings();
      const running = new ExportServer(settings, { log: silentLogger, clock: systemClock }).run(never);
      await assert.rejects(running, { code: 'NOT_FOUND' });
    } finally {
      await server.stop();
    }
  });
});

/** Reads a little and is gone. */
function abandon(port: number, target: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nx-kubevirt-export-token: ${exportToken}\r\n\r\n`);
    });
    socket.once('data', () => {
      socket.destroy();
      resolve();
    });
    socket.once('error', reject);
  });
}

function serialOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}
