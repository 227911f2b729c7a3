import assert from 'node:assert/strict';
import { test } from 'node:test';
import { upstreamSchema } from '../../../scripts/upstream-crds.mjs';
import type { VmiSpec } from '../../../src/api/index.ts';
import { isRecord } from '../../../src/base/index.ts';
import { InstancetypeError } from '../../../src/instancetype/index.ts';
import { applied, vmOf } from './builders.ts';

/**
 * Each field of upstream's instance types and preferences, alone and with a value of its type, makes another machine than the same without
 * it, or is refused: none is lost.
 */

/** Fields that say something only beside others. */
const beside: Readonly<Record<string, object>> = {
  'cpu.spreadOptions.across': { cpu: { preferredCPUTopology: 'spread' } },
  'cpu.spreadOptions.ratio': { cpu: { preferredCPUTopology: 'spread' } },
  preferSpreadSocketToCoreRatio: { cpu: { preferredCPUTopology: 'spread' } },
  'firmware.preferredUseBiosSerial': { firmware: { preferredUseBios: true } },
  'firmware.preferredUseSecureBoot': { firmware: { preferredUseEfi: true } },
};

/** Values that are not what everything has anyway. */
const values: Readonly<Record<string, unknown>> = {
  'cpu.preferredCPUTopology': 'cores',
  'cpu.spreadOptions.across': 'CoresThreads',
  'cpu.spreadOptions.ratio': 4,
  preferSpreadSocketToCoreRatio: 4,
  'requirements.cpu.guest': 64,
  'requirements.memory.guest': '64Gi',
};

/** Acts on a VM's templates of DataVolumes, see `data-volumes.test.ts`. */
const elsewhere = ['volumes.preferredStorageClassName'];

const machine: Partial<VmiSpec> = {
  networks: [{ name: 'default', pod: {} }],
  volumes: ['disk', 'cd', 'lun'].map((name) => ({ name, emptyDisk: { capacity: '1Mi' } })),
  domain: {
    devices: {
      interfaces: [{ name: 'default' }],
      inputs: [{ name: 'input', type: '' }],
      sound: { name: 'sound' },
      gpus: [{ name: 'gpu' }],
      disks: [
        { name: 'disk', disk: { bus: 'virtio' } },
        { name: 'plain' },
        { name: 'cd', cdrom: {} },
        { name: 'lun', lun: {} },
      ],
    },
  },
};
const bare: Partial<VmiSpec> = { domain: { devices: { interfaces: [{ name: 'default' }] } } };
const size = { cpu: { guest: 8 }, memory: { guest: '1Gi' } };

for (const kind of ['instancetype', 'preference'] as const) {
  const schema = upstreamSchema(`virtualmachine${kind}`);
  const skip = schema === undefined ? "upstream's schemas come with `go`, once" : false;
  const vm = vmOf(kind === 'preference' ? machine : bare);

  const outcome = (given: object) => {
    const found = kind === 'instancetype' ? { instancetype: given } : { instancetype: size, preference: given };
    try {
      return JSON.stringify(applied(vm, found));
    } catch (error) {
      assert.ok(error instanceof InstancetypeError, String(error));
      return error.message;
    }
  };

  test(`no field of upstream's ${kind} is lost`, { skip }, () => {
    const fields = leavesOf(memberOf(schema, 'spec'), []);
    assert.ok(fields.length > 20, `only ${fields.length} fields`);
    const base = kind === 'instancetype' ? size : {};
    const lost = fields.filter(({ path, sample }) => {
      const name = path.join('.');
      if (elsewhere.includes(name)) return false;
      // The fields around it are there in both.
      const without = withValue({ ...base, ...beside[name] }, path.slice(0, -1), undefined) as object;
      return outcome(without) === outcome(withValue(without, path, values[name] ?? sample) as object);
    });
    assert.deepEqual(
      lost.map(({ path }) => path.join('.')),
      [],
    );
  });

  test(`a field that upstream's ${kind} has not is refused by its path`, { skip }, () => {
    assert.match(outcome({ ...(kind === 'instancetype' ? size : {}), strange: 1 }), /spec\.strange is a field that/);
  });
}

interface Leaf {
  /** `[]` is the first item of a list. */
  readonly path: readonly string[];
  readonly sample: unknown;
}

function memberOf(schema: unknown, name: string): Record<string, unknown> {
  const { properties } = schema as { properties: Record<string, Record<string, unknown>> };
  return properties[name] ?? assert.fail(name);
}

function leavesOf(schema: Record<string, unknown>, path: readonly string[]): Leaf[] {
  const { properties, items, additionalProperties } = schema;
  if (isRecord(properties)) {
    return Object.entries(properties).flatMap(([name, member]) => leavesOf(member as typeof schema, [...path, name]));
  }
  if (isRecord(items)) return leavesOf(items, [...path, '[]']);
  if (additionalProperties !== undefined) return [{ path: [...path, 'key'], sample: 'value' }];
  return [{ path, sample: sampleOf(schema) }];
}

function sampleOf({ type, ...schema }: Record<string, unknown>): unknown {
  if (schema['x-kubernetes-int-or-string'] === true) return '2Gi';
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return 2;
  return type === 'object' ? {} : 'text';
}

function withValue(holder: unknown, [name, ...below]: readonly string[], value: unknown): unknown {
  if (name === undefined) return value ?? holder ?? {};
  if (name === '[]') return [withValue({ name: 'item' }, below, value)];
  const record = isRecord(holder) ? holder : {};
  return { ...record, [name]: withValue(record[name], below, value) };
}
