import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isMadeHere,
  type MediatedMachine,
  mediatedUuid,
  orders,
} from '../../../../../src/agent/node/devices/mediated-plan.ts';

const nodeName = 'node1';
const nothingYet = { nodeName, unfinished: new Map<string, string>(), refused: new Map<string, Set<string>>() };
const wishes = (...types: string[]) => ({ types, external: [] });

function cards(count: number, ...types: readonly (readonly [id: string, available: number])[]): MediatedMachine {
  const kinds = types.map(([id, available]) => ({ id, name: undefined, available }));
  const parents = Array.from({ length: count }, (_, index) => ({ parent: `card${index}`, types: kinds }));
  return { parents, devices: [] };
}

/** `parent type count` */
const shown = (made: ReturnType<typeof orders>) =>
  made.map(({ parent, type, uuids }) => `${parent} ${type} ${uuids.length}`);

test('a driver that says it can make 65536 is asked for 256', () => {
  const machine = cards(1, ['vfio_ap-passthrough', 65_536]);
  assert.deepEqual(shown(orders(machine, wishes('vfio_ap-passthrough'), nothingYet)), [
    'card0 vfio_ap-passthrough 256',
  ]);
});

test('types take turns over the cards, in the order in which they are asked for; a card without one takes the next', () => {
  const machine = cards(3, ['a', 4], ['b', 2]);
  assert.deepEqual(shown(orders(machine, wishes('b', 'a', 'nobody-has-it'), nothingYet)), [
    'card0 b 2',
    'card1 a 4',
    'card2 b 2',
  ]);
});

test('a card on which not all could be made gets the rest, under other names; one that is full gets nothing', () => {
  const device = (index: number) => ({
    uuid: mediatedUuid(nodeName, 'card0', 'a', index),
    parent: 'card0',
    type: { id: 'a', name: undefined },
    files: [],
  });
  const machine = { ...cards(1, ['a', 2], ['b', 0]), devices: [device(0), device(2)] };
  assert.deepEqual(orders(machine, wishes('a'), nothingYet), []);
  const [order] = orders(machine, wishes('a'), { ...nothingYet, unfinished: new Map([['card0', 'a']]) });
  assert.deepEqual(order?.uuids, [device(1).uuid, device(3).uuid]);
  const full = { ...machine, parents: cards(1, ['a', 0]).parents };
  assert.deepEqual(orders(full, wishes('a'), { ...nothingYet, unfinished: new Map([['card0', 'a']]) }), []);
});

test('a type that a card refused goes last on it, and is tried again where there is no other', () => {
  const refused = new Map([['card0', new Set(['a'])]]);
  const machine = cards(1, ['a', 4], ['b', 2]);
  assert.deepEqual(shown(orders(machine, wishes('a', 'b'), { ...nothingYet, refused })), ['card0 b 2']);
  assert.deepEqual(shown(orders(machine, wishes('a'), { ...nothingYet, refused })), ['card0 a 4']);
});

test('the name of a device tells that this agent made it, on this node, of this card and type', () => {
  const device = {
    uuid: mediatedUuid(nodeName, 'card0', 'a', 7),
    parent: 'card0',
    type: { id: 'a', name: undefined },
    files: [],
  };
  assert.equal(isMadeHere(nodeName, device), true);
  assert.equal(isMadeHere('node2', device), false);
  assert.equal(isMadeHere(nodeName, { ...device, parent: 'card1' }), false);
  assert.equal(isMadeHere(nodeName, { ...device, uuid: '11111111-2222-3333-4444-555555555555' }), false);
  assert.match(device.uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-000000000007$/);
});
