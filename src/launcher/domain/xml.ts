import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser';
import { errorMessage } from '../../base/index.ts';
import { ConvertError } from './errors.ts';

/**
 * An element to write: keys with `@` are attributes, `#text` is its text, other keys are children (an array repeats the
 * child). `undefined` leaves a key out; a scalar child is an element with only text.
 */
export interface XmlContent {
  readonly [key: string]: XmlValue | readonly XmlContent[] | undefined;
}
export type XmlValue = string | number | XmlContent;

/** An element as read: every child is a list, attributes and text are separate. */
export interface XmlNode {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly text: string;
  readonly children: readonly XmlNode[];
}

const builder = new XMLBuilder({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  format: true,
  indentBy: '\t',
  suppressEmptyNode: true,
  // Else an attribute whose value is "true" loses its value.
  suppressBooleanAttributes: false,
  processEntities: true,
});

/** Characters that XML 1.0 cannot carry at all; carriage returns and, in attributes, line ends would not survive. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is its purpose
const badInText = /[\u0000-\u0008\u000B-\u001F\uFFFE\uFFFF]|\p{Surrogate}/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is its purpose
const badInAttribute = /[\u0000-\u001F\uFFFE\uFFFF]|\p{Surrogate}/u;

/** Throws `INVALID_FIELD` for a value that XML cannot carry; everything else is escaped. */
export function renderXml(rootName: string, root: XmlContent): string {
  return builder.build({ [rootName]: checked(root, rootName) });
}

function checked(element: XmlContent, where: string): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(element)) {
    if (value === undefined) continue;
    const at = `${where}/${key}`;
    if (Array.isArray(value)) result[key] = value.map((item: XmlContent) => checked(item, at));
    else if (typeof value === 'object') result[key] = checked(value as XmlContent, at);
    else result[key] = checkedText(String(value), key, at);
  }
  return result;
}

function checkedText(text: string, key: string, at: string): string {
  const bad = (key.startsWith('@') ? badInAttribute : badInText).exec(text)?.[0];
  if (bad === undefined) return text;
  const code = bad.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
  throw new ConvertError(
    'INVALID_FIELD',
    `the value for ${at} contains the character U+${code}: remove it from the VMI`,
  );
}

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  preserveOrder: true,
  parseTagValue: false,
  parseAttributeValue: false,
  trimValues: false,
  ignoreDeclaration: true,
  ignorePiTags: true,
  processEntities: true,
  htmlEntities: true,
});

type OrderedNode = Record<string, unknown>;

/** Reads a document; throws `BAD_XML` when it is not well-formed or its root is another element. */
export function parseXml(xml: string, rootName: string): XmlNode {
  const problem = XMLValidator.validate(xml);
  if (problem !== true) throw badXml(`${problem.err.msg} in line ${problem.err.line}`);
  const root = parsedNodes(xml).find((node) => node.name === rootName);
  if (!root) throw badXml(`there is no <${rootName}> element`);
  return root;
}

function parsedNodes(xml: string): XmlNode[] {
  try {
    return (parser.parse(xml) as OrderedNode[]).flatMap(toNode);
  } catch (error) {
    throw badXml(errorMessage(error));
  }
}

function badXml(problem: string): ConvertError {
  return new ConvertError('BAD_XML', `the domain XML cannot be read: ${problem}`);
}

function toNode(ordered: OrderedNode): XmlNode[] {
  const name = Object.keys(ordered).find((key) => key !== ':@' && key !== '#text');
  if (name === undefined) return [];
  const content = ordered[name];
  const items = Array.isArray(content) ? (content as OrderedNode[]) : [];
  const text = items.map((item) => (typeof item['#text'] === 'string' ? item['#text'] : '')).join('');
  const attributes = (ordered[':@'] ?? {}) as Record<string, string>;
  return [{ name, attributes, text: text.trim(), children: items.flatMap(toNode) }];
}

export function child(node: XmlNode, name: string): XmlNode | undefined {
  return node.children.find((one) => one.name === name);
}

export function childrenOf(node: XmlNode, name: string): XmlNode[] {
  return node.children.filter((one) => one.name === name);
}

/** Text of a child, '' without it. */
export function childText(node: XmlNode, name: string): string {
  return child(node, name)?.text ?? '';
}

/** An element that was read, to be written again. */
export function contentOf({ attributes, text, children }: XmlNode): XmlContent {
  const element: Record<string, string | XmlContent[]> = {};
  for (const [name, value] of Object.entries(attributes)) element[`@${name}`] = value;
  if (text !== '') element['#text'] = text;
  for (const name of new Set(children.map((one) => one.name))) {
    element[name] = children.filter((one) => one.name === name).map(contentOf);
  }
  return element;
}
