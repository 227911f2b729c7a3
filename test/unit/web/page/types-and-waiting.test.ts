import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ComponentChild, h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { KubeObject, WaitingReport } from '../../../../src/api/index.ts';
import { explained, WaitingCard } from '../../../../src/web/page/explain-panel.tsx';
import { NewMachine } from '../../../../src/web/page/new-view.tsx';
import { PageState } from '../../../../src/web/page/page-state.ts';
import { membersOf } from '../../../../src/web/page/sets-strip.tsx';
import { Types } from '../../../../src/web/page/types-view.tsx';
import { memoryRights, vmRow } from '../../../fixtures/web-backend.ts';

const drawn = (view: ComponentChild) => renderToString(h('div', null, view));
const hostile = '<img src=x onerror="alert(1)">';
const vm = { namespace: 'default', name: 'demo' };
const never = new AbortController().signal;

const waiting: WaitingReport = {
  kind: 'Waiting',
  at: '2026-01-01T00:01:00Z',
  ...vm,
  vmStatus: 'Provisioning',
  pod: { name: 'virt-launcher-demo', phase: 'Pending' },
  rule: 'claim-missing',
  waitsFor: 'the PersistentVolumeClaim data',
  todo: ['create what is missing'],
  decided: [{ about: 'VirtualMachine', rule: 'start', why: hostile, next: 'in 5 s', problem: hostile }],
  warnings: [{ at: '2026-01-01T00:00:00Z', reason: hostile, message: hostile }],
};

test('instance types and preferences are listed with what they give and how many machines name them', () => {
  const state = new PageState();
  const ofCluster = (name: string) => ({ name, isCluster: true });
  const small = { ...vmRow('one'), instancetype: ofCluster('small'), preference: ofCluster('linux') };
  const two = { ...small, name: 'two', namespace: 'other' };
  const own = { ...two, name: 'three', instancetype: { name: 'small', isCluster: false } };
  state.replace({ ...memoryRights, node: 'node1', rows: [small, two, own] });
  const type = (name: string, namespace?: string): KubeObject =>
    ({
      metadata: { name, ...(namespace && { namespace }) },
      spec: { cpu: { guest: 2 }, memory: { guest: '4Gi' } },
    }) as unknown as KubeObject;
  const types = { instancetypes: [type('small'), type('small', 'other'), type(hostile)], preferences: [type('linux')] };
  const markup = drawn(h(Types, { state, types }));
  assert.match(markup, /small<\/th><td[^>]*>all<\/td><td[^>]*>2 CPUs, 4Gi of memory<\/td><td[^>]*>2 machines/);
  assert.match(markup, /small<\/th><td[^>]*>other<\/td>.*1 machine</);
  assert.match(markup, /Preferences.*linux<\/th>/);
  assert.doesNotMatch(markup, /<img/);
  assert.match(drawn(h(Types, { state, types: { instancetypes: [], preferences: [] } })), /There is none/);
});

test('why a VM is on no node is said as the command line says it', () => {
  const markup = drawn(h(WaitingCard, { report: waiting }));
  assert.match(markup, /VirtualMachine Provisioning; no instance; pod virt-launcher-demo Pending/);
  assert.match(markup, /Waits for<\/dt><dd>the PersistentVolumeClaim data/);
  assert.match(markup, /What to do<\/dt><dd>create what is missing/);
  assert.match(markup, /<dt>Machine, problem<\/dt>/);
  assert.doesNotMatch(markup, /<img/);
});

test('of a VM that no agent knows the API is asked, and of one that was here, too', async (t) => {
  const gone = { kind: 'Why', goneAt: 'then', decisions: [{ seen: { vmi: {} } }] };
  const here = { kind: 'Why', decisions: [] };
  let why = Response.json(gone);
  let known = Response.json(waiting);
  t.mock.method(globalThis, 'fetch', async (path: string) => (path.startsWith('/api/why/') ? why : known).clone());
  assert.deepEqual(await explained(vm, never), { report: gone, waiting });
  known = new Response('{}', { status: 502 });
  assert.deepEqual(await explained(vm, never), { report: gone });
  why = Response.json(here);
  assert.deepEqual(await explained(vm, never), { report: here });
  why = Response.json({ message: 'unknown' }, { status: 404 });
  await assert.rejects(explained(vm, never), { httpStatus: 502 });
  known = Response.json(waiting);
  assert.deepEqual(await explained(vm, never), { waiting });
  known = Response.json({ message: 'nobody knows' }, { status: 404 });
  await assert.rejects(explained(vm, never), { httpStatus: 404, message: 'unknown' });
});

test('a clone whose original could not be asked for is asked for again, and the error is gone', async (t) => {
  const original = {
    metadata: vm,
    spec: { template: { spec: { domain: {} } } },
  };
  let isAway = true;
  t.mock.method(globalThis, 'fetch', async (path: string) => {
    if (isAway) return Response.json({ message: 'the API is away' }, { status: 502 });
    return Response.json(path.endsWith('/virtualmachines/demo') ? original : { items: [], images: [] });
  });
  const machine = new NewMachine();
  await machine.begin(vm, () => new Set(['default/demo', 'default/demo-clone']));
  assert.match(machine.problem.value?.message ?? '', /the API is away/);
  isAway = false;
  await machine.askAgain();
  assert.equal(machine.problem.value, undefined);
  assert.equal(machine.state.value, 'ready');
  assert.notEqual(machine.form.value.name, 'demo-clone');
  machine.close();
});

test('pools and replica sets are asked about when one of their machines has changed, and for no other', () => {
  const owner = { kind: 'VirtualMachinePool', name: 'p' };
  const rows = [{ ...vmRow('a'), owner }, vmRow('b')];
  const status = (name: string, text: string) =>
    rows.map((row) => (row.name === name ? { ...row, status: text } : row));
  assert.equal(membersOf(status('b', 'Paused')), membersOf(rows));
  assert.notEqual(membersOf(status('a', 'Paused')), membersOf(rows));
});
