import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readHostDevices } from '../../../../../src/agent/node/devices/host-devices.ts';

const nothing = { pci: [], mediated: [], usb: [] };

describe('permittedHostDevices', () => {
  it('permits nothing when it is not there', () => {
    assert.deepEqual(readHostDevices(undefined), { devices: nothing, problems: [] });
  });

  it('is read with several selectors for one resource', () => {
    const { devices, problems } = readHostDevices({
      pciHostDevices: [
        { pciVendorSelector: '10DE:1EB8', resourceName: 'nvidia.com/gpu' },
        { pciVendorSelector: '10de:1eb9', resourceName: 'nvidia.com/gpu' },
        { pciVendorSelector: '8086:6F54', resourceName: 'intel.com/qat' },
      ],
      mediatedDevices: [{ mdevNameSelector: 'GRID T4-1Q', resourceName: 'nvidia.com/GRID_T4-1Q' }],
      usb: [
        {
          resourceName: 'kubevirt.io/storage',
          selectors: [
            { vendor: '46F4', product: '0001' },
            { vendor: '46f4', product: '2' },
          ],
        },
      ],
    });
    assert.deepEqual(problems, []);
    assert.deepEqual(devices, {
      pci: [
        { resource: 'nvidia.com/gpu', selectors: ['10de:1eb8', '10de:1eb9'] },
        { resource: 'intel.com/qat', selectors: ['8086:6f54'] },
      ],
      mediated: [{ resource: 'nvidia.com/GRID_T4-1Q', types: ['GRID_T4-1Q'] }],
      usb: [
        {
          resource: 'kubevirt.io/storage',
          sets: [
            [
              { vendor: 0x46f4, product: 1 },
              { vendor: 0x46f4, product: 2 },
            ],
          ],
        },
      ],
    });
  });

  it('leaves to others what others provide', () => {
    const entry = { pciVendorSelector: '10DE:1EB8', resourceName: 'nvidia.com/gpu', externalResourceProvider: true };
    assert.deepEqual(readHostDevices({ pciHostDevices: [entry] }), { devices: nothing, problems: [] });
  });

  const good = { pciVendorSelector: '1af4:1000', resourceName: 'example.com/good' };
  const malformed: [string, object, RegExp][] = [
    [
      'a selector of another form',
      { pciVendorSelector: '10DE-1EB8', resourceName: 'a.b/c' },
      /\[0\]: pciVendorSelector/,
    ],
    ['no selector', { resourceName: 'a.b/c' }, /pciVendorSelector undefined/],
    ['a resource without domain', { pciVendorSelector: '10DE:1EB8', resourceName: 'gpu' }, /example\.com\/name/],
    ['a resource with a path', { pciVendorSelector: '10DE:1EB8', resourceName: '../../etc/x' }, /example\.com\/name/],
    ['a resource that is no text', { pciVendorSelector: '10DE:1EB8', resourceName: 7 }, /7 is no text/],
    [
      'a domain of Kubernetes',
      { pciVendorSelector: '10DE:1EB8', resourceName: 'kubernetes.io/gpu' },
      /Kubernetes' own/,
    ],
    [
      "a resource of KubeVirt's own",
      { pciVendorSelector: '10DE:1EB8', resourceName: 'devices.kubevirt.io/kvm' },
      /KubeVirt's own/,
    ],
  ];
  for (const [title, entry, problem] of malformed) {
    it(`leaves out only the entry with ${title}`, () => {
      const { devices, problems } = readHostDevices({ pciHostDevices: [entry, good] });
      assert.deepEqual(devices.pci, [{ resource: 'example.com/good', selectors: ['1af4:1000'] }]);
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', problem);
    });
  }

  it("takes other names in KubeVirt's domain: clusters have disks under such a name", () => {
    const { devices, problems } = readHostDevices({
      pciHostDevices: [{ pciVendorSelector: '8086:5845', resourceName: 'devices.kubevirt.io/nvme' }],
    });
    assert.deepEqual(problems, []);
    assert.deepEqual(devices.pci, [{ resource: 'devices.kubevirt.io/nvme', selectors: ['8086:5845'] }]);
  });

  it('says which list is none, which mediated device names no type and which USB set cannot be used', () => {
    const { devices, problems } = readHostDevices({
      pciHostDevices: 'all',
      mediatedDevices: [{ mdevNameSelector: ' ', resourceName: 'a.b/m' }, null],
      usb: [
        { resourceName: 'a.b/u', selectors: [] },
        { resourceName: 'a.b/v', selectors: [{ vendor: '046d', product: 'mouse' }] },
      ],
    });
    assert.deepEqual(devices, nothing);
    assert.deepEqual(
      problems.map((each) => each.slice(0, 45)),
      [
        'permittedHostDevices.pciHostDevices is no lis',
        'permittedHostDevices.mediatedDevices[0]: mdev',
        'permittedHostDevices.mediatedDevices[1]: reso',
        'permittedHostDevices.usb[0]: it has no select',
        'permittedHostDevices.usb[1]: selectors [{"ven',
      ],
    );
  });

  it('gives a resource to one list only', () => {
    const { devices, problems } = readHostDevices({
      pciHostDevices: [good],
      mediatedDevices: [{ mdevNameSelector: 'T4', resourceName: 'example.com/good' }],
    });
    assert.equal(devices.pci.length, 1);
    assert.deepEqual(devices.mediated, []);
    assert.match(problems[0] ?? '', /is in pciHostDevices already/);
  });

  it('of any shape never throws and permits only well-formed resources', () => {
    const entry = fc.oneof(
      fc.jsonValue(),
      fc.record({ resourceName: fc.oneof(fc.string(), fc.constant('a.b/c')), pciVendorSelector: fc.jsonValue() }),
    );
    const permitted = fc.record({
      pciHostDevices: fc.array(entry),
      mediatedDevices: fc.array(entry),
      usb: fc.array(entry),
    });
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), permitted), (given) => {
        const { pci, mediated, usb } = readHostDevices(given).devices;
        for (const { resource } of [...pci, ...mediated, ...usb]) assert.match(resource, /^[a-z0-9.-]+\/[\w.-]+$/);
      }),
    );
  });
});

it('a resource name that is nested without end is refused in words, and the others count', () => {
  let name: unknown = [];
  for (let level = 0; level < 20_000; level++) name = [name];
  const { devices, problems } = readHostDevices({
    pciHostDevices: [{ resourceName: name }, { resourceName: 'example.com/gpu', pciVendorSelector: '10de:1eb8' }],
  });
  assert.deepEqual(devices.pci, [{ resource: 'example.com/gpu', selectors: ['10de:1eb8'] }]);
  assert.match(problems.join(), /resourceName \(nested deeper than 16 levels\) is no text/);
});
