import type { ApiType } from '../api-type.ts';
import { type SchemaLibrary, schemaKey } from '../schema/index.ts';
import { type GroupVersion, groupVersions, typesOf } from '../types/index.ts';
import { versionInfo } from './discovery.ts';

/** What `kubectl explain` prints, and which kinds take `fieldValidation`: made when it is asked for, and not kept. */

const pathOf = ({ group, version }: GroupVersion) => (group === '' ? `api/${version}` : `apis/${group}/${version}`);

export async function openapiIndex(schemas: SchemaLibrary): Promise<object> {
  const hash = await schemas.hash();
  const paths = groupVersions().map((item) => [
    pathOf(item),
    { serverRelativeURL: `/openapi/v3/${pathOf(item)}?hash=${hash}` },
  ]);
  return { paths: Object.fromEntries(paths) };
}

/** `path` is what follows `/openapi/v3/`; undefined for a group that is not here. */
export async function openapiDocument(path: string, schemas: SchemaLibrary): Promise<object | undefined> {
  const found = groupVersions().find((item) => pathOf(item) === path);
  if (!found) return undefined;
  const types = typesOf(found);
  const { names, definitions } = await schemas.documentsOf(types);
  const roots = types.map((type): [string, object] => {
    const name = names.get(schemaKey(type)) ?? [type.group, type.version, type.kind].filter(Boolean).join('.');
    const known = definitions[name] ?? { type: 'object', description: `${type.kind}: no field of it is described.` };
    return [name, { ...known, 'x-kubernetes-group-version-kind': [gvk(type)] }];
  });
  return {
    openapi: '3.0.0',
    info: { title: 'virt-node', version: versionInfo.gitVersion },
    paths: Object.fromEntries(types.flatMap(pathsOf)),
    components: { schemas: { ...definitions, ...Object.fromEntries(roots) } },
  };
}

const gvk = ({ group, version, kind }: ApiType) => ({ group, version, kind });

function pathsOf(type: ApiType): [string, object][] {
  const base = type.group === '' ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`;
  const list = `${base}${type.namespaced ? '/namespaces/{namespace}' : ''}/${type.resource}`;
  const parameters = ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map((name) => ({
    name,
    in: 'query',
    schema: { type: 'string', uniqueItems: true },
  }));
  const operation = (action: string) => ({
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': gvk(type),
    parameters,
    responses: { 200: { description: 'OK' } },
  });
  return [
    [list, { get: operation('list'), post: operation('post') }],
    [`${list}/{name}`, { get: operation('get'), put: operation('put'), patch: operation('patch') }],
  ];
}

/** Protobuf of an OpenAPI v2 document without definitions: kubectl before 1.24 reads no other form and then checks nothing. */
export const openapiV2Type = 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf';

export function openapiV2Protobuf(): Buffer {
  const info = Buffer.concat([stringField(1, 'virt-node'), stringField(2, 'v1.32.0')]);
  return Buffer.concat([stringField(1, '2.0'), bytesField(2, info)]);
}

export function openapiV2Json(): object {
  return { swagger: '2.0', info: { title: 'virt-node', version: 'v1.32.0' }, paths: {}, definitions: {} };
}

function bytesField(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, content.length]), content]);
}

function stringField(number: number, text: string): Buffer {
  return bytesField(number, Buffer.from(text, 'utf8'));
}
