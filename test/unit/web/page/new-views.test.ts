import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ComponentChild, h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { GuestFigures } from '../../../../src/api/index.ts';
import { BulkBar } from '../../../../src/web/page/bulk-bar.tsx';
import { Problem } from '../../../../src/web/page/code-editor.tsx';
import { Devices } from '../../../../src/web/page/devices-panel.tsx';
import { Events } from '../../../../src/web/page/events-panel.tsx';
import { Graphs } from '../../../../src/web/page/figures-card.tsx';
import { FigureHistory } from '../../../../src/web/page/figures-model.ts';
import { Images } from '../../../../src/web/page/images-view.tsx';
import { ListView } from '../../../../src/web/page/list-view.tsx';
import { Log } from '../../../../src/web/page/logs-panel.tsx';
import { elsewhere } from '../../../../src/web/page/new-view.tsx';
import { PageState } from '../../../../src/web/page/page-state.ts';
import { refusalOf } from '../../../../src/web/page/refusal.ts';
import { Stream } from '../../../../src/web/page/stream.ts';
import { StreamPanel } from '../../../../src/web/page/stream-panel.tsx';
import { Trouble } from '../../../../src/web/page/trouble.tsx';
import { typingProblem } from '../../../../src/web/page/typing.ts';
import { formOf, newVm, type VmForm } from '../../../../src/web/page/vm-form.ts';
import { VmFormView } from '../../../../src/web/page/vm-form-view.tsx';
import { memoryRights, vmRow } from '../../../fixtures/web-backend.ts';

/** What a guest, or who may write an object, could put into any text. */
const hostile = '<img src=x onerror="alert(1)">';
const shown = '&lt;img src=x onerror=&quot;alert(1)&quot;>';

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

function stateWith(rows: readonly ReturnType<typeof vmRow>[], more: object = {}): PageState {
  const state = new PageState();
  state.replace({ ...memoryRights, node: 'node1', rows, ...more });
  return state;
}

const countOf = (text: string, markup: string) => markup.split(text).length - 1;

