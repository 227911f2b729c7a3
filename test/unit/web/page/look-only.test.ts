import assert from 'node:assert/strict';
import { test } from 'node:test';
import { h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { ListView } from '../../../../src/web/page/list-view.tsx';
import { NodeStrip } from '../../../../src/web/page/node-strip.tsx';
import { PageState } from '../../../../src/web/page/page-state.ts';
import { vmRow } from '../../../fixtures/web-backend.ts';

const running = vmRow('demo', {
  runStrategy: 'Always',
  vmi: { uid: 'u', phase: 'Running', paused: false, node: 'one' },
});
const nodes = ['one', 'two'].map((name) => ({ name, isCordoned: false, agent: 'ready' as const }));

function buttons(lookOnly: boolean): number {
  const state = new PageState();
  state.replace({ node: 'one', actions: !lookOnly, nodes, rows: [running], ...(lookOnly && { lookOnly }) });
  const markup = renderToString(h('div', null, h(ListView, { state }), h(NodeStrip, { state })));
  assert.match(markup, /demo/);
  return [...markup.matchAll(/data-action="|aria-label="(?:Cordon|Empty) /g)].length;
}

test('who looks only is offered nothing that the server would refuse', () => {
  assert.ok(buttons(false) >= 4, String(buttons(false)));
  assert.equal(buttons(true), 0);
});
