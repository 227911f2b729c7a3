import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DomainSpecInput } from '../../../../src/api/index.ts';
import {
  buildDomainXml,
  type ConverterContext,
  parseDomainXml,
  wantedCpus,
} from '../../../../src/launcher/domain/index.ts';
import { child, childrenOf, parseXml } from '../../../../src/launcher/domain/xml.ts';
import { contextWith, lean, overlay, twoCells, vmiWith } from './cases.ts';

type Cpu = NonNullable<DomainSpecInput['cpu']>;

const dedicated = (cpu: Cpu): Cpu => ({ ...cpu, dedicatedCpuPlacement: true });
const xmlOf = (cpu: Cpu, context: Partial<ConverterContext>, domain: DomainSpecInput = {}) =>
  buildDomainXml(vmiWith({ devices: lean, ...domain, cpu }), contextWith(context));

function tuneOf(xml: string) {
  const tune = child(parseXml(xml, 'domain'), 'cputune');
  const pins = (name: string) => (tune ? childrenOf(tune, name) : []).map(({ attributes }) => attributes.cpuset);
  return { vcpus: pins('vcpupin'), emulator: pins('emulatorpin'), ioThreads: pins('iothreadpin') };
}

test('a guest without dedicated CPUs is pinned nowhere', () => {
  assert.deepEqual(tuneOf(xmlOf({ cores: 2 }, {})), { vcpus: [], emulator: [], ioThreads: [] });
});

test('more dedicated CPUs than the pod has are refused before the start, with what it has', () => {
  assert.throws(() => xmlOf(dedicated({ cores: 3 }), { cpuSet: [0, 1] }), {
    code: 'NOT_ENOUGH_CPUS',
    message: /^3 dedicated CPUs are needed, the launcher pod has 2 CPUs \(0,1\): /,
  });
});

test('an emulator apart needs one CPU more', () => {
  const cpu = dedicated({ cores: 2, isolateEmulatorThread: true });
  assert.throws(() => xmlOf(cpu, { cpuSet: [0, 1] }), { code: 'NOT_ENOUGH_CPUS', message: /isolateEmulatorThread/ });
  assert.deepEqual(tuneOf(xmlOf(cpu, { cpuSet: [0, 1, 2] })).emulator, ['2']);
});

test('with the annotation for even numbers an emulator of an even guest has two CPUs', () => {
  const annotations = { 'alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity': '' };
  const emulator = (cores: number) => {
    const cpu = dedicated({ cores, isolateEmulatorThread: true });
    const vmi = vmiWith({ devices: lean, cpu }, {}, { annotations });
    return tuneOf(buildDomainXml(vmi, contextWith({ cpuSet: [0, 1, 2, 3] }))).emulator;
  };
  assert.deepEqual(emulator(2), ['2,3']);
  assert.deepEqual(emulator(3), ['3']);
});

test('vCPUs that can be plugged in later have no CPU yet', () => {
  const cpu = dedicated({ sockets: 2, maxSockets: 8 });
  assert.deepEqual(tuneOf(xmlOf(cpu, { cpuSet: [0, 1] })).vcpus, ['0', '1']);
});

test('room for CPUs that no machine has is cut to what one has', () => {
  const vcpu = (cpu: NonNullable<DomainSpecInput['cpu']>) => {
    const found = child(parseXml(buildDomainXml(vmiWith({ devices: lean, cpu }), contextWith()), 'domain'), 'vcpu');
    return [found?.attributes.current, found?.text];
  };
  assert.deepEqual(vcpu({ sockets: 32, cores: 4, maxSockets: 128 }), ['128', '252']);
  assert.deepEqual(vcpu({ sockets: 100, maxSockets: 400 }), ['100', '255']);
  assert.deepEqual(vcpu({ sockets: 270, maxSockets: 512 }), [undefined, '270']);
});

const threadCases: readonly (readonly [string, number, number, string[]])[] = [
  ['share the CPUs of a large guest in runs', 8, 3, ['0,1,2', '3,4,5', '6,7']],
  ['have one CPU each where there are as many', 2, 2, ['1', '0']],
];

