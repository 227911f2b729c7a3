import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { UsbResource } from '../../../../../src/agent/node/devices/host-devices.ts';
import { shareOut, type UsbDevice, type UsbUnit } from '../../../../../src/agent/node/devices/usb-units.ts';

const keyboard = { vendor: 1, product: 1 };
const stick = { vendor: 1, product: 2 };

function plugged(port: string, { vendor, product }: typeof keyboard): UsbDevice {
  return { port, vendor, product, bus: 1, device: 1, file: `bus/usb/001/${port}` };
}

const pairs: UsbResource[] = [{ resource: 'a.b/pair', sets: [[keyboard, stick]] }];
const none = new Map<string, UsbUnit[]>();

function shown(shares: Map<string, UsbUnit[]>): string[] {
  return [...shares].flatMap(([resource, units]) =>
    units.map(({ id, devices }) => `${resource} ${id} ${devices ? 'whole' : 'broken'}`),
  );
}

describe('USB devices', () => {
  it('make as many units as there are whole sets, each device in one', () => {
    const devices = [plugged('1-1', keyboard), plugged('1-2', keyboard), plugged('1-3', stick), plugged('2-1', stick)];
    assert.deepEqual(shown(shareOut(pairs, [...devices, plugged('2-2', stick)], none)), [
      'a.b/pair 1-1+1-3 whole',
      'a.b/pair 1-2+2-1 whole',
    ]);
  });

  it('go to the first resource that asks for them', () => {
    const two: UsbResource[] = [
      { resource: 'a.b/one', sets: [[stick]] },
      { resource: 'a.b/two', sets: [[stick], [keyboard]] },
    ];
    assert.deepEqual(shown(shareOut(two, [plugged('1-1', keyboard), plugged('1-2', stick)], none)), [
      'a.b/one 1-2 whole',
      'a.b/two 1-1 whole',
    ]);
  });

  it('of a set with the same device twice are two devices', () => {
    const twins: UsbResource[] = [{ resource: 'a.b/twins', sets: [[stick, stick]] }];
    assert.deepEqual(shown(shareOut(twins, [plugged('1-1', stick)], none)), []);
    assert.deepEqual(shown(shareOut(twins, [plugged('1-1', stick), plugged('1-2', stick)], none)), [
      'a.b/twins 1-1+1-2 whole',
    ]);
  });

  it('keep their unit when others come or go', () => {
    const first = [plugged('1-1', keyboard), plugged('1-2', keyboard), plugged('1-3', stick), plugged('1-4', stick)];
    const before = shareOut(pairs, first, none);
    const without = first.filter(({ port }) => port !== '1-1');
    assert.deepEqual(shown(shareOut(pairs, without, before)), ['a.b/pair 1-2+1-4 whole', 'a.b/pair 1-1+1-3 broken']);
  });

  it('leave a broken unit when they can be whole in another', () => {
    const before = shareOut(pairs, [plugged('1-1', keyboard), plugged('1-3', stick)], none);
    const broken = shareOut(pairs, [plugged('1-3', stick)], before);
    assert.deepEqual(shown(broken), ['a.b/pair 1-1+1-3 broken']);
    const other = shareOut(pairs, [plugged('1-3', stick), plugged('1-9', keyboard)], broken);
    assert.deepEqual(shown(other), ['a.b/pair 1-9+1-3 whole']);
  });

  it('have their unit again when they are plugged in at the same place', () => {
    const both = [plugged('1-1', keyboard), plugged('1-3', stick)];
    const broken = shareOut(pairs, both.slice(1), shareOut(pairs, both, none));
    assert.deepEqual(shown(shareOut(pairs, both, broken)), ['a.b/pair 1-1+1-3 whole']);
  });
});
