import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { VirtualMachine } from '../../../../src/api/index.ts';
import { cloneOf } from '../../../../src/web/page/clone-model.ts';
import {
  claimToMake,
  cloudConfig,
  fieldAt,
  formOf,
  instancetypeSize,
  newVm,
  type VmForm,
  withForm,
} from '../../../../src/web/page/vm-form.ts';
import { lineOf, parseYaml, yamlText } from '../../../../src/web/page/yaml-text.ts';

const debian = { reference: 'my/debian:12', boots: 'disk', sizeBytes: 1 } as const;
const demo = { reference: 'virt-node/demo', boots: 'kernel', sizeBytes: 1 } as const;
const images = [debian, demo];
const empty = newVm(debian);

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/);
const anyForm: fc.Arbitrary<VmForm> = fc.record({
  name: word,
  namespace: word,
  isStarted: fc.boolean(),
  instancetype: fc.constant(''),
  preference: fc.oneof(
    fc.constant(''),
    word.map((name) => `VirtualMachinePreference/${name}`),
  ),
  cores: fc.constantFrom('1', '8', 'many'),
  memory: fc.constantFrom('1Gi', '512Mi', 'wrong'),
  firmware: fc.constantFrom('bios', 'efi'),
  source: fc.constantFrom('image', 'iso', 'claim', 'copy', 'address', 'clone'),
  image: fc.constantFrom('my/debian:12', 'my/other'),
  claim: word,
  url: word.map((name) => `https://example.org/${name}`),
  rootSize: fc.constantFrom('5Gi', '20Gi'),
  disk: fc.constantFrom('none', 'scratch', 'claim'),
  diskSize: fc.constantFrom('1Gi', '20Gi'),
  diskClaim: word,
  network: fc.constantFrom('pod', 'none'),
  userData: fc.constantFrom('', '#cloud-config\n'),
});

test('what is put into the form is what it shows, also after the way through YAML', () => {
  fc.assert(
    fc.property(anyForm, (form) => {
      const vm = withForm(empty, form, images);
      const parsed = parseYaml(yamlText(vm));
      assert.equal(parsed.kind, 'object');
      const shown = formOf(parsed.kind === 'object' ? (parsed.value as unknown as VirtualMachine) : empty);
      // Fields that the choices leave no room for.
      const hidden: Partial<VmForm> = {
        ...(!['image', 'iso', 'copy'].includes(form.source) && { image: '' }),
        ...(!['claim', 'clone'].includes(form.source) && { claim: '' }),
        ...(form.source !== 'address' && { url: '' }),
        ...(!['copy', 'address', 'clone'].includes(form.source) && { rootSize: '' }),
        ...(form.disk !== 'scratch' && { diskSize: '' }),
        ...(form.disk !== 'claim' && { diskClaim: '' }),
      };
      assert.deepEqual(shown, { ...form, ...hidden });
    }),
  );
});

test('a disk of its own is a DataVolume of the machine, renamed with it, and goes from the templates with another choice', () => {
  const source = (form: Partial<VmForm>) => {
    const { spec } = withForm(withForm(empty, { name: 'a' }), form, images);
    const root = spec.template?.spec.volumes?.find(({ name }) => name === 'root');
    return [spec.dataVolumeTemplates, root?.dataVolume?.name];
  };
  const made = (name: string, from: object, storage: object) => [
    [{ metadata: { name }, spec: { source: from, storage } }],
    name,
  ];
  const sized = { resources: { requests: { storage: '5Gi' } } };
  const address = { source: 'address', url: 'https://example.org/d', rootSize: '5Gi' } as const;
  assert.deepEqual(source(address), made('a-root', { http: { url: address.url } }, sized));
  assert.deepEqual(
    source({ source: 'copy', image: 'my/debian:12', rootSize: '5Gi' }),
    made('a-root', { registry: { url: 'docker://my/debian:12' } }, sized),
  );
  const clone = { source: 'clone', claim: 'golden', rootSize: '' } as const;
  assert.deepEqual(source(clone), made('a-root', { pvc: { namespace: 'default', name: 'golden' } }, {}));
  const renamed = withForm(withForm(withForm(empty, { name: 'a' }), clone), { name: 'b', namespace: 'other' });
  assert.deepEqual(renamed.spec.dataVolumeTemplates, [
    { metadata: { name: 'b-root' }, spec: { source: { pvc: { namespace: 'other', name: 'golden' } }, storage: {} } },
  ]);
  assert.equal(
    withForm(renamed, { source: 'image', image: 'my/debian:12' }, images).spec.dataVolumeTemplates,
    undefined,
  );
  assert.equal(fieldAt('spec.dataVolumeTemplates[0].spec.source.http.url'), 'url');
});