for (const [what, cores, disks, expected] of threadCases) {
  test(`I/O threads ${what}`, () => {
    const names = Array.from({ length: disks }, (_, at) => `d${at}`);
    const devices = {
      ...lean,
      disks: names.map((name) => ({ name, disk: { bus: 'virtio' as const }, dedicatedIOThread: true })),
    };
    const volumes = names.map((name) => ({ name, containerDisk: { image: 'i' } }));
    const context = {
      cpuSet: Array.from({ length: cores }, (_, cpu) => cpu),
      disks: new Map(names.map((n) => [n, overlay])),
    };
    const vmi = vmiWith({ devices, cpu: dedicated({ cores }) }, { volumes });
    assert.deepEqual(tuneOf(buildDomainXml(vmi, contextWith(context))).ioThreads, expected);
  });
}

const pool = (count: number) => ({
  ioThreadsPolicy: 'supplementalPool',
  ioThreads: { supplementalPoolThreadCount: count },
});

test('each I/O thread of a pool has a CPU besides those of the vCPUs, and the emulator comes after them', () => {
  const annotations = { 'alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity': '' };
  const tune = (threads: number) => {
    const cpu = dedicated({ cores: 2, isolateEmulatorThread: true });
    const vmi = vmiWith({ devices: lean, ...pool(threads), cpu }, {}, { annotations });
    return tuneOf(buildDomainXml(vmi, contextWith({ cpuSet: [0, 1, 2, 3, 4, 5] })));
  };
  assert.deepEqual(tune(1), { vcpus: ['0', '1'], ioThreads: ['2'], emulator: ['3'] });
  assert.deepEqual(tune(2), { vcpus: ['0', '1'], ioThreads: ['2', '3'], emulator: ['4,5'] });
  assert.throws(() => xmlOf(dedicated({ cores: 2 }), { cpuSet: [0, 1, 2] }, pool(2)), {
    code: 'NOT_ENOUGH_CPUS',
    message: /supplementalPoolThreadCount 2 needs as many CPUs besides/,
  });
});

test('vCPUs that are plugged leave the CPUs of a pool alone', () => {
  const vmi = vmiWith({ devices: lean, ...pool(1), cpu: dedicated({ sockets: 2, isolateEmulatorThread: true }) });
  const { placement } = wantedCpus(vmi, { cpuSet: [0, 1, 2, 3] });
  assert.deepEqual(placement, { vcpus: [0, 1], ioThreads: [[2]], emulator: [3] });
});

const numa = dedicated({ sockets: 2, numa: { guestMappingPassthrough: {} } });
const hugePages = { pageSize: '2Mi' };

test('NUMA cells that nobody knows cannot be passed through', () => {
  const domain = { memory: { guest: '64Mi', hugepages: hugePages } };
  assert.throws(() => xmlOf(numa, {}, domain), { code: 'NO_TOPOLOGY', message: /guestMappingPassthrough/ });
  assert.throws(() => xmlOf(numa, { cpuSet: [0, 9], options: { topology: twoCells } }, domain), {
    code: 'NO_TOPOLOGY',
  });
});

test('each NUMA cell needs a huge page at least', () => {
  const context = { cpuSet: [0, 2], options: { topology: twoCells } };
  assert.throws(() => xmlOf(numa, context, { memory: { guest: '2Mi', hugepages: hugePages } }), {
    code: 'INVALID_FIELD',
    message: /1 huge pages for 2 NUMA cells/,
  });
});

test('a core of the guest does not cross NUMA cells that it has', () => {
  const cpu = { ...numa, sockets: 1, threads: 2 };
  const context = { cpuSet: [0, 2], options: { topology: twoCells } };
  assert.throws(() => xmlOf(cpu, context, { memory: { guest: '64Mi', hugepages: hugePages } }), {
    code: 'NOT_ENOUGH_CPUS',
    message: /do not fit into single NUMA cells/,
  });
});

test('the agent finds in the Domain object where the emulator shall run', () => {
  const cpu = dedicated({ cores: 2, isolateEmulatorThread: true });
  assert.deepEqual(parseDomainXml(xmlOf(cpu, { cpuSet: [0, 1, 2] })).CPUTune, {
    VCPUPin: [
      { VCPU: 0, CPUSet: '0' },
      { VCPU: 1, CPUSet: '1' },
    ],
    IOThreadPin: null,
    EmulatorPin: { CPUSet: '2' },
  });
  assert.equal(parseDomainXml(xmlOf({}, {})).CPUTune, null);
});
