import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { promtool } from '../../../fixtures/promtool.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface RuleGroups {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

/** `monitoring/`, judged by promtool: rules that Prometheus takes, and that fire when they should. */

let dir: string;
let rules: readonly Rule[];

before(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'rules-'));
  const { spec } = parse(await readFile('monitoring/prometheus-rules.yaml', 'utf8')) as { readonly spec: RuleGroups };
  rules = spec.groups.flatMap((group) => group.rules);
  await writeFile(path.join(dir, 'rules.yaml'), stringify(spec));
  await copyFile('monitoring/rules.test.yaml', path.join(dir, 'rules.test.yaml'));
});
after(() => rm(dir, { recursive: true, force: true }));

test('Prometheus takes the rules', async () => {
  const { code, output } = await promtool(['check', 'rules', path.join(dir, 'rules.yaml')]);
  assert.equal(code, 0, output);
  assert.match(output, /15 rules found/);
});

test('each alert fires when it should and not otherwise', async () => {
  const { code, output } = await promtool(['test', 'rules', path.join(dir, 'rules.test.yaml')]);
  assert.equal(code, 0, output);
  const cases = await readFile('monitoring/rules.test.yaml', 'utf8');
  for (const { alert } of rules) {
    assert.ok(
      cases.split(`alertname: ${alert}`).length > 2,
      `${alert} needs a case in which it fires and one in which it does not`,
    );
  }
});

test('each alert has a runbook, and each runbook an alert', async () => {
  const pages = (await readdir('docs/runbooks')).filter((name) => name !== 'README.md').sort();
  assert.deepEqual(pages, rules.map(({ alert }) => `${alert}.md`).sort());
  for (const { alert, annotations } of rules) assert.equal(annotations.runbook_url, `docs/runbooks/${alert}.md`);
  const overview = await readFile('docs/runbooks/README.md', 'utf8');
  for (const page of pages) assert.ok(overview.includes(`(${page})`), page);
});
