import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mostAtOnce, mostOverlapping, type Sighting, spansOf } from '../../../bench/migration-limits.ts';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';

const vmi = (version: number, name: string, status: NonNullable<VirtualMachineInstance['status']>): Sighting => ({
  version,
  seenMs: version,
  object: { vmi: { apiVersion: '', kind: '', metadata: { name }, spec: { domain: {} }, status } },
});
const migration = (
  version: number,
  name: string,
  phase: 'Pending' | 'Scheduling' | 'Running' | 'Succeeded',
): Sighting => ({
  version,
  seenMs: version,
  object: {
    migration: {
      ...{ apiVersion: '', kind: '', metadata: { name: `of-${name}`, uid: `uid-${name}` } },
      ...{ spec: { vmiName: name }, status: { phase } },
    },
  },
});
const on = (nodeName: string) => ({ nodeName });
/** Handed over by its own migration. */
const arrived = (name: string, nodeName: string, sourceNode: string) => ({
  ...{ nodeName, migrationState: { migrationUid: `uid-${name}`, sourceNode, completed: true } },
});

const guests = [vmi(1, 'a', on('node1')), vmi(2, 'b', on('node1')), vmi(3, 'c', on('node2'))];

test('migrations that wait or have ended do not count; the others count for the cluster and for the node of their guest', () => {
  const seen = [migration(4, 'a', 'Scheduling'), migration(5, 'b', 'Pending'), migration(6, 'c', 'Running')];
  assert.deepEqual(mostAtOnce([...guests, ...seen]), { cluster: 2, node: 1 });
  assert.deepEqual(mostAtOnce([...guests, ...seen, migration(7, 'b', 'Scheduling')]), { cluster: 3, node: 2 });
  const ended = [migration(7, 'a', 'Succeeded'), migration(8, 'b', 'Scheduling')];
  assert.deepEqual(mostAtOnce([...guests, ...seen, ...ended]), { cluster: 2, node: 1 });
});

test('a guest that has left its node counts for no node, and still for the cluster', () => {
  const first = [migration(4, 'a', 'Running'), vmi(5, 'a', arrived('a', 'node2', 'node1'))];
  const next = [migration(6, 'b', 'Running'), migration(7, 'c', 'Running')];
  assert.deepEqual(mostAtOnce([...guests, ...first, ...next]), { cluster: 3, node: 1 });
});

test('a guest that came by an earlier migration counts for the node where it is', () => {
  const guest = vmi(4, 'a', { nodeName: 'node2', migrationState: { migrationUid: 'earlier', sourceNode: 'node1' } });
  const moving = [migration(5, 'a', 'Running'), migration(6, 'c', 'Running')];
  assert.deepEqual(mostAtOnce([...guests, guest, ...moving]), { cluster: 2, node: 2 });
});

test('a watch that is behind the other one changes nothing: the versions of the store are the order', () => {
  const shown = [
    migration(4, 'a', 'Running'),
    migration(6, 'b', 'Running'),
    vmi(5, 'a', arrived('a', 'node2', 'node1')),
  ];
  assert.deepEqual(mostAtOnce([...guests, ...shown]), { cluster: 2, node: 1 });
});

test('spans that touch do not overlap', () => {
  const span = (beganMs: number, endedMs: number) => ({ beganMs, endedMs });
  assert.equal(mostOverlapping([]), 0);
  assert.equal(mostOverlapping([span(0, 2), span(2, 3), span(1, 2)]), 2);
  assert.equal(mostOverlapping([span(0, 9), span(1, 3), span(2, 5)]), 3);
});

test('the span of a migration is from the first state beyond waiting to the end; without an end it is none', () => {
  const seen = [
    ...[migration(1, 'a', 'Pending'), migration(2, 'a', 'Scheduling'), migration(5, 'a', 'Succeeded')],
    ...[migration(9, 'a', 'Succeeded'), migration(3, 'b', 'Running')],
  ];
  assert.deepEqual([...spansOf(seen)], [['of-a', { beganMs: 2, endedMs: 5 }]]);
});
