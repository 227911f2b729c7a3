import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KubeVirt, TlsConfig } from '../../../../src/agent/adapters/index.ts';
import type { StoreHandlers } from '../../../../src/kube/store.ts';

/** The KubeVirt objects of a cluster. */
class Objects {
  objects: KubeVirt[] = [];
  readonly handlers = new Set<StoreHandlers<KubeVirt>>();

  list(): KubeVirt[] {
    return this.objects;
  }

  addHandlers(handlers: StoreHandlers<KubeVirt>): () => void {
    this.handlers.add(handlers);
    return () => this.handlers.delete(handlers);
  }

  set(...objects: KubeVirt[]): void {
    this.objects = objects;
    for (const { deleted } of this.handlers) deleted?.(kubevirt({}), false);
  }
}

function kubevirt({
  tls,
  phase = 'Deployed',
  deleted = false,
}: {
  tls?: unknown;
  phase?: string;
  deleted?: boolean;
}): KubeVirt {
  const metadata = { name: 'kubevirt', ...(deleted && { deletionTimestamp: '2026-01-01T00:00:00Z' }) };
  const object = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, status: { phase } };
  return { ...object, spec: { configuration: { tlsConfiguration: tls } } } as KubeVirt;
}

const strict = { minTLSVersion: 'VersionTLS13' };

test('there are no settings before the objects were asked for: defaults could be weaker', () => {
  const objects = new Objects();
  const config = new TlsConfig(objects);
  const oldest = () => config.current?.minVersion;
  assert.equal(oldest(), undefined);
  config.begin();
  assert.equal(oldest(), 'TLSv1.2');
});

test('settings follow the object that has a phase and is not being deleted, and tell of differences only', () => {
  const objects = new Objects();
  const config = new TlsConfig(objects);
  const seen: (string | undefined)[] = [];
  config.onChange(() => seen.push(config.current?.minVersion));
  config.begin();
  objects.set(kubevirt({ tls: strict, phase: '' }), kubevirt({ tls: strict, deleted: true }));
  objects.set(kubevirt({ tls: strict }));
  objects.set(kubevirt({ tls: { ...strict, ciphers: ['NONE'] } }));
  objects.set();
  assert.deepEqual(seen, ['TLSv1.2', 'TLSv1.3', 'TLSv1.2']);
  config.stop();
  assert.equal(objects.handlers.size, 0);
});

test('an object with absurd parts counts as one without them', () => {
  const objects = new Objects();
  const config = new TlsConfig(objects);
  config.begin();
  const absurd = [7, null, [], 'x', { tlsConfiguration: 7 }, { tlsConfiguration: ['VersionTLS13'] }];
  for (const configuration of absurd) {
    objects.set({ ...kubevirt({}), spec: { configuration } } as unknown as KubeVirt);
    assert.equal(config.current?.minVersion, 'TLSv1.2', JSON.stringify(configuration));
  }
  objects.set({ ...kubevirt({}), spec: null } as unknown as KubeVirt);
  assert.equal(config.current?.minVersion, 'TLSv1.2');
});
