import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { errorMessage, isRecord } from '../../../base/index.ts';
import { LibvirtFileError } from './errors.ts';

/** Longest document that is looked at: the largest real ones have a quarter of that. */
export const maxDocumentBytes = 2 * 1024 * 1024;
/** Entries of one list in a document; a QEMU with every machine type there is has 400. */
const maxNames = 2_000;

/** Names come without entities, so none is ever expanded. */
const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  textNodeName: '#text',
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: false,
  ignoreDeclaration: true,
  ignorePiTags: true,
});

/** An element as read: attributes with `@`, children by name (several of one name are a list), or its bare text. */
export type XmlElement = Readonly<Record<string, unknown>> | string;

/** The root element of libvirt's XML. Throws LibvirtFileError. */
export function parseDocument(text: string, rootName: string): XmlElement {
  if (text.length > maxDocumentBytes)
    throw new LibvirtFileError('TOO_LARGE', `it has more than ${maxDocumentBytes} bytes`);
  if (text.trim() === '') throw new LibvirtFileError('NO_XML', 'it is empty');
  // libvirt writes neither, and what they can do to a parser is not worth finding out.
  if (/<!(?:DOCTYPE|ENTITY)/i.test(text)) throw new LibvirtFileError('NO_XML', 'it declares a document type');
  const document = parsed(text);
  const root = isRecord(document) ? document[rootName] : undefined;
  if (!isRecord(root) && typeof root !== 'string') {
    throw new LibvirtFileError('WRONG_DOCUMENT', `it has no <${rootName}> at its root`);
  }
  return root;
}

function parsed(text: string): unknown {
  try {
    const validation = XMLValidator.validate(text);
    if (validation === true) return parser.parse(text);
    throw new LibvirtFileError('NO_XML', `${validation.err.msg.replace(/\.$/, '')} in line ${validation.err.line}`);
  } catch (cause) {
    if (cause instanceof LibvirtFileError) throw cause;
    throw new LibvirtFileError('NO_XML', errorMessage(cause), { cause });
  }
}

/** All children of that name; none where `parent` has no children. */
export function children(parent: XmlElement | undefined, name: string): readonly XmlElement[] {
  const found = isRecord(parent) ? parent[name] : undefined;
  const list: readonly unknown[] = Array.isArray(found) ? found : [found];
  if (list.length > maxNames)
    throw new LibvirtFileError('TOO_MANY_NAMES', `it has ${list.length} <${name}> in one place`);
  return list.filter((one): one is XmlElement => typeof one === 'string' || isRecord(one));
}

/** The first element at the end of `path`. */
export function elementAt(root: XmlElement | undefined, ...path: readonly string[]): XmlElement | undefined {
  return path.reduce<XmlElement | undefined>((parent, name) => children(parent, name)[0], root);
}

/** '' without one. */
export function attribute(element: XmlElement | undefined, name: string): string {
  const value = isRecord(element) ? element[`@${name}`] : undefined;
  return typeof value === 'string' ? value : '';
}

export function textOf(element: XmlElement | undefined): string {
  if (typeof element === 'string') return element;
  const text = isRecord(element) ? element['#text'] : undefined;
  return typeof text === 'string' ? text : '';
}
