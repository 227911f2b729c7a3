import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sameTemplate } from '../../../../src/controller/pool/same-template.ts';
import { template } from './situations.ts';

test('a template is the same as upstream’s controller keeps it', () => {
  const { metadata, spec } = template();
  const { template: vmi, ...rest } = spec;
  const kept = {
    metadata: { ...metadata, creationTimestamp: null },
    spec: {
      ...rest,
      template: {
        metadata: { ...vmi.metadata, creationTimestamp: null },
        spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices: {}, resources: {} } },
      },
    },
  };
  assert.ok(sameTemplate(template(), kept));
  assert.ok(!sameTemplate(template('1Gi'), kept));
});

test('an empty object that says something is no absence', () => {
  const binding = (name: string) => ({ interfaces: [{ name: 'default', [name]: {} }] });
  assert.ok(!sameTemplate(binding('masquerade'), binding('bridge')));
  assert.ok(sameTemplate(binding('bridge'), binding('bridge')));
});

test('absent, null and undefined are one, and an empty list is none of them', () => {
  assert.ok(sameTemplate(undefined, undefined));
  assert.ok(sameTemplate({ a: null }, {}));
  assert.ok(!sameTemplate({ a: [] }, {}));
});