test('a change of one field leaves all else of the object alone, and the object that was given', () => {
  const { spec } = withForm(empty, { name: 'a', disk: 'scratch', diskSize: '1Gi' });
  const vm = { ...empty, metadata: { name: 'a', labels: { x: 'y' } }, spec: { ...spec, more: { kept: true } } };
  vm.spec.template.spec.domain.devices = { ...vm.spec.template.spec.domain.devices, tpm: {} };
  const before = JSON.stringify(vm);
  fc.assert(
    fc.property(anyForm, (form) => {
      const changed = withForm(vm, form, images);
      assert.equal(JSON.stringify(vm), before);
      assert.deepEqual(changed.metadata.labels, { x: 'y' });
      assert.deepEqual(changed.spec.more, { kept: true });
      assert.deepEqual(changed.spec.template.spec.domain.devices?.tpm, {});
    }),
  );
  assert.equal(JSON.stringify(withForm(vm, {})), before);
});

test('a kernel with its RAM disk is booted by name, and needs no disk; another image has one again', () => {
  const vm = withForm(newVm(demo), { name: 'a' }, images);
  const { domain, volumes } = vm.spec.template.spec;
  assert.equal(domain.firmware?.kernelBoot?.container?.image, 'virt-node/demo');
  assert.deepEqual(volumes, []);
  const other = withForm(vm, { image: 'my/debian:12' }, images).spec.template.spec;
  assert.equal(other.domain.firmware, undefined);
  assert.deepEqual(other.volumes, [{ name: 'root', containerDisk: { image: 'my/debian:12' } }]);
});

test('an ISO is booted after the disk that it installs onto', () => {
  const vm = withForm(empty, { source: 'iso', image: 'my/iso', disk: 'claim', diskClaim: 'c' });
  const order = (vm.spec.template.spec.domain.devices?.disks ?? []).map(({ name, bootOrder }) => [name, bootOrder]);
  assert.deepEqual(order.sort(), [
    ['disk', 1],
    ['iso', 2],
  ]);
});

test('an instance type says CPUs and memory in place of the VM; without one they are its own again', () => {
  const typed = withForm(empty, { instancetype: 'VirtualMachineClusterInstancetype/small' });
  assert.deepEqual(typed.spec.instancetype, { kind: 'VirtualMachineClusterInstancetype', name: 'small' });
  assert.deepEqual(
    [typed.spec.template.spec.domain.cpu, typed.spec.template.spec.domain.memory],
    [undefined, undefined],
  );
  const { domain } = withForm(typed, { instancetype: '' }).spec.template.spec;
  assert.deepEqual([domain.cpu, domain.memory], [{ cores: 1 }, { guest: '1Gi' }]);
});

test('a claim that is there is not made again; the own one follows the name', () => {
  const vm = withForm(withForm(empty, { name: 'a', disk: 'claim', diskClaim: 'a-disk' }), { name: 'b' });
  const form = formOf(vm);
  assert.equal(form.diskClaim, 'b-disk');
  assert.equal(claimToMake(form, '5Gi', ['b-disk']), undefined);
  assert.deepEqual(claimToMake(form, '5Gi', []), {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'b-disk', namespace: 'default' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '5Gi' } } },
  });
});

test('user data says user, password and keys as they are, whatever is in them', () => {
  const text = fc.string({ minLength: 1 });
  fc.assert(
    fc.property(text, text, (user, password) => {
      const { user: read, password: secret } = parse(cloudConfig({ user, password, key: '' }));
      assert.deepEqual([read, secret], [user, password]);
    }),
  );
  const keys = parse(cloudConfig({ user: '', password: '', key: ' ssh-ed25519 AAAA me: # x \n\nssh-rsa B' }));
  assert.deepEqual(keys, { ssh_authorized_keys: ['ssh-ed25519 AAAA me: # x', 'ssh-rsa B'] });
  assert.equal(cloudConfig({ user: '', password: '', key: '\n' }), '');
});

