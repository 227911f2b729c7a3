import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDomainCapabilities } from '../../../../../src/agent/node/labels/documents.ts';
import { explainLabels } from '../../../../../src/agent/node/labels/explain.ts';
import { type Known, type LabelFacts, mapKnown } from '../../../../../src/agent/node/labels/facts.ts';
import { labelFamilies } from '../../../../../src/agent/node/labels/families.ts';
import { owns } from '../../../../../src/agent/node/labels/family.ts';
import { changesOf, planLabels } from '../../../../../src/agent/node/labels/plan.ts';
import { defaults, factsOf } from './facts.ts';

const intel = factsOf('intel-cascadelake', 'amd64');
const unknown = (because: string): Known<never> => ({ kind: 'unknown', because });
const keys = (facts: LabelFacts, settings = defaults) => [...planLabels(facts, settings).labels.keys()];
const below = (prefix: string, facts: LabelFacts, settings = defaults) =>
  keys(facts, settings)
    .filter((key) => key.startsWith(prefix))
    .map((key) => key.slice(prefix.length));

test('a model is offered when guests can use it and nobody calls it obsolete; for migrations it need only be known', () => {
  const models = below('cpu-model.node.kubevirt.io/', intel);
  assert.ok(models.includes('Cascadelake-Server-noTSX'));
  assert.ok(!models.includes('Cascadelake-Server'), 'usable="no"');
  assert.ok(!models.includes('Conroe'), 'usable, but in the built-in list');
  const migration = below('cpu-model-migration.node.kubevirt.io/', intel);
  assert.ok(migration.includes('Cascadelake-Server'));
  assert.ok(!migration.includes('Conroe'));
});

test('obsolete models of the KubeVirt object take the place of the built-in list, also when they are none', () => {
  const some = { ...defaults, obsoleteModels: ['Cascadelake-Server-noTSX'] };
  const models = below('cpu-model.node.kubevirt.io/', intel, some);
  assert.ok(models.includes('Conroe'));
  assert.ok(!models.includes('Cascadelake-Server-noTSX'));
  assert.ok(keys(intel, some).includes('node-labeller.kubevirt.io/obsolete-host-model'));
  const none = { ...defaults, obsoleteModels: [] };
  assert.ok(below('cpu-model.node.kubevirt.io/', intel, none).includes('Conroe'));
  assert.ok(!keys(intel, none).includes('node-labeller.kubevirt.io/obsolete-host-model'));
});

test('a host model without a name makes no label, and its features none either', () => {
  for (const model of ["<mode name='host-model' supported='no'/>", "<mode name='host-model'><model/></mode>"]) {
    const xml = `<domainCapabilities><cpu>${model}<mode name='custom'/></cpu></domainCapabilities>`;
    const facts = { ...intel, domain: mapKnown(intel.domain, () => readDomainCapabilities(xml)) };
    assert.deepEqual(below('host-model-', facts), []);
    assert.deepEqual(below('cpu-vendor.', facts), []);
    const report = explainLabels(planLabels(facts, defaults), {}, { node: 'present', problem: undefined });
    const reported = report.notHere.find(({ key }) => key === 'host-model-cpu.node.kubevirt.io/');
    assert.equal(reported?.because, 'virsh_domcapabilities.xml names no host model');
  }
});

test('SEV-ES needs guests for it, and SEV-SNP both of them', () => {
  const sev = (features: string) => {
    const xml = `<domainCapabilities><cpu><mode name='custom'/></cpu><features>${features}</features></domainCapabilities>`;
    return below('kubevirt.io/', { ...intel, domain: mapKnown(intel.domain, () => readDomainCapabilities(xml)) });
  };
  const snp = `<launchSecurity supported='yes'><enum name='sectype'><value>sev-snp</value></enum></launchSecurity>`;
  const [none, some] = ['<maxESGuests>0</maxESGuests>', '<maxESGuests>9</maxESGuests>'];
  assert.deepEqual(sev(`<sev supported='no'>${some}</sev>${snp}`), []);
  assert.deepEqual(sev(`<sev supported='yes'>${none}</sev>${snp}`), ['sev']);
  assert.deepEqual(sev(`<sev supported='yes'>${some}</sev>`), ['sev', 'sev-es']);
  assert.deepEqual(sev(`<sev supported='yes'>${some}</sev>${snp}`), ['sev', 'sev-es', 'sev-snp']);
  assert.deepEqual(sev("<tdx supported='yes'/><s390-pv supported='yes'/>"), ['tdx', 's390-pv']);
});

test('architectures of guests are told with the gate only', () => {
  const facts: LabelFacts = { ...intel, foreignArchs: { kind: 'known', value: ['arm64'], from: 'its file' } };
  assert.deepEqual(below('kubevirt.io/vm-arch-', facts), []);
  assert.deepEqual(below('kubevirt.io/vm-arch-', facts, { ...defaults, crossArchitecture: true }), ['amd64', 'arm64']);
});

test('a node of a cluster with unlimited real-time threads says so', () => {
  const facts: LabelFacts = { ...intel, realtime: { kind: 'known', value: true, from: 'sched_rt_runtime_us' } };
  assert.ok(keys(facts).includes('kubevirt.io/realtime'));
  assert.ok(!keys(intel).includes('kubevirt.io/realtime'));
});

