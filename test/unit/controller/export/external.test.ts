import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KubeObject, ResourceType } from '../../../../src/api/index.ts';
import { findExternal } from '../../../../src/controller/export/external.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { TestAuthority } from '../../../fixtures/certificates.ts';

const host = 'export.apps.example.org';
const backend = (name: string) => ({ service: { name, port: { number: 443 } } });
const ingress = (spec: object): KubeObject =>
  ({ apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', metadata: { name: 'i' }, spec }) as KubeObject;
const ruled = (name: string, more: object = {}) =>
  ingress({ rules: [{ host, http: { paths: [{ backend: backend(name) }] } }], ...more });

interface World {
  readonly ingresses?: readonly KubeObject[];
  readonly routes?: readonly KubeObject[];
  readonly secret?: string;
  readonly roots?: string;
}

/** Kinds that are not given are not served. */
function find({ ingresses, routes, secret, roots }: World) {
  const none = () => new KubeError('NOT_FOUND', 'not served');
  const lists: Readonly<Record<string, readonly KubeObject[] | undefined>> = { ingresses, routes };
  const client = {
    list: async ({ resource }: ResourceType) => {
      const items = lists[resource];
      if (!items) throw none();
      return { items };
    },
    get: async ({ resource }: ResourceType) => {
      if (resource === 'secrets' && secret) return { data: { 'tls.crt': Buffer.from(secret).toString('base64') } };
      if (resource === 'configmaps' && roots) return { data: { 'ca.crt': roots } };
      throw none();
    },
  };
  const now = new Date();
  return findExternal({ namespace: 'kubevirt', client: client as never, now, signal: AbortSignal.timeout(1_000) });
}

describe('how clients from outside come to exports', () => {
  test('where nothing leads to the proxy they do not', async () => {
    assert.equal(await find({}), undefined);
    assert.equal(await find({ ingresses: [ruled('other')], routes: [] }), undefined);
    assert.equal(await find({ ingresses: [ingress({ defaultBackend: backend('other') })] }), undefined);
    assert.equal(await find({ ingresses: [ingress({})] }), undefined);
  });

  test('by an Ingress, with the certificate of its host and who signed it', async () => {
    const authority = await TestAuthority.make('signer');
    const own = await authority.issue({ usage: 'serverAuth', commonName: 'x', hosts: [host] });
    const other = await authority.issue({ usage: 'serverAuth', commonName: 'y', hosts: ['other.example.org'] });
    await authority.remove();
    const secret = [other.cert, own.cert, authority.pair.cert].join('');
    const found = await find({ ingresses: [ruled('virt-exportproxy', { tls: [{ secretName: 's' }] })], secret });
    assert.equal(found?.host, host);
    assert.equal(found?.cert, `${own.cert.trim()}\n${authority.pair.cert.trim()}`);
    const bare = await find({ ingresses: [ruled('virt-exportproxy')] });
    assert.deepEqual(bare, { host, cert: '' });
    const torn = await find({ ingresses: [ruled('virt-exportproxy', { tls: [{ secretName: 's' }] })], secret: 'x' });
    assert.deepEqual(torn, { host, cert: '' });
  });

  test('by a Route, with the authorities of the cluster', async () => {
    const authority = await TestAuthority.make('roots');
    await authority.remove();
    const route = {
      ...{ apiVersion: 'route.openshift.io/v1', kind: 'Route', metadata: { name: 'r' } },
      spec: { to: { name: 'virt-exportproxy' } },
      status: { ingress: [{ host }] },
    } as KubeObject;
    const roots = authority.pair.cert;
    assert.deepEqual(await find({ routes: [route], roots }), { host, cert: roots.trim() });
    assert.equal(await find({ routes: [{ ...route, status: {} } as KubeObject] }), undefined);
  });
});
