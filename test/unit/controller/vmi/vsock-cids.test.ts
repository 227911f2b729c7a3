import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectVmi } from '../../../../src/controller/vmi/project.ts';
import { VsockCids } from '../../../../src/controller/vmi/vsock-cids.ts';
import { buildRunningPod, buildVmi, buildVmiFacts } from '../builders.ts';

const last = 0xffff_fffe;
const named = (name: string, VSOCKCID?: number) => buildVmi({}, VSOCKCID === undefined ? {} : { VSOCKCID }, { name });

function cids(random: number, ...stored: number[]): VsockCids {
  const vmis = stored.map((cid) => named(`vm-${cid}`, cid));
  return new VsockCids({ vmis: { list: () => vmis }, random: () => random });
}

test('no guest gets an address of the hypervisor, of the host or of all', () => {
  assert.equal(cids(0).give(named('a')), 3);
  assert.equal(cids(1 - Number.EPSILON / 2).give(named('a')), last);
});

test('what another guest has is passed over, and so is what was just given', () => {
  const given = cids(0, 3, 4);
  assert.deepEqual([given.give(named('a')), given.give(named('b')), given.give(named('a'))], [5, 6, 5]);
  assert.equal(cids(1 - Number.EPSILON / 2, last).give(named('a')), 3, 'after the last comes the first');
});

test('the address of a guest that is no more may be given again', () => {
  const given = cids(0);
  given.give(named('a'));
  given.forget('default/a');
  assert.equal(given.give(named('b')), 3);
});

function handedOver(autoattachVSOCK: boolean | undefined, VSOCKCID?: number): number | undefined {
  const devices = autoattachVSOCK === undefined ? {} : { autoattachVSOCK };
  const spec = { domain: { memory: { guest: '128Mi' }, devices } };
  const status = { phase: 'Scheduling' as const, ...(VSOCKCID !== undefined && { VSOCKCID }) };
  const vmi = buildVmi(spec, status, { finalizers: ['kubevirt.io/foregroundDeleteVirtualMachine'] });
  const seen = buildVmiFacts({ vmi, pod: buildRunningPod() });
  return projectVmi(seen, { randomUuid: () => '', vsockCid: () => 4711 }).status?.VSOCKCID;
}

test('a guest on VSOCK has its address before its node hears of it, and keeps it', () => {
  assert.deepEqual([handedOver(true), handedOver(true, 99)], [4711, 99]);
  assert.deepEqual([handedOver(false), handedOver(undefined)], [undefined, undefined]);
});
