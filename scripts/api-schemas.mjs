// node scripts/api-schemas.mjs
// What the embedded API knows of its objects, from the published Go modules of KubeVirt and Kubernetes, into src/apiserver/schema/gen:
// needs `go` and, once, the network. Run it when a version below changes, or when the server gets another resource.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { moduleDir, upstreamSchema } from './upstream-crds.mjs';

const kubernetes = 'v1.34.4';
const outDir = 'src/apiserver/schema/gen';
const prefix = '#/components/schemas/';

/** Resources of Kubernetes: file of its OpenAPI → kinds. */
const coreKinds = {
  api__v1: [
    ...['Namespace', 'Node', 'Pod', 'Event', 'ConfigMap', 'Secret', 'ServiceAccount', 'Service', 'Endpoints'],
    ...['PersistentVolumeClaim', 'PersistentVolume'],
  ],
  'apis__coordination.k8s.io__v1': ['Lease'],
  apis__apps__v1: ['ControllerRevision'],
  'apis__storage.k8s.io__v1': ['StorageClass'],
  'apis__discovery.k8s.io__v1': ['EndpointSlice'],
  'apis__apiextensions.k8s.io__v1': ['CustomResourceDefinition'],
};

/** Resources of KubeVirt: name of the schema → group, version and kind. */
const kubevirtKinds = {
  virtualmachineinstance: 'kubevirt.io/v1/VirtualMachineInstance',
  virtualmachine: 'kubevirt.io/v1/VirtualMachine',
  virtualmachineinstancemigration: 'kubevirt.io/v1/VirtualMachineInstanceMigration',
  virtualmachineinstancereplicaset: 'kubevirt.io/v1/VirtualMachineInstanceReplicaSet',
  kubevirt: 'kubevirt.io/v1/KubeVirt',
  virtualmachinepool: 'pool.kubevirt.io/v1beta1/VirtualMachinePool',
  virtualmachineinstancetype: 'instancetype.kubevirt.io/v1beta1/VirtualMachineInstancetype',
  virtualmachineclusterinstancetype: 'instancetype.kubevirt.io/v1beta1/VirtualMachineClusterInstancetype',
  virtualmachinepreference: 'instancetype.kubevirt.io/v1beta1/VirtualMachinePreference',
  virtualmachineclusterpreference: 'instancetype.kubevirt.io/v1beta1/VirtualMachineClusterPreference',
  migrationpolicy: 'migrations.kubevirt.io/v1alpha1/MigrationPolicy',
  virtualmachinesnapshot: 'snapshot.kubevirt.io/v1beta1/VirtualMachineSnapshot',
  virtualmachinesnapshotcontent: 'snapshot.kubevirt.io/v1beta1/VirtualMachineSnapshotContent',
  virtualmachinerestore: 'snapshot.kubevirt.io/v1beta1/VirtualMachineRestore',
  virtualmachineclone: 'clone.kubevirt.io/v1beta1/VirtualMachineClone',
  virtualmachineexport: 'export.kubevirt.io/v1/VirtualMachineExport',
  virtualmachinebackup: 'backup.kubevirt.io/v1alpha1/VirtualMachineBackup',
  virtualmachinebackuptracker: 'backup.kubevirt.io/v1alpha1/VirtualMachineBackupTracker',
  datavolumetemplatespec: 'cdi.kubevirt.io/v1beta1/DataVolume',
};

const objectMeta = 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta';
const definitions = new Map();
const types = {};

/** Rules in CEL that the admission of their kind knows by heart (vmi-rules.ts, vm-backup.ts): a new one must be seen. */
const knownRules = [
  ...["self.startsWith('/')", "!self.contains('..')", 'self == true'],
  ...['self == oldSelf', 'has(self.apiGroup)', "self.name != ''", "self.kind == 'VirtualMachine'"],
  "has(self.apiGroup) && self.apiGroup == 'kubevirt.io'",
  "!has(self.apiGroup) || self.apiGroup == 'kubevirt.io' || self.apiGroup == 'backup.kubevirt.io'",
  "!has(self.apiGroup) || (self.apiGroup == 'kubevirt.io' && self.kind == 'VirtualMachine') || (self.apiGroup == 'backup.kubevirt.io' && self.kind == 'VirtualMachineBackupTracker')",
  'has(self.pvcName) && self.pvcName != ""',
  '!has(self.mode) || self.mode != \'Pull\' || (has(self.tokenSecretRef) && self.tokenSecretRef != "")',
];

function addCore() {
  const dir = path.join(moduleDir(`k8s.io/kubernetes@${kubernetes}`), 'api/openapi-spec/v3');
  for (const [file, kinds] of Object.entries(coreKinds)) {
    const { schemas } = JSON.parse(readFileSync(path.join(dir, `${file}_openapi.json`), 'utf8')).components;
    for (const kind of kinds) {
      const name = Object.keys(schemas).find(
        (each) => each.endsWith(`.${kind}`) && schemas[each]['x-kubernetes-group-version-kind']?.[0].kind === kind,
      );
      const [{ group, version }] = schemas[name]['x-kubernetes-group-version-kind'];
      types[[group, version, kind].filter(Boolean).join('/')] = name;
      addReachable(name, schemas);
    }
  }
}

function addReachable(name, schemas) {
  if (definitions.has(name)) return;
  definitions.set(name, undefined);
  const { 'x-kubernetes-group-version-kind': _kinds, ...schema } = schemas[name];
  definitions.set(name, coreNode(schema, schemas));
}

