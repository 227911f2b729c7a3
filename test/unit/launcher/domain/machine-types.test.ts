import assert from 'node:assert/strict';
import { test } from 'node:test';
import { machineTypesIn } from '../../../../src/launcher/domain/index.ts';

const guest = (arch: string, machines: string[], type = 'hvm') =>
  `<guest><os_type>${type}</os_type><arch name='${arch}'><wordsize>64</wordsize>${machines
    .map((name) => `<machine canonical='x' maxCpus='288'>${name}</machine>`)
    .join('')}<domain type='qemu'/></arch></guest>`;

test('machine types are those of guests of the architecture, each once', () => {
  const guests = [
    guest('i686', ['isapc']),
    guest('x86_64', ['pc-q35-7.2', 'q35', 'q35']),
    guest('x86_64', ['xenfv'], 'xen'),
  ];
  const xml = `<capabilities><host/>${guests.join('')}</capabilities>`;
  assert.deepEqual(machineTypesIn(xml, 'x64'), ['pc-q35-7.2', 'q35']);
  assert.deepEqual(machineTypesIn(xml, 'arm64'), []);
  assert.throws(() => machineTypesIn('<other/>', 'x64'), { name: 'ConvertError' });
});
