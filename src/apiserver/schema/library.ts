import type { ApiType } from '../api-type.ts';
import { formOf, type SchemaNode } from './node.ts';

interface Structure {
  /** `group/version/kind` → definition. */
  readonly types: Readonly<Record<string, string>>;
  readonly documentsHash: string;
  readonly definitions: Readonly<Record<string, RawNode>>;
}

interface RawNode extends Omit<SchemaNode, 'properties' | 'items' | 'additionalProperties' | 'target'> {
  $ref?: string;
  target?: RawNode;
  properties?: Record<string, RawNode>;
  items?: RawNode;
  additionalProperties?: RawNode | boolean;
}

type TypeKey = Pick<ApiType, 'group' | 'version' | 'kind'>;

/** Parts of an OpenAPI document. */
interface Documents {
  /** `group/version/kind` → name of its definition. */
  readonly names: ReadonlyMap<string, string>;
  readonly definitions: Readonly<Record<string, object>>;
}

/** The schemas of the server's resources; read when the first object comes, and once. */
export class SchemaLibrary {
  readonly #source: 'shipped' | 'none';
  #loading: Promise<Structure> | undefined;

  constructor(source: 'shipped' | 'none' = 'shipped') {
    this.#source = source;
  }

  /** The schema of whole objects of a type; undefined when there is none: then everything is kept. */
  async of(type: TypeKey): Promise<SchemaNode | undefined> {
    if (this.#source === 'none') return undefined;
    const { types, definitions } = await this.#load();
    const root = definitions[types[schemaKey(type)] ?? ''];
    return root && formOf(root as SchemaNode);
  }

  /** Another one when the descriptions are others: clients keep what they have read. */
  async hash(): Promise<string> {
    return (await this.#load()).documentsHash;
  }

  /** The definitions of types with their descriptions, and all that these refer to. */
  async documentsOf(types: readonly TypeKey[]): Promise<Documents> {
    const { types: names } = await this.#load();
    const { documentsJson } = await import('./gen/documents.gen.ts');
    return reachable(types, names, JSON.parse(documentsJson).definitions);
  }

  #load(): Promise<Structure> {
    this.#loading ??= load();
    return this.#loading;
  }
}

export function schemaKey({ group, version, kind }: TypeKey): string {
  return [group, version, kind].filter(Boolean).join('/');
}

const refPrefix = '#/components/schemas/';

function reachable(
  types: readonly TypeKey[],
  known: Structure['types'],
  all: Readonly<Record<string, object>>,
): Documents {
  const names = new Map<string, string>();
  for (const type of types) {
    const name = known[schemaKey(type)];
    if (name !== undefined) names.set(schemaKey(type), name);
  }
  const definitions: Record<string, object> = {};
  const wanted = [...names.values()];
  for (let name = wanted.pop(); name !== undefined; name = wanted.pop()) {
    const found = all[name];
    if (!found || definitions[name]) continue;
    definitions[name] = found;
    for (const [, ref = ''] of JSON.stringify(found).matchAll(/"\$ref":"([^"]+)"/g))
      wanted.push(ref.slice(refPrefix.length));
  }
  return { names, definitions };
}

async function load(): Promise<Structure> {
  const { structureJson } = await import('./gen/structure.gen.ts');
  const structure: Structure = JSON.parse(structureJson);
  for (const node of Object.values(structure.definitions)) link(node, structure.definitions);
  return structure;
}

/** References become the definitions themselves; they may lead in circles, so nobody may walk them without a value. */
function link(node: RawNode, definitions: Structure['definitions']): void {
  if (node.$ref !== undefined) {
    const target = definitions[node.$ref];
    if (target) node.target = target;
    delete node.$ref;
  }
  for (const child of Object.values(node.properties ?? {})) link(child, definitions);
  if (node.items) link(node.items, definitions);
  if (typeof node.additionalProperties === 'object') link(node.additionalProperties, definitions);
}
