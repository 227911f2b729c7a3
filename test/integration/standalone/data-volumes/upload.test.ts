import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { findCondition, type KubeObject, resources } from '../../../../src/api/index.ts';
import { required } from '../../../../src/base/index.ts';
import { type DataVolumeNode, startDataVolumeNode, storage } from '../../../fixtures/data-volume-node.ts';
import { eventually } from '../../../fixtures/eventually.ts';

const mib = 2 ** 20;

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
}

describe('uploads of disks', () => {
  let node: DataVolumeNode;
  let dir: string;
  let qcow2: Buffer;
  const content = Buffer.alloc(2 * mib, 'data');

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-upload-'));
    await writeFile(path.join(dir, 'raw'), content);
    execFileSync('qemu-img', ['convert', '-O', 'qcow2', 'raw', 'disk.qcow2'], { cwd: dir });
    qcow2 = await readFile(path.join(dir, 'disk.qcow2'));
    node = await startDataVolumeNode();
  });
  after(async () => {
    await node?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const tokenFor = async (pvcName: string): Promise<string> => {
    const request = { apiVersion: 'upload.cdi.kubevirt.io/v1beta1', kind: 'UploadTokenRequest', spec: { pvcName } };
    const url = '/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/default/uploadtokenrequests';
    const { status, body } = await node.api.client.call('POST', url, request);
    assert.equal(status, 201, JSON.stringify(body));
    return body.status.token;
  };

  interface Sent {
    readonly token?: string | undefined;
    readonly body?: Buffer;
    readonly headers?: Readonly<Record<string, string>>;
    readonly method?: string;
    readonly route?: string;
    readonly contentType?: string;
    /** The connection ends after so much of the body. */
    readonly cutAt?: number;
  }

  const send = ({
    token,
    body = qcow2,
    method = 'POST',
    route = '/v1beta1/upload',
    contentType,
    cutAt,
    headers: more,
  }: Sent): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const headers = {
        ...more,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(contentType !== undefined && { 'content-type': contentType }),
        ...(method === 'HEAD' ? {} : { 'content-length': body.length }),
      };
      const request = https.request(`${node.proxy.url}${route}`, { ca: node.proxy.ca, agent: false, method, headers });
      request.on('error', reject);
      request.on('response', (response) => {
        const { statusCode = 0, headers } = response;
        text(response).then((body) => resolve({ status: statusCode, body, headers }), reject);
      });
      if (cutAt !== undefined) request.write(body.subarray(0, cutAt), () => request.destroy());
      else request.end(method === 'HEAD' ? undefined : body);
    });

  const ready = async (name: string, size = '4Mi') => {
    await node.create(name, { source: { upload: {} }, ...storage(size) });
    await node.until(name, 'UploadReady');
    await eventually(async () => {
      const { annotations = {} } = (await node.claim(name)).metadata;
      assert.equal(annotations['cdi.kubevirt.io/storage.pod.ready'], 'true');
      assert.equal(annotations['cdi.kubevirt.io/storage.upload.target'], '');
    });
    return tokenFor(name);
  };
  const isEmpty = async (name: string) => {
    await node.isBlank(name);
    await eventually(async () => assert.deepEqual(await node.leftovers(), []));
  };
  const isWhole = async (name: string, sizeBytes = 4 * mib) => {
    const found = await readFile(await node.disk(name));
    assert.equal(found.length, sizeBytes);
    assert.ok(found.subarray(0, content.length).equals(content));
  };

  test('a disk comes by a token, once', async () => {
    const token = await ready('once');
    const taken = await send({ token });
    assert.deepEqual([taken.status, taken.body], [200, 'the disk was taken\n']);
    const { status } = await node.until('once', 'Succeeded');
    assert.equal(status?.progress, '100.0%');
    await isWhole('once');
    const claim = await node.claim('once');
    assert.equal(claim.metadata.annotations?.['cdi.kubevirt.io/storage.pod.phase'], 'Succeeded');
    const again = await send({ token });
    assert.equal(again.status, 503);
    assert.match(again.body, /awaits no upload now/);
    await eventually(async () => assert.ok((await node.events('once')).includes('UploadSucceeded')));
  });

  test('asynchronously, as virtctl does: HEAD says whether, and the answer comes when it is known to be a disk', async () => {
    const route = '/v1beta1/upload-async';
    const token = await ready('async');
    assert.equal((await send({ token, method: 'HEAD', route })).status, 200);
    assert.equal((await send({ token, route })).status, 200);
    await node.until('async', 'Succeeded');
    await isWhole('async');
  });

  test('a claim without a DataVolume takes an upload, too', async () => {
    const annotations = { 'cdi.kubevirt.io/storage.upload.target': '' };
    const metadata = { name: 'claim', namespace: 'default', annotations };
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '4Mi' } } };
    const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec };
    await node.client.create(resources.persistentVolumeClaims, claim as KubeObject);
    const mark = async () => (await node.claim('claim')).metadata.annotations ?? {};
    await eventually(async () => assert.equal((await mark())['cdi.kubevirt.io/storage.pod.ready'], 'true'));
    assert.equal((await send({ token: await tokenFor('claim') })).status, 200);
    await eventually(async () => assert.equal((await mark())['cdi.kubevirt.io/storage.pod.phase'], 'Succeeded'));
    await isWhole('claim');
  });

  test('what is no disk, or too large, is refused in words; a right one may follow', async () => {
    const token = await ready('wrong', '1Mi');
    const page = await send({ token, body: Buffer.from('<html>') });
    assert.deepEqual([page.status, /web page and no disk/.test(page.body)], [400, true], page.body);
    const larger = await send({ token });
    assert.equal(larger.status, 400);
    assert.match(larger.body, /is a disk of 2Mi \(2097152 bytes\), and the claim has 1Mi/);
    const late = await send({ token, route: '/v1beta1/upload-async' });
    assert.equal(late.status, 400, 'also asynchronously');
    await eventually(async () => {
      const running = findCondition((await node.find('wrong'))?.status?.conditions, 'Running');
      assert.match(running?.message ?? '', /the last upload failed: the upload is a disk of 2Mi/);
    });
    await isEmpty('wrong');
    assert.equal((await send({ token, body: Buffer.alloc(mib, 'x') })).status, 200);
    await node.until('wrong', 'Succeeded');
  });

  test('more bytes than its claim could ever hold are not even read', async () => {
    const token = await ready('bytes', '1Mi');
    const answer = await send({ token, body: Buffer.alloc(80 * mib) }).catch((error: Error) => error);
    // Who is still sending may see the end of the connection before the answer.
    const told = answer instanceof Error ? answer.message : answer.body;
    assert.match(told, /more than \d+ bytes, which are the most|EPIPE|ECONNRESET|hang up/);
    await isEmpty('bytes');
  });

  test('a connection that breaks leaves nothing, and another one may come', async () => {
    const token = await ready('cut');
    await send({ token, cutAt: 1_000 }).catch(() => undefined);
    await isEmpty('cut');
    await eventually(async () => assert.equal((await send({ token })).status, 200));
    await isWhole('cut');
  });

  test('the disk of a pod that runs is not replaced', async () => {
    const token = await ready('used');
    const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'used' } }];
    const spec = { containers: [{ name: 'c', image: 'i' }], volumes };
    const ref = { namespace: 'default', name: 'user' };
    await node.client.create(resources.pods, { apiVersion: 'v1', kind: 'Pod', metadata: ref, spec } as KubeObject);
    await node.client.patch(resources.pods, ref, { status: { phase: 'Running' } }, 'merge', { subresource: 'status' });
    const { status, body } = await send({ token });
    assert.equal(status, 409);
    assert.match(body, /is not filled while it is used by pod default\/user: stop that/);
    await isEmpty('used');
    await node.client.delete(resources.pods, ref, { graceSeconds: 0 });
    assert.equal((await send({ token })).status, 200);
  });

  test('without a token, with a foreign one, a late one, or one for another claim nothing is taken', async () => {
    const token = await ready('guarded');
    const [head = '', claims = ''] = token.split('.');
    const forged = `${head}.${claims}.${Buffer.alloc(32).toString('base64url')}`;
    const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
    for (const wrong of [undefined, 'abc', forged, `${none}.${claims}.`]) {
      assert.equal((await send({ token: wrong })).status, 401, String(wrong));
    }
    node.time.offsetMs = 6 * 60_000;
    const late = await send({ token });
    node.time.offsetMs = 0;
    assert.deepEqual([late.status, late.body], [401, 'the token has expired: ask for another one\n']);
    const uid = required((await node.claim('guarded')).metadata.uid, 'uid');
    await node.client.delete(resources.dataVolumes, { namespace: 'default', name: 'guarded' });
    const type = resources.persistentVolumeClaims;
    await node.client.delete(type, { namespace: 'default', name: 'guarded' }).catch(() => undefined);
    await eventually(async () =>
      assert.notEqual((await node.claim('guarded').catch(() => undefined))?.metadata.uid, uid),
    );
    await ready('guarded');
    const old = await send({ token });
    assert.equal(old.status, 401);
    assert.match(old.body, /a claim that is no more/);
    await isEmpty('guarded');
  });

  const form = (...fields: readonly (readonly [name: string, bytes: Buffer])[]) =>
    Buffer.concat([
      ...fields.flatMap(([name, bytes]) => [
        Buffer.from(`--edge\r\nContent-Disposition: form-data; name="${name}"; filename="x"\r\n\r\n`),
        bytes,
        Buffer.from('\r\n'),
      ]),
      Buffer.from('--edge--\r\n'),
    ]);
  const contentType = 'multipart/form-data; boundary=edge';

  for (const route of ['/v1beta1/upload-form', '/v1beta1/upload-form-async', '/v1alpha1/upload-form']) {
    test(`a form brings a disk as its file (${route}); another one may be in it, too`, async () => {
      const name = route.replace(/\W/g, '');
      const token = await ready(name);
      const without = await send({ token, route, contentType, body: form(['other', qcow2]) });
      assert.deepEqual([without.status, without.body], [400, 'the upload has no field file\n']);
      const cut = await send({ token, route, contentType, body: form(['file', qcow2]).subarray(0, -12) });
      assert.deepEqual([cut.status, cut.body], [400, 'the upload ends before its last boundary\n']);
      assert.match((await send({ token, route })).body, /is no form/);
      await isEmpty(name);
      const body = form(['other', Buffer.from('x')], ['file', qcow2]);
      assert.equal((await send({ token, route, contentType, body })).status, 200);
      await node.until(name, 'Succeeded');
      await isWhole(name);
    });
  }

  const kinds = {
    'a disk': { route: '/v1beta1/upload', head: '' },
    'another field than the disk': {
      route: '/v1beta1/upload-form',
      head: '--edge\r\nContent-Disposition: form-data; name="other"\r\n\r\n',
    },
  };
  for (const [what, { route, head }] of Object.entries(kinds)) {
    test(`${what} that says no length and does not end is refused once it is too much`, async () => {
      const name = `endless${head.length}`;
      const token = await ready(name, '1Mi');
      const { answered, sentBytes } = await sendEndlessly(route, token, head);
      // Who is still sending may see the end of the connection before the answer.
      assert.match(answered, /more than \d+ bytes, which are the most|EPIPE|ECONNRESET|hang up/);
      assert.ok(sentBytes < mostSentBytes, `${sentBytes} bytes were taken`);
      await isEmpty(name);
      assert.equal((await send({ token, body: Buffer.alloc(mib, 'x') })).status, 200, 'a right one may follow');
    });
  }

  /** No more than this many bytes, for a proxy without a bound. */
  const mostSentBytes = 256 * mib;
  const sendEndlessly = (route: string, token: string, head: string) =>
    new Promise<{ readonly answered: string; readonly sentBytes: number }>((resolve) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': contentType };
      const options = { ca: node.proxy.ca, agent: false, method: 'POST', headers };
      const request = https.request(`${node.proxy.url}${route}`, options);
      let sentBytes = 0;
      const piece = Buffer.alloc(mib, 'x');
      const isOver = new AbortController();
      const end = (answered: string) => {
        isOver.abort();
        resolve({ answered, sentBytes });
        request.destroy();
      };
      request.on('error', ({ message }) => end(message));
      request.on('response', (response) => {
        text(response).then(end, ({ message }: Error) => end(message));
      });
      const more = () => {
        if (isOver.signal.aborted) return;
        if (sentBytes >= mostSentBytes) {
          request.end();
          return;
        }
        sentBytes += piece.length;
        request.write(piece, more);
      };
      request.write(head || 'x', more);
    });

  test('a page of another origin may send a disk, by a token and by no cookie', async () => {
    const route = '/v1beta1/upload-form-async';
    const preflight = await send({ method: 'OPTIONS', route, body: Buffer.alloc(0) });
    assert.equal(preflight.status, 200);
    assert.match(String(preflight.headers['access-control-allow-headers']), /Authorization/);
    assert.equal(preflight.headers['access-control-allow-credentials'], undefined);
    const token = await ready('foreign');
    const body = form(['file', qcow2]);
    const [origin, cookie] = ['https://elsewhere.example', `token=${token}; authorization=Bearer ${token}`];
    const byCookie = await send({ route, contentType, body, headers: { origin, cookie } });
    assert.equal(byCookie.status, 401);
    await isEmpty('foreign');
    const byToken = await send({ token, route, contentType, body, headers: { origin } });
    assert.deepEqual([byToken.status, byToken.headers['access-control-allow-origin']], [200, '*']);
    await node.until('foreign', 'Succeeded');
    await isWhole('foreign');
  });

  test('another method and another path are said not to be there', async () => {
    assert.equal((await send({ method: 'DELETE' })).status, 405);
    assert.equal((await send({ route: '/other' })).status, 404);
  });

  test('a token is given for a claim that is there', async () => {
    const url = '/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/default/uploadtokenrequests';
    const missing = await node.api.client.call('POST', url, { spec: { pvcName: 'nobody' } });
    assert.equal(missing.status, 404);
    const empty = await node.api.client.call('POST', url, { spec: {} });
    assert.equal(empty.status, 422);
  });
});
