import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { vmiProblem } from '../../../../src/controller/vmi/check.ts';
import { vmiPatch, writeVmi } from '../../../../src/controller/vmi/write.ts';
import { KubeError, type KubeErrorCode } from '../../../../src/kube/index.ts';
import { buildVmi } from '../builders.ts';

const signal = new AbortController().signal;

/** Notes what is called; `get` gives the newest state. */
function client(answer: () => unknown) {
  const calls: string[] = [];
  const seen: VirtualMachineInstance[] = [];
  const newest = buildVmi({}, { phase: 'Running' }, { resourceVersion: '99' });
  const call = (name: string) => async () => {
    calls.push(name);
    return answer();
  };
  return {
    calls,
    seen,
    newest,
    deps: {
      client: { update: call('update'), patch: call('patch'), get: async () => newest },
      saw: (newer: VirtualMachineInstance) => void seen.push(newer),
      signal,
    } as unknown as Parameters<typeof writeVmi>[2],
  };
}

const changed = (vmi: VirtualMachineInstance) => ({ ...vmi, metadata: { ...vmi.metadata, labels: { a: 'b' } } });

test('an unchanged VMI is not written, in any phase', async () => {
  for (const phase of ['Pending', 'Running'] as const) {
    const { calls, deps } = client(() => undefined);
    const vmi = buildVmi({}, { phase });
    assert.deepEqual(await writeVmi(vmi, structuredClone(vmi), deps), { kind: 'unchanged', note: vmi });
    assert.deepEqual(calls, []);
  }
});

for (const [phase, method] of [
  ['Pending', 'update'],
  ['Scheduling', 'update'],
  ['Scheduled', 'patch'],
  ['Running', 'patch'],
  ['Failed', 'update'],
] as const) {
  test(`a ${phase} VMI is written by ${method}`, async () => {
    const { calls, deps } = client(() => ({}));
    const vmi = buildVmi({}, { phase });
    assert.equal((await writeVmi(vmi, changed(vmi), deps)).kind, 'written');
    assert.deepEqual(calls, [method]);
  });
}

const refusing = (code: KubeErrorCode) =>
  client(() => {
    throw new KubeError(code, 'no');
  });

for (const [code, phase] of [
  ['CONFLICT', 'Pending'],
  ['INVALID', 'Running'],
] as const) {
  test(`${code} on a ${phase} VMI means that others wrote: the newest state is known afterwards`, async () => {
    const { deps, seen, newest } = refusing(code);
    const vmi = buildVmi({}, { phase });
    assert.deepEqual(await writeVmi(vmi, changed(vmi), deps), { kind: 'outdated' });
    assert.deepEqual(seen, [newest]);
  });
}

test('a VMI that is no more is not written', async () => {
  const vmi = buildVmi({}, { phase: 'Pending' });
  assert.deepEqual(await writeVmi(vmi, changed(vmi), refusing('NOT_FOUND').deps), { kind: 'gone' });
});

test('a refused PUT is no conflict, and an API server without an answer is an error', async () => {
  const vmi = buildVmi({}, { phase: 'Pending' });
  assert.equal((await writeVmi(vmi, changed(vmi), refusing('INVALID').deps)).kind, 'refused');
  await assert.rejects(writeVmi(vmi, changed(vmi), refusing('TIMEOUT').deps), { code: 'TIMEOUT' });
});

test('a patch tests the phase and what it replaces, and adds what was not there', () => {
  const old = buildVmi({}, { phase: 'Running', activePods: { a: 'n' } });
  const wanted = structuredClone(old);
  wanted.status = { ...wanted.status, activePods: { b: 'n' }, qosClass: 'Burstable' };
  assert.deepEqual(vmiPatch(old, wanted), [
    { op: 'test', path: '/status/phase', value: 'Running' },
    { op: 'test', path: '/status/activePods', value: { a: 'n' } },
    { op: 'replace', path: '/status/activePods', value: { b: 'n' } },
    { op: 'add', path: '/status/qosClass', value: 'Burstable' },
  ]);
});

test('a patch leaves alone what only the agent writes', () => {
  const old = buildVmi({}, { phase: 'Running', guestOSInfo: { name: 'Linux' } });
  assert.deepEqual(vmiPatch(old, { ...old, status: { ...old.status, guestOSInfo: {} } }), []);
});

const malformed: readonly (readonly [string, unknown, RegExp])[] = [
  ['no spec', undefined, /spec is missing/],
  ['a domain that is a text', { domain: 'big' }, /spec.domain must be an object/],
  ['volumes that are no list', { domain: {}, volumes: {} }, /spec.volumes must be a list/],
  ['a volume without a name', { domain: {}, volumes: [{}] }, /spec.volumes\[0\] needs a name/],
  ['a null volume', { domain: {}, volumes: [null] }, /spec.volumes\[0\] needs a name/],
  ['two volumes of a name', { domain: {}, volumes: [{ name: 'a' }, { name: 'a' }] }, /two of the name a/],
  [
    'a disk without volume',
    { domain: { devices: { disks: [{ name: 'x', disk: {} }] } } },
    /disk x: spec.volumes has no/,
  ],
  [
    'a container disk without image',
    { domain: {}, volumes: [{ name: 'a', containerDisk: {} }] },
    /containerDisk.image is missing/,
  ],
  ['an interface without network', { domain: { devices: { interfaces: [{ name: 'i' }] } } }, /interface i/],
  ['no memory', { domain: {} }, /memory.guest is missing/],
];
for (const [what, spec, message] of malformed) {
  test(`the form is refused with words that help, for ${what}`, () => {
    assert.match(vmiProblem({ ...buildVmi(), spec } as VirtualMachineInstance) ?? '', message);
  });
}

test('a VMI without disks and an empty CD-ROM drive are fine', () => {
  assert.equal(vmiProblem(buildVmi()), undefined);
  const drive = buildVmi({ domain: { memory: { guest: '1Gi' }, devices: { disks: [{ name: 'cd', cdrom: {} }] } } });
  assert.equal(vmiProblem(drive), undefined);
});
