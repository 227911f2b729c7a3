import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { upstreamSchema } from '../../scripts/upstream-crds.mjs';
import { isRecord } from '../../src/base/index.ts';

/** Programs that act on a VM or VMI; what only describes its type, or its shape, is not acting. */
const folders = ['src/agent', 'src/controller', 'src/launcher', 'src/api'];
const describing = ['src/api/vmi.ts', 'src/launcher/domain/vmi-shape.ts', 'src/controller/vmi/check.ts'];

/** Handed on whole, as the pod has them: what is below them is Kubernetes' own. */
const whole = [
  'spec.affinity',
  'spec.tolerations',
  'spec.topologySpreadConstraints',
  'spec.dnsConfig',
  'spec.resourceClaims',
  'spec.readinessProbe.httpGet',
  'spec.livenessProbe.httpGet',
  'spec.readinessProbe.tcpSocket',
  'spec.livenessProbe.tcpSocket',
  'spec.volumes[].downwardAPI.fields',
  // Values of the object `acpi` are names of volumes, whichever table they are for.
  'spec.domain.firmware.acpi',
  // DataVolumes are made of them as they are.
  'spec.dataVolumeTemplates',
  // A VMI's, see above.
  'spec.template.spec',
];

const skip = upstreamSchema('virtualmachine') === undefined ? "upstream's schemas come with `go`, once" : false;

for (const kind of ['virtualmachineinstance', 'virtualmachine']) {
  test(`no field of a ${kind} is unknown to all programs`, { skip }, () => {
    const schema = upstreamSchema(kind);
    const words = new Set(sources().flatMap((text) => text.match(/\w+/g) ?? []));
    const spec = isRecord(schema) && isRecord(schema.properties) ? schema.properties.spec : undefined;
    const fields = fieldsOf(spec, 'spec').filter((field) => !whole.some((given) => isWithin(field, given)));
    assert.ok(fields.length > 2, 'the schema has fields');
    assert.deepEqual(
      fields.filter((field) => !words.has(field.replaceAll('[]', '').split('.').at(-1) ?? '')),
      [],
    );
  });
}

function isWithin(field: string, holder: string): boolean {
  return field === holder || field.startsWith(`${holder}.`) || field.startsWith(`${holder}[]`);
}

function fieldsOf(schema: unknown, field: string): string[] {
  if (!isRecord(schema)) return [field];
  if (isRecord(schema.properties)) {
    return Object.entries(schema.properties).flatMap(([name, member]) => fieldsOf(member, `${field}.${name}`));
  }
  return isRecord(schema.items) ? fieldsOf(schema.items, `${field}[]`) : [field];
}

function sources(): string[] {
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => path.posix.join(folder, file)),
  );
  return files
    .filter((file) => file.endsWith('.ts') && !describing.includes(file))
    .map((file) => readFileSync(file, 'utf8'));
}
