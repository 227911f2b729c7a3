import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { ensureCertificates } from '../../../../src/apiserver/index.ts';
import { systemClock } from '../../../../src/base/index.ts';
import { type Download, download, makeWorkDirectory } from '../../../../src/standalone/disk-images/index.ts';
import { DiskServer } from '../../../fixtures/disk-server.ts';

describe('downloads of disks', () => {
  let dir: string;
  let server: DiskServer;
  let url: string;
  const bytes = Buffer.alloc(300_000, 'the quick brown fox');
  /** Without the pauses between attempts. */
  const clock = { ...systemClock, schedule: (_ms: number, run: () => void) => systemClock.schedule(0, run) };
  const fetched = async (wish: Partial<Download> = {}) => {
    const { signal } = new AbortController();
    const name = await download(dir, { url: `${url}/disk`, maxBytes: 1_000_000, ...wish }, { signal, clock });
    return readFile(path.join(dir, name));
  };
  const fails = (wish: Partial<Download>, code: string, words: RegExp) =>
    assert.rejects(fetched(wish), (error: Error & { code?: string }) => {
      assert.match(error.message, words);
      assert.equal(error.code, code);
      return true;
    });

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-download-'));
    await makeWorkDirectory(dir);
    server = new DiskServer();
    url = await server.start();
    server.files.set('/disk', { bytes });
  });
  afterEach(async () => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });

  test('a file comes as it is', async () => {
    assert.deepEqual(await fetched(), bytes);
    assert.equal(server.requests.length, 1);
  });

  test('a connection that breaks is taken up where it was', async () => {
    server.files.set('/disk', { bytes, etag: '"1"', cuts: [100_000, 50_000] });
    assert.deepEqual(await fetched(), bytes);
    const ranges = server.requests.map(({ headers }) => headers.range !== undefined);
    assert.deepEqual(ranges, [false, true, true]);
  });

  test('a file that was replaced meanwhile is fetched anew, and never mixed with the other one', async () => {
    const other = Buffer.alloc(200_000, 'another');
    server.files.set('/disk', { bytes, etag: '"1"', cuts: [100_000] });
    const replaced = (request: IncomingMessage) => request.headers.range !== undefined;
    const push = server.requests.push.bind(server.requests);
    server.requests.push = (request) => {
      if (replaced(request)) server.files.set('/disk', { bytes: other, etag: '"2"' });
      return push(request);
    };
    assert.deepEqual(await fetched(), other);
  });

  test('without an ETag it is begun anew', async () => {
    server.files.set('/disk', { bytes, cuts: [100_000] });
    assert.deepEqual(await fetched(), bytes);
    assert.deepEqual(
      server.requests.map(({ headers }) => headers.range),
      [undefined, undefined],
    );
  });

  for (const header of [
    '@/etc/passwd',
    'X-A: 1\nX-B: 2',
    'X-A: 1\r\n\r\nPOST / HTTP/1.1',
    'no colon',
    ': nameless',
    'X\0: a',
  ]) {
    test(`a header that is no line of a request is refused before anything is asked: ${JSON.stringify(header)}`, async () => {
      await assert.rejects(fetched({ headers: ['X-Mine: yes', header] }), { code: 'DOWNLOAD_REFUSED' });
      assert.equal(server.requests.length, 0);
    });
  }

  test('user, password and headers are sent, and not to another host by a redirect', async () => {
    const other = new DiskServer();
    other.files.set('/disk', { bytes });
    // Another name of the same machine is another host.
    const elsewhere = (await other.start()).replace('127.0.0.1', 'localhost');
    server.files.set('/disk', { bytes, location: `${elsewhere}/disk` });
    try {
      const user = { name: 'me', password: 'se"cret\\' };
      assert.deepEqual(await fetched({ user, headers: ['X-Mine: yes'] }), bytes);
      assert.ok(server.requests[0]?.headers.authorization);
      assert.equal(server.requests[0]?.headers['x-mine'], 'yes');
      assert.equal(other.requests[0]?.headers.authorization, undefined);
    } finally {
      await other.stop();
    }
  });

  test('what is secret in an address is in no message', () =>
    fails(
      { url: `${url.replace('//', '//me:secret@')}/no?token=abc` },
      'DOWNLOAD_REFUSED',
      /^http:\/\/127[^@]*\/no\?… was/,
    ));

  test('an address that is not there is refused at once', () =>
    fails({ url: `${url}/other` }, 'DOWNLOAD_REFUSED', /not found, or not given, by the server \(HTTP 404\)$/));

  test('without rights it is said how they are given', async () => {
    server.files.set('/disk', { bytes, user: 'me:secret' });
    await fails({}, 'DOWNLOAD_REFUSED', /HTTP 401\): give user and password/);
    assert.deepEqual(await fetched({ user: { name: 'me', password: 'secret' } }), bytes);
  });

  test('redirects in a circle end', async () => {
    server.files.set('/disk', { bytes, location: '/disk' });
    await fails({}, 'DOWNLOAD_REFUSED', /more than 10 other addresses/);
  });

  for (const location of ['file:///etc/passwd', 'ftp://127.0.0.1/disk']) {
    test(`a redirect to ${location} is not followed`, async () => {
      server.files.set('/disk', { bytes, location });
      await fails({}, 'DOWNLOAD_REFUSED', /a protocol that is not taken/);
    });
  }

  test('a server in trouble is asked again, and then it is said', async () => {
    server.files.set('/disk', { bytes, status: 503 });
    await fails({}, 'DOWNLOAD_FAILED', /the server answered HTTP 503/);
    assert.equal(server.requests.length, 5);
  });

  test('more than is wanted is refused, announced or not', () =>
    fails({ maxBytes: 100_000 }, 'DOWNLOAD_REFUSED', /is larger than 100000 bytes, which are the most/));

  test('a server that is not there is said to be so', async () => {
    const closed = new DiskServer();
    const gone = await closed.start();
    await closed.stop();
    await fails({ url: `${gone}/disk` }, 'DOWNLOAD_FAILED', /the server does not answer/);
  });

  test('TLS takes an authority of the user’s, and none without', async () => {
    const { key, cert, ca } = await ensureCertificates(path.join(dir, 'tls'));
    const secure = new DiskServer();
    secure.files.set('/disk', { bytes });
    const address = `${await secure.start({ key, cert })}/disk`;
    try {
      await fails({ url: address }, 'DOWNLOAD_REFUSED', /whose certificate nobody vouches for/);
      assert.deepEqual(await fetched({ url: address, authorities: ca }), bytes);
    } finally {
      await secure.stop();
    }
  });
});