/** Go's types say what JSON they take in other ways than a CRD. */
function coreNode(schema, schemas) {
  const node = { ...schema };
  const ref = node.$ref ?? node.allOf?.[0].$ref;
  if (ref !== undefined) addReachable(ref.slice(prefix.length), schemas);
  if (node.oneOf?.some(({ type }) => type === 'number')) node.format = 'quantity';
  if (node.format === 'int-or-string') node['x-kubernetes-int-or-string'] = true;
  if (node.type === 'object' && !node.properties && !node.additionalProperties)
    node['x-kubernetes-preserve-unknown-fields'] = true;
  // They are the zero values of Go, but for members by which elements of lists are told apart.
  if (node.default !== 'TCP') delete node.default;
  return withChildren(node, (child) => coreNode(child, schemas));
}

function withChildren(node, change) {
  if (node.properties) {
    node.properties = Object.fromEntries(
      Object.entries(node.properties).map(([name, child]) => [name, change(child, name)]),
    );
  }
  if (node.items) node.items = change(node.items);
  if (typeof node.additionalProperties === 'object') node.additionalProperties = change(node.additionalProperties);
  return node;
}

/** CRDs write out what they contain; here each object is one definition, and what is alike is the same one. */
function addKubevirt() {
  const names = new Map();
  const kinds = new Set(Object.values(kubevirtKinds).map((gvk) => gvk.split('/')[2]));
  for (const [source, gvk] of Object.entries(kubevirtKinds)) {
    const [group, version, kind] = gvk.split('/');
    const schema = upstreamSchema(source);
    if (schema === undefined) throw new Error('go is needed');
    schema.properties.metadata = { allOf: [{ $ref: prefix + objectMeta }], description: 'Standard metadata.' };
    // What CDI writes there is not in KubeVirt's module.
    if (kind === 'DataVolume') {
      schema.properties.status['x-kubernetes-preserve-unknown-fields'] = true;
      // Newer than the CDI that KubeVirt's module names (containerized-data-importer, DataVolumeSourceHTTP).
      schema.properties.spec.properties.source.properties.http.properties.checksum = {
        description: 'Checksum of the content, as ALGORITHM:HEX; md5, sha1, sha256 or sha512.',
        type: 'string',
      };
    }
    const { description, nullable: _never, ...whole } = schema;
    for (const member of ['spec', 'status']) {
      if (whole.properties[member]) whole.properties[member].title = `${kind}${capital(member)}`;
    }
    const { allOf } = shared(whole, kind, { names, kinds, namespace: `${group}.${version}` });
    const name = allOf[0].$ref.slice(prefix.length);
    definitions.get(name).description = description;
    types[gvk] = name;
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** What a property says besides its value's form stays with the property. */
function shared(node, name, context) {
  const { description, nullable, default: value, title, ...rest } = node;
  const checks = rest['x-kubernetes-validations'] ?? [];
  const strange = checks.find(({ rule }) => !knownRules.includes(rule));
  if (strange) throw new Error(`${name}: a new rule: ${strange.rule}`);
  const own = title ?? capital(name);
  const whole = withChildren(rest, (child, property) => shared(child, property ?? name, context));
  const outside = {
    ...(description !== undefined && { description }),
    ...(nullable !== undefined && { nullable }),
    ...(value !== undefined && { default: value }),
  };
  if (whole.properties === undefined) return { ...whole, ...outside };
  const text = JSON.stringify([whole, context.kinds.has(own) && own]);
  if (!context.names.has(text)) {
    let free = `${context.namespace}.${own}`;
    for (let number = 2; definitions.has(free); number++) free = `${context.namespace}.${own}${number}`;
    context.names.set(text, free);
    definitions.set(free, whole);
  }
  return { ...outside, allOf: [{ $ref: prefix + context.names.get(text) }] };
}

/** Without words for people, and with plain references. */
function structureOf(node) {
  const { description: _words, allOf, oneOf: _one, anyOf: _any, title: _title, ...rest } = node;
  for (const key of Object.keys(rest)) {
    const isUnused = ['x-kubernetes-patch-strategy', 'x-kubernetes-patch-merge-key', 'x-kubernetes-unions'];
    if (isUnused.includes(key) || key === 'x-kubernetes-validations') delete rest[key];
  }
  const ref = rest.$ref ?? allOf?.[0].$ref;
  if (ref !== undefined) rest.$ref = ref.slice(prefix.length);
  return withChildren(rest, structureOf);
}

/** A line for each definition, so that a new version shows what has changed. */
function write(file, name, map, head = {}) {
  const lines = [...map].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${quoted(key)}: ${quoted(value)}`);
  const heads = Object.entries(head).map(([key, value]) => `${quoted(key)}: ${quoted(value)},\n`);
  const text = `{\n${heads.join('')}"definitions": {\n${lines.join(',\n')}\n}}`;
  const origin = `// Made by scripts/api-schemas.mjs from KubeVirt v1.9.0 and Kubernetes ${kubernetes} (both Apache-2.0). Not written by hand.\n`;
  writeFileSync(path.join(outDir, file), `${origin}export const ${name} = String.raw\`${text}\`;\n`);
}

/** JSON that can stand in a raw template, in ASCII: one other character would double what Node.js keeps. */
function quoted(value) {
  return JSON.stringify(value).replace(/[`\u0080-\uffff]|\$(?=\{)/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

if (!existsSync(outDir)) mkdirSync(outDir, { recursive: true });
addCore();
addKubevirt();
const documentsHash = createHash('sha256')
  .update(JSON.stringify([...definitions]))
  .digest('hex')
  .slice(0, 16);
write('structure.gen.ts', 'structureJson', new Map([...definitions].map(([name, node]) => [name, structureOf(node)])), {
  types,
  documentsHash,
});
write('documents.gen.ts', 'documentsJson', definitions);
