import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VmCounters } from '../../../../../src/agent/serve/metrics/vm-counters.ts';
import type { DomainView } from '../../../../../src/api/index.ts';
import { labelText } from '../../../../../src/serving/index.ts';
import { domainOf, vmiOf } from '../../../../fixtures/agent/builders.ts';

function world() {
  let vmi: ReturnType<typeof vmiOf> | undefined = vmiOf('Running');
  let view: DomainView = { kind: 'absent' };
  const listeners = { vmis: (_key: string) => {}, domains: (_key: string) => {} };
  const counters = new VmCounters();
  counters.follow({
    vmis: {
      get: () => vmi,
      onChange: (listener) => {
        listeners.vmis = listener;
        return () => undefined;
      },
    },
    domains: {
      view: () => view,
      onChange: (listener) => {
        listeners.domains = listener;
        return () => undefined;
      },
    },
  });
  return {
    counters,
    panics: () => [...counters.panics()].map(([labels, count]) => `${labelText(labels)} ${count}`),
    gone: () => {
      vmi = undefined;
      listeners.vmis('default/vm1');
    },
    back: () => {
      vmi = vmiOf('Running');
    },
    domain: (PanicCount: unknown, GuestPanicInfo: unknown, uid = 'uid-1') => {
      const domain = domainOf();
      Object.assign(domain.Status, { PanicCount, GuestPanicInfo });
      view = { kind: 'present', uid, domain, seenMs: 0 };
      listeners.domains('default/vm1');
    },
  };
}

test('a panic counts once, by its kind, however often the domain is told', () => {
  const { domain, panics } = world();
  domain(0, null);
  assert.deepEqual(panics(), []);
  domain(1, { Type: 'hyper-v', Arg1: 0x7e });
  domain(1, { Type: 'hyper-v', Arg1: 0x7e });
  domain(3, null);
  domain(4, { Type: 'hyper-v', Arg1: 0x7e });
  const vm = 'namespace="default",name="vm1"';
  assert.deepEqual(panics(), [
    `${vm},type="hyper-v",bugcheck_code="0x7e" 2`,
    `${vm},type="unknown",bugcheck_code="unknown" 1`,
  ]);
});

test('a VMI that is started again begins anew, and nonsense is no panic', () => {
  const { domain, panics } = world();
  domain(5, null);
  domain(1, null, 'uid-2');
  assert.deepEqual(panics().length, 1);
  assert.match(panics()[0] ?? '', / 1$/);
  domain('seven', null, 'uid-3');
  assert.match(panics()[0] ?? '', / 1$/);
});

test('a guest that panics under ever new names has a bounded number of series', () => {
  const { domain, panics } = world();
  for (let count = 1; count <= 100; count++) domain(count, { Type: `kind ${count}` });
  assert.equal(panics().length, 16);
});

test('counters go with the VMI, and a write that ends after it makes none', () => {
  const { counters, domain, gone } = world();
  counters.written('default/vm1');
  counters.written('default/vm1');
  domain(1, null);
  assert.deepEqual(
    [...counters.syncs()].map(([, count]) => count),
    [2],
  );
  gone();
  counters.written('default/vm1');
  assert.equal(counters.size, 0);
});

test('a VM that comes anew while a slow reader is told of it is not told twice', () => {
  const { counters, domain, gone, back } = world();
  const isVm1 = ([labels]: readonly [readonly (readonly [string, string])[], number]) =>
    labels.some(([name, value]) => name === 'name' && value === 'vm1');
  for (const key of ['default/vm1', 'default/vm2']) counters.written(key);
  domain(1, { Type: 'hyper-v' });
  const [syncs, panics] = [counters.syncs(), counters.panics()];
  const reported = [syncs.next().value, panics.next().value].flatMap((series) => (series ? [series] : []));
  assert.equal(reported.filter(isVm1).length, 2);
  gone();
  back();
  counters.written('default/vm1');
  domain(1, { Type: 'hyper-v' }, 'uid-2');
  assert.deepEqual([...syncs, ...panics].filter(isVm1), []);
});
