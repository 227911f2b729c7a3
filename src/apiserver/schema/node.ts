/** What one value may be: the part of OpenAPI that definitions of custom resources and Kubernetes' own types use. */
export interface SchemaNode {
  /** The definition that the value follows; what stands beside it is said of this place alone. */
  readonly target?: SchemaNode;
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly items?: SchemaNode;
  readonly required?: readonly string[];
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-map-type'?: 'granular' | 'atomic';
}

/** What there is to know of a value: of its definition, where it has one. */
export function formOf(node: SchemaNode): SchemaNode {
  return node.target ?? node;
}

/** The node of a member of an object; undefined: nothing is known of such a member. */
export function memberNode(form: SchemaNode, name: string): SchemaNode | undefined {
  const { properties, additionalProperties } = form;
  if (properties !== undefined && Object.hasOwn(properties, name)) return properties[name];
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

/** Members that no schema names stay. */
export function takesAnything(form: SchemaNode): boolean {
  return form['x-kubernetes-preserve-unknown-fields'] === true || form.additionalProperties === true;
}

/** The node's steps from the root as messages show them: `spec.disks[0].name`. */
export function pathText(steps: readonly (string | number)[]): string {
  return steps.reduce<string>((path, step) => {
    if (typeof step === 'number') return `${path}[${step}]`;
    return path === '' ? step : `${path}.${step}`;
  }, '');
}
