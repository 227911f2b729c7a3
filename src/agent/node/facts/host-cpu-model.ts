import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { listOf, memberAt } from '../../../base/index.ts';

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  textNodeName: 'text',
  parseTagValue: false,
  isArray: (name) => name === 'mode' || name === 'model',
});

/**
 * CPU model of a guest with `host-model` on this node, from libvirt's `virsh_domcapabilities.xml`. Empty: the
 * document names none. Undefined: it is no such document, which proves nothing.
 */
export function readHostModel(domainCapabilitiesXml: string): string | undefined {
  let document: unknown;
  try {
    // The parser itself takes half a document for a whole one.
    if (XMLValidator.validate(domainCapabilitiesXml) !== true) return undefined;
    document = parser.parse(domainCapabilitiesXml);
  } catch {
    return undefined;
  }
  const cpu = memberAt(document, 'domainCapabilities', 'cpu');
  if (cpu === undefined) return undefined;
  const modes = memberAt(cpu, 'mode');
  const hostModel = listOf(modes).find((mode) => memberAt(mode, 'name') === 'host-model');
  const models = memberAt(hostModel, 'model');
  const [first] = listOf(models);
  if (typeof first === 'string') return first;
  const text = memberAt(first, 'text');
  return typeof text === 'string' ? text : '';
}
