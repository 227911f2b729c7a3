import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { vmAdmission } from '../../../src/apiserver/admission/vm.ts';
import { vmiAdmission } from '../../../src/apiserver/admission/vmi.ts';
import type { AdmissionContext } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { clusterDefaultsWith } from '../../fixtures/cluster-defaults.ts';
import { type Json, oddVm, oddVmi } from '../../fixtures/odd-requests.ts';

/** What looks odd, and KubeVirt's webhook takes: counterpart of `test/fixtures/odd-inputs.ts`. */

const machines = ['q35*', 'pc-q35-[89].?', '*-mine', 'exact', '[bad'];
const context = (more: Partial<AdmissionContext> = {}): AdmissionContext => ({
  old: undefined,
  now: new Date(0),
  hasNewSpec: true,
  privileged: false,
  randomUuid: () => 'uuid',
  cluster: clusterDefaultsWith({ emulatedMachines: () => machines }),
  ...more,
});

const lines = (text: string) => `${Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\r\n')}\n`;
const long = 'x'.repeat(300);
const cloudInit = (seed: Json): Json => ({ volumes: [{ name: 'root', cloudInitNoCloud: seed }] });
const clock = (given: Json): Json => ({ domain: { clock: given } });
const onMultus = (item: Json): Json => ({
  domain: { devices: { interfaces: [{ name: 'a', bridge: {}, ...item }] } },
  networks: [{ name: 'a', multus: { networkName: 'net' } }],
});
const onPod = (item: Json): Json => ({
  domain: { devices: { interfaces: [{ name: 'a', ...item }] } },
  networks: [{ name: 'a', pod: {} }],
});
const hostDisk = (capacity: unknown): Json => ({
  volumes: [{ name: 'root', hostDisk: { path: '/a', type: 'Disk', capacity } }],
});
const devices = (given: Json): Json => ({ domain: { devices: given } });
const addressed = devices({ disks: [{ name: 'root', disk: { pciAddress: '0000:0a:01.0' } }] });
const machine = (type: string): Json => ({ domain: { machine: { type } } });

const errorsOf = (admission: typeof vmiAdmission, object: unknown) =>
  (admission.validate?.(object as ApiObject, context()) ?? []).map(({ field, message }) => `${field}: ${message}`);

describe('a VMI is taken with', () => {
  const table: readonly (readonly [title: string, spec: Json])[] = [
    ['user data in lines of base64', cloudInit({ userDataBase64: lines(long) })],
    ['network data in lines of base64', cloudInit({ networkDataBase64: lines(long) })],
    ['a disk of the host whose size is 0, as Go’s clients write none', hostDisk('0')],
    ['ports of any name where there is no pod network', onMultus({ ports: [{ name: 'NO name', port: 80 }] })],
    ['utc beside a zone', clock({ utc: {}, timezone: 'Europe/Berlin' })],
    ['a zone by rules', clock({ timezone: 'CET-1CEST,M3.5.0,M10.5.0/3' })],
    ['a zone by an offset with a name', clock({ timezone: '<+0330>-3:30' })],
    ['an old name of a zone', clock({ timezone: 'US/Pacific' })],
    ['another name of no place', clock({ timezone: 'Etc/GMT+5' })],
    ['a machine by a start', machine('q35-10')],
    ['a machine by an end', machine('pc-mine')],
    ['a machine by a letter of some and one of all', machine('pc-q35-9.2')],
  ];
  for (const [title, spec] of table) {
    test(title, () => assert.deepEqual(errorsOf(vmiAdmission, oddVmi({ spec })), []));
  }

  for (const type of ['pc-q35-7.2', 'pc-q35-9.22', 'exactly', 'mine', '[bad']) {
    test(`and not with the machine ${type}`, () => {
      assert.match(errorsOf(vmiAdmission, oddVmi({ spec: machine(type) })).join(), /^spec\.domain\.machine\.type: /);
    });
  }
});

describe('a VM may lack what its preference gives', () => {
  const table: readonly (readonly [title: string, template: Json])[] = [
    ['the binding of an interface', onPod({})],
    ['the type of a screen', devices({ video: {} })],
    ['the bus of a disk with a PCI address', addressed],
  ];
  const volumes = [{ name: 'root', containerDisk: { image: 'demo' } }];
  for (const [title, template] of table) {
    test(title, () => {
      const vm = (spec: Json) => oddVm(spec, { volumes, ...template });
      assert.deepEqual(errorsOf(vmAdmission, vm({ preference: { name: 'a' } })), []);
      assert.equal(errorsOf(vmAdmission, vm({})).length, 1);
    });
  }
});

describe('Hyper-V’s features of a VMI from before their needs were filled in', () => {
  const domain = (more: Json) => ({ features: { hyperv: { synic: { enabled: true }, evmcs: {}, ...more } } });
  const made = (more: Json = {}) => oddVmi({ spec: { domain: domain(more) } }) as ApiObject & { spec: Json };
  /** As fill leaves it without the features. */
  const old = () => {
    const object = made();
    const plain = structuredClone(object) as ApiObject & { spec: { domain: Json } };
    const { features } = plain.spec.domain;
    plain.spec.domain = { ...plain.spec.domain, features: {} };
    vmiAdmission.fill?.(plain, context());
    plain.spec.domain = { ...plain.spec.domain, features };
    return plain;
  };

  test('stay what they are in a write of something else', () => {
    const next = { ...structuredClone(old()), status: { phase: 'Running' } };
    vmiAdmission.fill?.(next, context({ old: old(), privileged: true }));
    assert.deepEqual(next.spec, old().spec);
  });

  test('are filled in by a write that names them, and one of the same manifest changes nothing', () => {
    const next = { ...structuredClone(old()), spec: made({ ipi: { enabled: true } }).spec };
    vmiAdmission.fill?.(next, context({ old: old() }));
    const { features, cpu } = (next.spec as { domain: { features: Json; cpu: Json } }).domain;
    const on = { enabled: true };
    assert.deepEqual(features.hyperv, { synic: on, evmcs: {}, ipi: on, vpindex: on });
    assert.deepEqual(cpu.features, [{ name: 'vmx', policy: 'require' }]);
    const again = { ...structuredClone(next), spec: made({ ipi: { enabled: true } }).spec };
    vmiAdmission.fill?.(again, context({ old: next }));
    assert.deepEqual(again.spec, next.spec);
  });
});
