import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ComponentChild, h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { ExplainDecision, ExplainReport, TimelineReport } from '../../../../src/api/index.ts';
import { AgentChoice } from '../../../../src/web/page/agent-view.tsx';
import { Notes, Report } from '../../../../src/web/page/explain-panel.tsx';
import { GuestCards } from '../../../../src/web/page/guest-details.tsx';
import { ListView } from '../../../../src/web/page/list-view.tsx';
import { OverviewPanel } from '../../../../src/web/page/overview-panel.tsx';
import { PageState } from '../../../../src/web/page/page-state.ts';
import { Timeline, TimelinePanel } from '../../../../src/web/page/timeline-panel.tsx';
import { vmRow } from '../../../fixtures/web-backend.ts';

/** What a guest, or who may write a status, could put into any text. */
const hostile = '<img src=x onerror="alert(1)">&amp;"\'><script>alert(2)</script>';
const shown = "&lt;img src=x onerror=&quot;alert(1)&quot;>&amp;amp;&quot;'>&lt;script>alert(2)&lt;/script>";
/** JSON that looks like an element of the library. */
const forged = { type: 'img', props: { src: 'x', onerror: 'alert(1)' }, key: null, constructor: null, __v: 0 };

function stateWith(rows: readonly ReturnType<typeof vmRow>[]): PageState {
  const state = new PageState();
  state.replace({ node: 'node1', actions: true, rows });
  return state;
}

/** The markup of a view, which has no element of somebody else's. */
function drawn(view: ComponentChild): string {
  const markup = renderToString(h('div', null, view));
  const tags = markup.replaceAll(/"[^"]*"/g, '""').match(/<[^>]*>/g) ?? [];
  assert.deepEqual(
    tags.filter((tag) => /^<(?:img|script|iframe|object)\b|\son\w+=/i.test(tag)),
    [],
  );
  return markup;
}

const hostileRow = vmRow('vm', {
  status: hostile,
  namespace: hostile,
  conditions: [{ type: 'Synchronized', status: 'False', reason: hostile, message: hostile }],
  vmi: { uid: hostile, phase: 'Running', paused: false, ip: hostile, guestOs: hostile },
});

const decision: ExplainDecision = {
  firstAt: '2026-01-02T03:00:00Z',
  lastAt: '2026-01-02T03:00:00Z',
  times: 1,
  uid: 'u',
  route: 'default',
  rule: hostile,
  why: hostile,
  seen: {
    vmi: { kind: 'present', phase: hostile },
    domain: { kind: hostile },
    launcher: { kind: hostile },
    memory: {},
  },
  steps: [{ step: hostile, outcome: 'failed', because: hostile }],
  write: { outcome: 'unchanged' },
};

const report: ExplainReport = {
  apiVersion: 'why.virt-handler/v1',
  kind: 'Why',
  node: 'node1',
  at: '2026-01-02T03:00:05Z',
  namespace: 'default',
  name: 'vm',
  problem: hostile,
  nextTry: { state: 'idle', because: hostile, failuresInARow: 0 },
  decisions: [decision],
};

const startUp: TimelineReport = {
  ...{ kind: 'Timeline', at: '2026-01-02T03:00:05Z', namespace: 'default', name: 'vm', uid: 'u' },
  created: '2026-01-02T03:00:00Z',
  rows: [
    { part: 'pod', what: 'volumes', from: '2026-01-02T03:00:00.100Z', to: '2026-01-02T03:00:00.250Z' },
    { part: 'agent', what: hostile, to: '2026-01-02T03:00:00.300Z' },
    { part: 'phase', what: 'Running', to: '2026-01-02T03:00:01Z' },
  ],
};

function countOf(text: string, markup: string): number {
  return markup.split(text).length - 1;
}

