import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Interface, Network, VmiInterfaceStatus, VmiPhase } from '../../../../src/api/index.ts';
import { pluggedInterfaces } from '../../../../src/controller/vm/interfaces.ts';
import { buildVm, buildVmi } from '../builders.ts';

const main: Interface = { name: 'default', masquerade: {} };
const blue: Interface = { name: 'blue', bridge: {} };
const red: Interface = { name: 'red', bridge: {} };
const hashed: readonly VmiInterfaceStatus[] = [
  { name: 'default' },
  { name: 'blue', podInterfaceName: 'pod16477688c0e' },
];
const numbered: readonly VmiInterfaceStatus[] = [{ name: 'default' }, { name: 'blue', podInterfaceName: 'net1' }];

const networkOf = ({ name }: Interface): Network =>
  name === 'default' ? { name, pod: {} } : { name, multus: { networkName: `nad-${name}` } };
const specOf = (interfaces: readonly Interface[]) => ({
  domain: { devices: { interfaces: [...interfaces] } },
  networks: interfaces.map(networkOf),
});

interface Row {
  readonly when: string;
  readonly vm: readonly Interface[];
  readonly vmi: readonly Interface[];
  readonly reported?: readonly VmiInterfaceStatus[];
  readonly phase?: VmiPhase;
  /** Interfaces with their state, then networks. */
  readonly expected: string;
}

const absent = (iface: Interface): Interface => ({ ...iface, state: 'absent' });

const rows: readonly Row[] = [
  { when: 'nothing differs', vm: [main, blue], vmi: [main, blue], expected: '-' },
  { when: 'a bridge was added', vm: [main, blue], vmi: [main], expected: 'default,blue on default,blue' },
  { when: 'two were added', vm: [red, main, blue], vmi: [main], expected: 'default,red,blue on default,red,blue' },
  { when: 'one was added that is absent', vm: [main, absent(blue)], vmi: [main], expected: '-' },
  {
    when: 'one was added that cannot be plugged',
    vm: [main, { name: 'red', passtBinding: {} }],
    vmi: [main],
    expected: '-',
  },
  { when: 'the VMI does not run', vm: [main, blue], vmi: [main], phase: 'Scheduled', expected: '-' },
  {
    when: 'it is to be absent',
    vm: [main, absent(blue)],
    vmi: [main, blue],
    expected: 'default,blue=absent on default,blue',
  },
  { when: 'links are numbered', vm: [main, absent(blue)], vmi: [main, blue], reported: numbered, expected: '-' },
  { when: 'links are not known', vm: [main, absent(blue)], vmi: [main, blue], reported: [], expected: '-' },
  {
    when: 'its link goes down',
    vm: [main, { ...blue, state: 'down' }],
    vmi: [main, blue],
    expected: 'default,blue=down on default,blue',
  },
  {
    when: 'its link comes up',
    vm: [main, blue],
    vmi: [main, { ...blue, state: 'down' }],
    expected: 'default,blue on default,blue',
  },
  { when: 'it is on its way out', vm: [main, blue], vmi: [main, absent(blue)], expected: '-' },
  {
    when: 'it is out',
    vm: [main, absent(blue)],
    vmi: [main, absent(blue)],
    reported: [],
    expected: 'default on default',
  },
  { when: 'one was taken out of the template', vm: [main], vmi: [main, blue], expected: '-' },
  { when: 'the template leaves the interfaces to the defaults', vm: [], vmi: [main], expected: '-' },
];

const namesOf = (list: readonly { readonly name: string; readonly state?: string }[]) =>
  list.map(({ name, state }) => (state ? `${name}=${state}` : name)).join();

for (const { when, vm, vmi, reported = hashed, phase = 'Running', expected } of rows) {
  test(`interfaces of a running VMI when ${when}: ${expected}`, () => {
    const machine = buildVm({ template: { spec: specOf(vm) } });
    const plugged = pluggedInterfaces(machine, buildVmi(specOf(vmi), { phase, interfaces: [...reported] }));
    assert.equal(plugged ? `${namesOf(plugged.interfaces)} on ${namesOf(plugged.networks)}` : '-', expected);
  });
}

test('an interface without a network, and what is no list, are left alone', () => {
  const spec = { domain: { devices: { interfaces: [blue] } }, networks: 'x' as unknown as Network[] };
  assert.equal(pluggedInterfaces(buildVm({ template: { spec } }), buildVmi({}, { phase: 'Running' })), undefined);
});
