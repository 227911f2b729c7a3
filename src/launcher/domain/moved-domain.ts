import { child, contentOf, parseXml, renderXml, type XmlNode } from './xml.ts';

/** Whose domain it is. */
export interface DomainOwner {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * The domain as another VMI object will have it, whose guest it becomes by a migration: its files and sockets are at that VMI's paths. The
 * guest itself sees no difference: its UUID stays, also when that was the UID of the VMI that it leaves. `sizes`, by target device: as much
 * of the image there is the guest's disk, however large the image is (upstream: `migratableDomXML` and `generateMigrationParams`).
 * Throws `ConvertError` BAD_XML.
 */
export function movedDomainXml(
  xml: string,
  from: DomainOwner,
  to: DomainOwner,
  sizes: ReadonlyMap<string, bigint>,
): string {
  const renames = renamesOf(from, to);
  const moved = (text: string) => renames.reduce((changed, [old, now]) => changed.replaceAll(old, now), text);
  const domain = parseXml(xml, 'domain');
  const changed = changeChildren(withSizes(domain, sizes), 'metadata', (metadata) =>
    changeTexts(metadata, (text) => (text === from.uid ? to.uid : text)),
  );
  return renderXml('domain', contentOf(changeTexts(changed, moved)));
}

/** Parts of the paths that name their VMI; as a part of a path a UID is never the UUID of the domain. */
function renamesOf(from: DomainOwner, to: DomainOwner): readonly (readonly [string, string])[] {
  const generated = ['cloud-init-data', 'ignition-data'].map(
    (kind) => [`/${kind}/${from.namespace}/${from.name}/`, `/${kind}/${to.namespace}/${to.name}/`] as const,
  );
  return [[`/${from.uid}/`, `/${to.uid}/`], [`/${from.name}_VARS.fd`, `/${to.name}_VARS.fd`], ...generated];
}

function changeTexts(node: XmlNode, change: (text: string) => string): XmlNode {
  const attributes = Object.entries(node.attributes).map(([name, value]) => [name, change(value)]);
  return {
    ...node,
    attributes: Object.fromEntries(attributes),
    text: change(node.text),
    children: node.children.map((each) => changeTexts(each, change)),
  };
}

function withSizes(domain: XmlNode, sizes: ReadonlyMap<string, bigint>): XmlNode {
  return changeChildren(domain, 'devices', (devices) =>
    changeChildren(devices, 'disk', (disk) => {
      const size = sizes.get(child(disk, 'target')?.attributes.dev ?? '');
      return size === undefined ? disk : changeChildren(disk, 'source', (source) => withSlice(source, size));
    }),
  );
}

function withSlice(source: XmlNode, size: bigint): XmlNode {
  if (child(source, 'slices')) return source;
  const attributes = { type: 'storage', offset: '0', size: String(size) };
  const slice: XmlNode = { name: 'slice', attributes, text: '', children: [] };
  const slices: XmlNode = { name: 'slices', attributes: {}, text: '', children: [slice] };
  return { ...source, children: [...source.children, slices] };
}

function changeChildren(node: XmlNode, name: string, change: (each: XmlNode) => XmlNode): XmlNode {
  return { ...node, children: node.children.map((each) => (each.name === name ? change(each) : each)) };
}
