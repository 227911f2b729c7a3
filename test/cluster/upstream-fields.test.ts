import assert from 'node:assert/strict';
import { test } from 'node:test';
import { upstreamSchema } from '../../scripts/upstream-crds.mjs';
import { isRecord } from '../../src/base/index.ts';
import { fieldsOf, type SchemaField, usesOf } from '../fixtures/vmi-fields.ts';
import { rows, words } from '../unit/docs/guide-tables.ts';

/** The guide's list of fields against upstream's schemas, and against what becomes of a VMI that has the field. */

const skip = upstreamSchema('virtualmachine') === undefined ? "upstream's schemas come with `go`, once" : false;
const listed = new Map(rows('fields.md', 'Field').map(([field = '', who = '']) => [field, words(who)]));

function specFields(kind: string): SchemaField[] {
  const schema = upstreamSchema(kind);
  const spec = isRecord(schema) && isRecord(schema.properties) ? schema.properties.spec : undefined;
  return fieldsOf(spec, 'spec');
}

test('the guide has a row for each field of VMIs and VMs, and no others', { skip }, () => {
  const fields = ['virtualmachineinstance', 'virtualmachine'].flatMap(specFields).map(({ field }) => field);
  assert.ok(fields.length > 200, `${fields.length}`);
  assert.deepEqual([...listed.keys()].sort(), fields.sort());
});

test('each field of a VMI changes launcher pod or domain, or is refused in words, where its row says so', {
  skip,
}, () => {
  const checked: readonly string[] = ['guest', 'pod', 'refused'];
  const found = specFields('virtualmachineinstance').map((each) => `${each.field}: ${usesOf(each)}`);
  const said = specFields('virtualmachineinstance').map(({ field }) => {
    return `${field}: ${(listed.get(field) ?? []).filter((word) => checked.includes(word)).sort()}`;
  });
  assert.deepEqual(said, found);
});
