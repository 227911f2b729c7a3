import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { asObject } from '../../../src/apiserver/objects/identity.ts';
import { humanDuration } from '../../../src/apiserver/print/duration.ts';
import { toTable } from '../../../src/apiserver/print/table.ts';
import { apiTypes } from '../../../src/apiserver/types/registry.ts';

const now = new Date('2026-01-02T00:00:00Z');

function cells(resource: string, object: object, wide = false): Record<string, unknown> {
  const type = apiTypes.find((item) => item.resource === resource);
  assert.ok(type);
  const full = { apiVersion: 'v1', kind: type.kind, metadata: { name: 'x' }, ...object };
  const table = toTable(type, [full], { include: 'None', now, metadata: {}, withColumns: true });
  const columns = table.columnDefinitions as { name: string; priority: number }[];
  const row = table.rows[0] as { cells: unknown[] };
  const pairs = columns.map(({ name, priority }, index) => [name, priority, row.cells[index]] as const);
  return Object.fromEntries(
    pairs.filter(([, priority]) => wide || priority === 0).map(([name, , cell]) => [name, cell]),
  );
}

describe('ages', () => {
  const table: [number, string][] = [
    [-5, '<invalid>'],
    [0, '0s'],
    [119, '119s'],
    [120, '2m'],
    [125, '2m5s'],
    [599, '9m59s'],
    [3600, '60m'],
    [10_800, '3h'],
    [11_100, '3h5m'],
    [86_400, '24h'],
    [200_000, '2d7h'],
    [864_000, '10d'],
    [3 * 365 * 86_400, '3y'],
    [9 * 365 * 86_400, '9y'],
  ];
  for (const [seconds, expected] of table) {
    test(`${seconds} seconds are ${expected}`, () => assert.equal(humanDuration(seconds), expected));
  }
});

describe('tables', () => {
  test('every type prints an empty object without an exception', () => {
    for (const type of apiTypes) {
      const object = { apiVersion: 'v1', kind: type.kind, metadata: { name: 'x' } };
      const hostile = { ...object, spec: 5, status: ['a'], data: null, involvedObject: 'x' };
      for (const item of [object, hostile]) {
        const { rows } = toTable(type, [item], { include: 'Metadata', now, metadata: {}, withColumns: true });
        assert.equal(rows.length, 1);
      }
    }
  });

  const status = (name: string, state: object, more: object = {}) => ({ name, state, restartCount: 0, ...more });
  const pods: [string, object, object][] = [
    [
      'waits',
      { containerStatuses: [status('a', { waiting: { reason: 'ErrImagePull' } })] },
      { Status: 'ErrImagePull', Ready: '0/2' },
    ],
    [
      'runs',
      {
        phase: 'Running',
        containerStatuses: [
          status('a', { running: {} }, { ready: true }),
          status('b', { running: {} }, { ready: true }),
        ],
      },
      { Status: 'Running', Ready: '2/2' },
    ],
    [
      'failed',
      { phase: 'Failed', containerStatuses: [status('a', { terminated: { exitCode: 3 } })] },
      { Status: 'ExitCode:3' },
    ],
    [
      'done',
      { phase: 'Succeeded', containerStatuses: [status('a', { terminated: { exitCode: 0, reason: 'Completed' } })] },
      { Status: 'Completed' },
    ],
    ['says why', { phase: 'Failed', reason: 'Evicted' }, { Status: 'Evicted' }],
  ];
  for (const [what, podStatus, expected] of pods) {
    test(`a pod that ${what} shows ${JSON.stringify(expected)}`, () => {
      const spec = { containers: [{ name: 'a' }, { name: 'b' }] };
      const shown = cells('pods', { spec, status: podStatus });
      for (const [name, value] of Object.entries(expected)) assert.equal(shown[name], value);
    });
  }

  test('a pod that is being deleted is Terminating, and restarts tell when', () => {
    const containerStatuses = [
      status(
        'a',
        { running: {} },
        { restartCount: 2, lastState: { terminated: { finishedAt: '2026-01-01T23:58:00Z' } } },
      ),
    ];
    const shown = cells('pods', { metadata: { name: 'x', deletionTimestamp: 'now' }, status: { containerStatuses } });
    assert.equal(shown.Status, 'Terminating');
    assert.equal(shown.Restarts, '2 (2m ago)');
  });

  test('an event shows when, what and about whom; wide adds who and how often', () => {
    const event = {
      type: 'Warning',
      reason: 'SyncFailed',
      message: 'no image\n',
      count: 3,
      lastTimestamp: '2026-01-01T23:59:30Z',
      firstTimestamp: '2026-01-01T23:50:00Z',
      source: { component: 'virt-handler', host: 'node' },
      involvedObject: { kind: 'VirtualMachineInstance', name: 'demo' },
    };
    const shown = cells('events', event, true);
    assert.deepEqual(shown, {
      'Last Seen': '30s',
      Type: 'Warning',
      Reason: 'SyncFailed',
      Object: 'virtualmachineinstance/demo',
      Subobject: '',
      Source: 'virt-handler, node',
      Message: 'no image',
      'First Seen': '10m',
      Count: 3,
      Name: 'x',
    });
  });

  test('a node shows readiness, cordon and roles', () => {
    const shown = cells('nodes', {
      metadata: { name: 'x', labels: { 'node-role.kubernetes.io/control-plane': '' } },
      spec: { unschedulable: true },
      status: { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { kubeletVersion: 'v1' } },
    });
    assert.equal(shown.Status, 'Ready,SchedulingDisabled');
    assert.equal(shown.Roles, 'control-plane');
    assert.equal(shown.Version, 'v1');
  });
});

test('an object with a toString of its own is a row with <invalid>, and hides no other row', () => {
  const port = JSON.parse('{"toString":1}');
  assert.equal(cells('services', { spec: { ports: [{ port }] } })['Port(s)'], '<invalid>');
});

test('a body whose kind has a toString of its own is refused, and so is such a text of a secret', () => {
  const secrets = apiTypes.find(({ resource }) => resource === 'secrets') ?? assert.fail();
  const hostile = JSON.parse('{"toString":1}');
  assert.throws(() => asObject({ kind: hostile, metadata: { name: 'a' } }, secrets, 'default'), {
    code: 'BAD_REQUEST',
  });
  const secret = asObject({ metadata: { name: 'a' }, stringData: { a: hostile } }, secrets, 'default');
  secrets.admission.fill?.(secret, { old: undefined } as never);
  assert.deepEqual(
    secrets.admission.validate?.(secret, { old: undefined } as never).map(({ field }) => field),
    ['data[a]'],
  );
});
