import { copyJson, isRecord } from '../../base/index.ts';
import { formOf, memberNode, pathText, type SchemaNode, takesAnything } from './node.ts';

/** As many are named; all are taken away. */
const mostNamed = 100;

/**
 * Takes away what the schema does not know and fills in its defaults, as API servers do with what they read. Changes `object`; gives
 * the paths of unknown fields. Null is no value, but where the
 * definition of a custom resource allows it, and in the maps of Go's types.
 */
export function prune(object: unknown, schema: SchemaNode, { nulls }: { nulls: 'of definitions' | 'of Go' }): string[] {
  const unknown: string[] = [];
  const steps: (string | number)[] = [];

  function walk(value: unknown, node: SchemaNode): void {
    if (typeof value !== 'object' || value === null) return;
    const form = formOf(node);
    if (Array.isArray(value)) walkList(value, form);
    else if (isRecord(value)) walkObject(value, form);
  }

  function walkList(list: unknown[], { items }: SchemaNode): void {
    if (items === undefined) return;
    for (const [index, item] of list.entries()) {
      steps.push(index);
      walk(item, items);
      steps.pop();
    }
  }

  function walkObject(value: Record<string, unknown>, form: SchemaNode): void {
    const isTyped = form.type === undefined || form.type === 'object';
    if (!isTyped) return;
    for (const name of Object.keys(value)) {
      const node = memberNode(form, name);
      steps.push(name);
      if (node === undefined) {
        if (!takesAnything(form)) {
          if (unknown.length < mostNamed) unknown.push(pathText(steps));
          delete value[name];
        }
      } else if (value[name] === null && isDropped(form, name, node)) delete value[name];
      else walk(value[name], node);
      steps.pop();
    }
    fillDefaults(value, form);
  }

  function isDropped(form: SchemaNode, name: string, node: SchemaNode): boolean {
    if (nulls === 'of definitions') return node.nullable !== true;
    return form.properties !== undefined && Object.hasOwn(form.properties, name);
  }

  walk(object, schema);
  return unknown;
}

function fillDefaults(value: Record<string, unknown>, { properties }: SchemaNode): void {
  for (const name in properties) {
    const filling = properties[name]?.default;
    if (filling !== undefined && value[name] === undefined) value[name] = copyJson(filling);
  }
}