test('a node that has all its labels and those of others needs no change', () => {
  const plan = planLabels(intel, defaults);
  const others = {
    'kubernetes.io/arch': 'amd64',
    'kubevirt.io/schedulable': 'true',
    'kubevirt.io/sev-something-else': 'true',
    'scheduling.node.kubevirt.io/tsc-frequency-2494132000': 'true',
    'feature.node.kubernetes.io/cpu-model': 'x',
  };
  assert.equal(changesOf(plan, { ...Object.fromEntries(plan.labels), ...others }), undefined);
});

test('only what differs is changed: missing labels are set, wrong values put right, stale ones taken away', () => {
  const plan = planLabels(intel, defaults);
  const present: Record<string, string> = {
    ...Object.fromEntries(plan.labels),
    'cpu-vendor.node.kubevirt.io/AMD': 'true',
    'kubevirt.io/s390-pv': 'true',
    'cpu-timer.node.kubevirt.io/tsc-scalable': 'false',
    'mine.example.com/x': 'y',
  };
  delete present['machine-type.node.kubevirt.io/q35'];
  assert.deepEqual(changesOf(plan, present), {
    'machine-type.node.kubevirt.io/q35': 'true',
    'cpu-timer.node.kubevirt.io/tsc-scalable': 'true',
    'cpu-vendor.node.kubevirt.io/AMD': null,
    'kubevirt.io/s390-pv': null,
  });
});

test('labels of a source about which nothing is known stay as they are, the others are put right', () => {
  const facts = { ...intel, domain: unknown('virsh_domcapabilities.xml: it is empty') };
  const changes = changesOf(planLabels(facts, defaults), {
    'cpu-model.node.kubevirt.io/Haswell': 'true',
    'cpu-vendor.node.kubevirt.io/AMD': 'true',
    'kubevirt.io/sev': 'true',
    'machine-type.node.kubevirt.io/pc-0.1': 'true',
  });
  assert.equal(changes?.['machine-type.node.kubevirt.io/pc-0.1'], null);
  assert.equal(changes?.['machine-type.node.kubevirt.io/q35'], 'true');
  assert.deepEqual(
    Object.keys(changes ?? {}).filter((key) => /cpu-model|cpu-vendor|sev/.test(key)),
    [],
  );
});

test('no label belongs to two families', () => {
  for (const host of ['intel-cascadelake', 'amd-milan-snp', 's390x-z16'] as const) {
    const facts = factsOf(host, host === 's390x-z16' ? 's390x' : 'amd64');
    for (const key of keys(facts, { obsoleteModels: ['EPYC-Milan'], crossArchitecture: true })) {
      assert.equal(labelFamilies.filter((family) => owns(family, key)).length, 1, key);
    }
  }
});

test('names that are no label keys are left out and told', () => {
  const names = ['', 'a b', '-x', 'x-', 'ä', 'a/b', '__proto__', 'x'.repeat(64), '../../etc', 'constructor', 'ok'];
  const facts: LabelFacts = { ...intel, features: { kind: 'known', value: names, from: 'supported_features.xml' } };
  const plan = planLabels(facts, defaults);
  assert.deepEqual(below('cpu-feature.node.kubevirt.io/', facts), ['constructor', 'ok']);
  const { notHere } = explainLabels(plan, {}, { node: 'present', problem: undefined });
  const reported = notHere.find(({ key }) => key === 'cpu-feature.node.kubevirt.io/a b');
  assert.equal(reported?.because, 'Kubernetes does not take it as a label');
});

test('each label of ours is explained, here or not, and those of others are left out', () => {
  const plan = planLabels({ ...intel, machine: unknown('capabilities.xml: it is not there') }, defaults);
  const present = {
    ...Object.fromEntries(plan.labels),
    'cpu-vendor.node.kubevirt.io/AMD': 'true',
    'machine-type.node.kubevirt.io/q35': 'true',
    'kubernetes.io/arch': 'amd64',
  };
  const report = explainLabels(plan, present, { node: 'present', problem: undefined });
  const at = (key: string) => [...report.here, ...report.notHere].find((one) => one.key === key);
  assert.deepEqual(at('cpu-model.node.kubevirt.io/Cascadelake-Server-noTSX'), {
    key: 'cpu-model.node.kubevirt.io/Cascadelake-Server-noTSX',
    value: 'true',
    state: 'right',
    because: 'virsh_domcapabilities.xml says that guests can use it',
  });
  assert.deepEqual(at('cpu-model.node.kubevirt.io/Cascadelake-Server'), {
    key: 'cpu-model.node.kubevirt.io/Cascadelake-Server',
    state: 'right',
    because: 'virsh_domcapabilities.xml says that guests cannot use it on this machine',
  });
  assert.deepEqual(at('cpu-vendor.node.kubevirt.io/AMD'), {
    key: 'cpu-vendor.node.kubevirt.io/AMD',
    value: 'true',
    state: 'pending',
    because: 'nothing on this machine asks for it any more',
  });
  assert.deepEqual(at('machine-type.node.kubevirt.io/q35'), {
    key: 'machine-type.node.kubevirt.io/q35',
    value: 'true',
    state: 'kept',
    because: 'capabilities.xml: it is not there: it is left as it is',
  });
  assert.equal(at('kubevirt.io/sev')?.because, 'virsh_domcapabilities.xml does not offer SEV');
  assert.equal(at('kubernetes.io/arch'), undefined);
});