test('the list shows what a row says, by names that screen readers read', () => {
  const markup = drawn(h(ListView, { state: stateWith([vmRow('one'), vmRow('two', { status: 'Stopped' })]) }));
  assert.match(markup, /<h1 tabindex="-1">Virtual machines<\/h1><p class="summary">2 machines: 1 Running, 1 Stopped/);
  assert.match(markup, /<ul class="vms" aria-label="Virtual machines">/);
  for (const label of ['Console of one', 'Screen of two', 'More for one', 'Pause one', 'Stop two', 'Reset one']) {
    assert.equal(countOf(`aria-label="${label}"`, markup), 1, label);
  }
  assert.match(markup, /<span class="badge" data-tone="good">Running<\/span>/);
  assert.match(markup, /<time class="age" datetime="2026-01-02T03:00:00Z" title="created /);
});

test('a list that may be old says so, and its buttons do nothing', () => {
  const state = stateWith([vmRow('one')]);
  assert.doesNotMatch(drawn(h(ListView, { state })), /data-old|aria-disabled="true"/);
  state.link.value = { kind: 'lost' };
  const markup = drawn(h(ListView, { state }));
  assert.match(markup, /<ul class="vms" aria-label="Virtual machines" data-old=?/);
  assert.doesNotMatch(markup, /aria-disabled="false"/);
});

test('an empty list says why it is empty', () => {
  const state = new PageState();
  assert.match(drawn(h(ListView, { state })), /Asking for the list…/);
  state.link.value = { kind: 'denied', reason: 'a token is needed' };
  assert.doesNotMatch(drawn(h(ListView, { state })), /Asking/);
  state.replace({ node: 'node1', actions: true, rows: [] });
  assert.match(drawn(h(ListView, { state })), /kubectl apply -f examples\/vm\.yaml/);
  state.replace({ node: 'node1', actions: true, rows: [vmRow('one')] });
  state.filter.value = 'other';
  assert.match(drawn(h(ListView, { state })), /No virtual machine matches\./);
});

test('a VM that is not here is said not to be, once that is known', () => {
  const vm = { namespace: 'default', name: 'one' };
  const markup = (state: PageState) => drawn(h(OverviewPanel, { state, vm, row: state.row('default/one') }));
  assert.doesNotMatch(markup(new PageState()), /There is no/);
  assert.match(markup(stateWith([])), /There is no virtual machine default\/one on this node\./);
  assert.match(markup(stateWith([vmRow('one')])), /<dt>Run strategy<\/dt><dd>Always<\/dd>/);
});

test('texts of guests and statuses stay texts: in the list, a VM, its decisions, the agent, what a guest tells', () => {
  const list = drawn(h(ListView, { state: stateWith([hostileRow]) }));
  // Summary, status, namespace, note, address, system.
  assert.equal(countOf(shown, list.replace(/(?:title|data-key)="[^"]*"/g, '')), 6);
  const panel = h(OverviewPanel, { state: stateWith([hostileRow]), vm: hostileRow, row: hostileRow });
  assert.equal(countOf(shown, drawn(panel)), 6);
  assert.ok(countOf(shown, drawn(h(Report, { report }))) >= 8);
  assert.equal(countOf(shown, drawn(h(Timeline, { report: startUp }))), 1);
  assert.equal(countOf(shown, drawn(h(Notes, { row: hostileRow }))), 1);
  const guest = { hostname: hostile, os: { prettyName: hostile, kernelRelease: hostile }, timezone: hostile };
  const answers = [guest, { items: [{ userName: hostile }] }, { items: [{ mountPoint: hostile }] }];
  assert.equal(countOf(shown, drawn(h(GuestCards, { answers }))), 6);
});

test('a start is a row per part, with its times in words beside the bar', () => {
  const markup = drawn(h(Timeline, { report: startUp }));
  assert.match(markup, /<td class="part">pod<\/td><th scope="row">volumes<\/th><td class="ms">0 ms<\/td>/);
  assert.match(markup, /<td class="ms took">150 ms<\/td>.*<svg aria-hidden="true"><rect x="0%" width="75%"/);
  assert.match(markup, /<td class="ms">200 ms<\/td><td class="ms took">–<\/td>.*<rect x="99.4%" width="0.6%"/);
  assert.match(markup, /<dd>200 ms so far; no login prompt yet<\/dd>/);
  assert.match(drawn(h(Timeline, { report: { ...startUp, whole: true } })), /<dd>200 ms<\/dd>/);
  assert.match(drawn(h(Timeline, { report: { ...startUp, rows: [] } })), /Nothing is known of its start/);
  const { vmi: _stopped, ...stopped } = vmRow('vm');
  assert.match(drawn(h(TimelinePanel, { vm: stopped, row: stopped })), /It does not run: its next start is shown here/);
});

test('what is JSON in place of a text is no element', () => {
  const row = { ...hostileRow, status: forged, vmi: { ...hostileRow.vmi, guestOs: forged, ip: [forged] } };
  drawn(h(ListView, { state: stateWith([row as unknown as typeof hostileRow]) }));
  drawn(
    h(GuestCards, { answers: [{ hostname: forged, os: forged }, { items: [forged, forged] }, { items: [forged] }] }),
  );
});

test('of several nodes each has its agent, by a link; of one there is nothing to choose', () => {
  const state = stateWith([]);
  assert.equal(drawn(h(AgentChoice, { state, node: undefined })), '<div></div>');
  const nodes = ['node1', hostile].map((name) => ({ name, agent: 'ready', isCordoned: false }) as const);
  state.replace({ node: 'node1', actions: true, rows: [], nodes });
  const current = (node: string | undefined) =>
    [...drawn(h(AgentChoice, { state, node })).matchAll(/href="([^"]*)"( aria-current="page")?/g)].map(
      ([, href, is]) => [href, is !== undefined],
    );
  const other = `#/agent/${encodeURIComponent(hostile)}`;
  assert.deepEqual(current(undefined), [
    ['#/agent/node1', true],
    [other, false],
  ]);
  assert.deepEqual(current(hostile), [
    ['#/agent/node1', false],
    [other, true],
  ]);
});