test('a path of the API is that of a field and of what is in it, not of one that begins alike', () => {
  assert.equal(fieldAt('spec.template.spec.domain.memory.guest'), 'memory');
  assert.equal(fieldAt('spec.template.spec.domain.cpu'), 'cores');
  assert.equal(fieldAt('spec.template.spec.domain.cpus'), undefined);
  assert.equal(fieldAt('spec.template.spec.volumes[0].name'), undefined);
});

test('the line of a field that is missing is that of what it would be in', () => {
  const text = 'spec:\n  domain:\n    devices:\n      disks:\n        - name: a\n        - name: b\n';
  assert.equal(lineOf(text, 'spec.domain.devices.disks[1].name'), 6);
  assert.equal(lineOf(text, 'spec.domain.devices.disks[1].bootOrder'), 6);
  assert.equal(lineOf(text, 'spec.domain.cpu.cores'), 3);
  assert.equal(lineOf(text, 'status'), undefined);
});

test('a text that is no YAML, or no object, has its line and the reason; a bomb of aliases is refused', () => {
  const problem = (text: string) => {
    const parsed = parseYaml(text);
    return parsed.kind === 'problem' ? parsed.line : 'object';
  };
  assert.equal(problem('a: 1\nb: [\n'), 3);
  assert.equal(problem('- a'), 1);
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x]',
    'b: &b [*a,*a,*a,*a,*a,*a,*a,*a]',
    'c: &c [*b,*b,*b,*b,*b,*b,*b,*b]',
    'd: [*c,*c,*c]',
  ];
  assert.match(JSON.stringify(parseYaml(bomb.join('\n'))), /Excessive alias count/);
  assert.match(JSON.stringify(parseYaml('only words')), /this is no object/);
});

test('a clone keeps what it is and drops who it is; what it shares with the original is said', () => {
  const original = withForm(withForm(empty, { name: 'db', disk: 'claim', diskClaim: 'db-data' }), { isStarted: true });
  const { template } = original.spec;
  template.metadata = { labels: { 'kubevirt.io/vm': 'db', tier: 'back' } };
  template.spec.hostname = 'db';
  template.spec.domain.firmware = { uuid: 'u-1', serial: 's-1' };
  template.spec.volumes?.push(
    { name: 'own', dataVolume: { name: 'db-root' } },
    { name: 'f', hostDisk: { path: '/d', type: 'Disk' } },
  );
  const spec = { ...original.spec, dataVolumeTemplates: [{ metadata: { name: 'db-root' }, spec: {} }] };
  const metadata = {
    ...{ name: 'db', namespace: 'prod', uid: 'u', resourceVersion: '7', labels: { a: 'b' } },
    annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}', note: 'mine' },
  };
  const { vm, remarks } = cloneOf({ ...original, metadata, spec, status: { created: true } }, 'db2');
  assert.deepEqual(vm.metadata, { name: 'db2', namespace: 'prod', labels: { a: 'b' }, annotations: { note: 'mine' } });
  assert.deepEqual([vm.status, vm.spec.runStrategy, vm.spec.template.spec.hostname], [undefined, 'Halted', undefined]);
  assert.deepEqual(vm.spec.template.metadata?.labels, { 'kubevirt.io/vm': 'db2', tier: 'back' });
  assert.doesNotMatch(JSON.stringify(vm), /u-1|s-1/);
  const volumes = vm.spec.template.spec.volumes ?? [];
  assert.deepEqual(volumes.find(({ name }) => name === 'own')?.dataVolume, { name: 'db2-root' });
  assert.deepEqual(remarks.slice(1), [
    'The DataVolume db2-root is made anew from its source: what was written since is not in it.',
    'It would have the claim db-data of the original: choose another, or never run both at once.',
    'It would have the file /d of the original: choose another, or never run both at once.',
  ]);
  assert.equal(original.spec.runStrategy, 'Always');
});

test('an instance type says what it gives; one with anything in place of that says nothing', () => {
  const sizeOf = (spec: unknown) => instancetypeSize({ spec });
  assert.equal(sizeOf({ cpu: { guest: 2 }, memory: { guest: '4Gi' } }), '2 CPUs, 4Gi of memory');
  assert.equal(sizeOf({ cpu: { guest: 1 }, memory: {} }), '1 CPU');
  for (const odd of [undefined, null, 'x', { cpu: 5, memory: [{}] }, { cpu: { guest: {} } }])
    assert.equal(sizeOf(odd), '');
});
