import { XMLParser } from 'fast-xml-parser';

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  textNodeName: 'text',
  parseTagValue: false,
  isArray: (name) => name === 'mode' || name === 'model',
});

/**
 * CPU model of a guest with `host-model` on this node, from libvirt's `virsh_domcapabilities.xml` (spec 40 §5). Empty: the
 * document names none. Undefined: it is no such document, which proves nothing.
 */
export function readHostModel(domainCapabilitiesXml: string): string | undefined {
  let document: unknown;
  try {
    document = parser.parse(domainCapabilitiesXml);
  } catch {
    return undefined;
  }
  const cpu = at(document, 'domainCapabilities', 'cpu');
  if (cpu === undefined) return undefined;
  const modes = at(cpu, 'mode');
  const hostModel = (Array.isArray(modes) ? modes : []).find((mode) => at(mode, 'name') === 'host-model');
  const models = at(hostModel, 'model');
  const first: unknown = Array.isArray(models) ? models[0] : undefined;
  if (typeof first === 'string') return first;
  const text = at(first, 'text');
  return typeof text === 'string' ? text : '';
}

function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (holder, name) =>
      typeof holder === 'object' && holder !== null ? (holder as Record<string, unknown>)[name] : undefined,
    value,
  );
}