test('texts of events, devices, logs, images, problems and troubles stay texts', () => {
  const line = { key: 'k', at: hostile, times: 2, isWarning: true, reason: hostile, message: hostile, of: hostile };
  assert.equal(
    countOf(shown, drawn(h(Events, { lines: [line], nowMs: 0 })).replace(/(?:datetime|title)="[^"]*"/g, '')),
    3,
  );
  const devices = { disks: [{ name: hostile }], interfaces: [{ name: hostile, macAddress: hostile }] };
  const spec = { domain: { devices }, volumes: [{ name: hostile, hostDisk: { path: hostile } }] };
  assert.equal(countOf(shown, drawn(h(Devices, { machine: { spec, status: {}, isRunning: true } }))), 4);
  const source = { pod: hostile, container: hostile, label: hostile };
  const log = h(Log, {
    name: hostile,
    answer: { sources: [source], shown: source, text: hostile },
    onChoose: () => undefined,
  });
  assert.match(drawn(log), />&lt;img src=x[^<]*<\/textarea>/);
  assert.equal(countOf(shown, drawn(h(Images, { images: [{ reference: hostile, boots: 'disk', sizeBytes: 1 }] }))), 1);
  const problem = { message: hostile, fields: [{ field: hostile, message: hostile }] };
  assert.equal(countOf(shown, drawn(h(Problem, { problem, text: '', onGo: () => undefined }))), 3);
  const conditions = [{ type: 'Synchronized', status: 'False' as const, message: hostile }];
  assert.equal(countOf(shown, drawn(h(Trouble, { row: vmRow('a', { status: hostile, conditions }) }))), 2);
});

test('what the API says of fields of the form stands there, and in words; of any other field above it', () => {
  const cause = (field: string, message: string) => ({ field, message });
  const memory = 'spec.template.spec.domain.memory.guest';
  const { fields } = refusalOf({
    details: {
      causes: [
        cause(memory, `Invalid value: "x": ${memory} in body should match '^(([KMGTPE]i)|[numkMGTPE])?$'`),
        cause('spec.a', "Invalid value: 1: spec.a in body should match '^[a-z]$'"),
      ],
    },
  });
  assert.deepEqual(fields, [
    cause(memory, 'Invalid value: "x": write a number with its unit, such as 512Mi or 4Gi'),
    cause('spec.a', "Invalid value: 1: spec.a in body should match '^[a-z]$'"),
  ]);
  assert.deepEqual(elsewhere({ message: 'm', fields }), { message: 'm', fields: fields.slice(1) });
  const shownThere = elsewhere({ message: 'm', fields: fields.slice(0, 1) });
  assert.deepEqual(shownThere, { message: 'The API refuses what is marked below.', fields: [] });
  assert.equal(elsewhere({ message: 'm', fields: [] }).message, 'm');
});

test('a reason is not cut, however long it is', () => {
  const message = `first ${'and then '.repeat(50)}last`;
  const failed = vmRow('a', {
    status: 'ErrImagePull',
    conditions: [{ type: 'Synchronized', status: 'False', message }],
  });
  const markup = drawn(h(ListView, { state: stateWith([failed]) }));
  assert.ok(markup.includes(`<p class="note is-bad">First ${message.slice('first '.length)}</p>`));
});

test('who may write gets a way to a new machine and boxes to choose by; who may only look gets neither, and no buttons', () => {
  const rows = [vmRow('a')];
  const full = drawn(h(ListView, { state: stateWith(rows) }));
  assert.match(full, /<a class="button primary" href="#\/new">/);
  assert.match(full, /aria-label="Select a"/);
  assert.match(full, /aria-label="Delete… a"/);
  const lookOnly = drawn(h(ListView, { state: stateWith(rows, { lookOnly: true }) }));
  assert.doesNotMatch(lookOnly, /#\/new|Select|data-action/);
  assert.match(lookOnly, /aria-label="Console of a"/);
});

test('what was chosen can be done for those that it is possible for; failures say whose they are, and why', () => {
  const { vmi: _none, ...stopped } = vmRow('b', { status: 'Stopped', runStrategy: 'Halted' });
  const state = stateWith([vmRow('a'), stopped]);
  assert.equal(drawn(h(BulkBar, { state })), '<div></div>');
  state.select(['default/a', 'default/b'], true);
  const markup = drawn(h(BulkBar, { state })).replaceAll(/<svg.*?<\/svg>/g, '');
  assert.match(markup, /2 selected/);
  for (const label of ['Start (1)', 'Stop (1)', 'Restart (1)', 'Delete (2)']) assert.ok(markup.includes(label), label);
  state.bulk.value = {
    title: 'Stopping',
    total: 2,
    done: 2,
    isOver: true,
    failures: [{ key: 'default/a', text: hostile }],
  };
  assert.match(drawn(h(BulkBar, { state })), /2 of 2, 1 failed[\s\S]*default\/a: &lt;img/);
  state.change({ rows: [], gone: ['default/a'] });
  assert.deepEqual([...state.selected.value], ['default/b']);
});

class NoStream extends Stream {
  protected async prepare(): Promise<undefined> {
    return undefined;
  }
}

test('a screen of a machine that does not run says so, and offers to start it', () => {
  const { vmi: _none, ...stopped } = vmRow('a', { status: 'Stopped', runStrategy: 'Halted' });
  const panel = (row: ReturnType<typeof vmRow>, more = {}) => {
    const words = { you: 'You control', another: 'somebody else' };
    const props = {
      class: 'screen-panel',
      stream: new NoStream(row),
      row,
      words,
      draws: 'screen',
      controls: null,
    } as const;
    const children = () => h('p', null, 'the guest');
    return drawn(h(StreamPanel, { ...props, state: stateWith([row], more), children }));
  };
  assert.match(panel(stopped), /Not running[\s\S]*a does not run\.[\s\S]*Start a/);
  assert.doesNotMatch(panel(stopped, { lookOnly: true }), /Start a/);
  assert.doesNotMatch(panel(vmRow('a')), /does not run/);
});

test('each field of the form has a label, and what the API says against it', () => {
  const offers = {
    images: [],
    namespaces: ['default'],
    claims: [],
    instancetypes: ['K/small'],
    preferences: ['K/linux'],
    sizes: new Map([['K/small', '2 CPUs, 4Gi of memory']]),
  };
  const problems = [{ field: 'spec.template.spec.domain.memory.guest', message: 'it is no quantity' }];
  const nothing = () => undefined;
  const formIn = (form: VmForm) =>
    drawn(
      h(VmFormView, {
        ...{ form, offers, problems, claimSize: '1Gi', makesClaim: true },
        ...{ onChange: nothing, onClaimSize: nothing },
      }),
    );
  const markup = formIn(formOf(newVm(undefined)));
  const typed = formIn({ ...formOf(newVm(undefined)), instancetype: 'K/small' });
  assert.match(typed, /id="new-instancetype-note" class="hint">2 CPUs, 4Gi of memory/);
  assert.doesNotMatch(typed, /id="new-memory"/);
  const labelled = new Set([...markup.matchAll(/<label for="([^"]+)"/g)].map(([, id]) => id));
  const fields = [...markup.matchAll(/<(?:input|select|textarea) id="([^"]+)"/g)].map(([, id]) => id);
  assert.ok(fields.length >= 12, `only ${fields.length} fields`);
  assert.deepEqual(
    fields.filter((id) => !labelled.has(id)),
    [],
  );
  assert.match(markup, /id="new-memory" aria-invalid(?:="true")?[^>]*>/);
  assert.match(markup, /id="new-memory-note" class="is-bad">it is no quantity/);
});

test('graphs say their figures in words, too', () => {
  const history = new FigureHistory();
  const at = (second: number): GuestFigures => ({
    ...{ apiVersion: 'why.virt-handler/v1', kind: 'Figures', node: 'n', uid: 'u' },
    at: new Date(second * 1_000).toISOString(),
    ...{ cpuSeconds: second / 4, vcpus: 1, memory: { totalBytes: 2 ** 30, usedBytes: 2 ** 29 } },
    ...{ disks: [], interfaces: [] },
  });
  assert.match(drawn(h(Graphs, { figures: { points: [], last: undefined } })), /Asking the guest/);
  history.add(at(1));
  history.add(at(2));
  const markup = drawn(h(Graphs, { figures: { points: history.points, last: history.last } }));
  assert.match(markup, /role="img" aria-label="CPU: 25 % of 1"/);
  assert.match(markup, /aria-label="Memory: 512 MiB of 1.0 GiB, used by the guest"/);
});

test('a text for the screen that no keyboard can type, or that is endless, is refused in words', () => {
  assert.equal(typingProblem('ls -l\n'), '');
  assert.match(typingProblem('grüße'), /no key for ü ß/);
  assert.match(typingProblem('x'.repeat(4_001)), /4001 keys are too many/);
});
