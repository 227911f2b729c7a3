import type { ResolvedDisk } from './context.ts';
import { userAliasPrefix } from './names.ts';
import { child, childrenOf, childText, contentOf, parseXml, renderXml, type XmlNode } from './xml.ts';

/** A disk as libvirt says that QEMU has it. */
export interface LiveDisk {
  /** The disk's name in the VMI, from its alias; a disk that nobody named is called by its target. */
  readonly name: string;
  readonly device: string;
  readonly bus: string;
  readonly target: string;
  /** Path of its file or block device; '' for an empty drive and for a source that is no path. */
  readonly source: string;
  readonly isBlock: boolean;
  /** It is a layer above the volume's own image. */
  readonly hasBacking: boolean;
  readonly isReadOnly: boolean;
  readonly node: XmlNode;
}

export interface LiveDomain {
  readonly disks: readonly LiveDisk[];
  /** I/O threads that QEMU was started with. */
  readonly ioThreadCount: number;
  /** Aliases of the machine's devices that are passed through; '' for one that nobody named. */
  readonly hostDevices: readonly string[];
}

/** Throws `ConvertError` BAD_XML. */
export function readLiveDomain(xml: string): LiveDomain {
  const domain = parseXml(xml, 'domain');
  const devices = child(domain, 'devices');
  const threads = childText(domain, 'iothreads');
  return {
    disks: (devices ? childrenOf(devices, 'disk') : []).map(liveDisk),
    ioThreadCount: /^\d+$/.test(threads) ? Number(threads) : 0,
    hostDevices: (devices ? childrenOf(devices, 'hostdev') : []).map(aliasOf),
  };
}

function liveDisk(node: XmlNode): LiveDisk {
  const target = child(node, 'target')?.attributes ?? {};
  const source = child(node, 'source')?.attributes ?? {};
  const alias = aliasOf(node);
  const isNamed = alias.startsWith(userAliasPrefix);
  return {
    name: isNamed ? alias.slice(userAliasPrefix.length) : (target.dev ?? ''),
    device: node.attributes.device ?? 'disk',
    bus: target.bus ?? '',
    target: target.dev ?? '',
    source: source.file ?? source.dev ?? '',
    isBlock: node.attributes.type === 'block',
    hasBacking: (child(node, 'backingStore')?.children.length ?? 0) > 0,
    isReadOnly: child(node, 'readonly') !== undefined,
    node,
  };
}

const aliasOf = (node: XmlNode) => child(node, 'alias')?.attributes.name ?? '';

/** The disk as it is, for libvirt to find it again. */
export function liveDiskXml({ node }: LiveDisk): string {
  return renderXml('disk', contentOf(node));
}

/**
 * The drive with another medium, or with none. All else stays as libvirt says it: it refuses a change of more than the medium.
 */
export function driveWithMedium({ node }: LiveDisk, medium: ResolvedDisk | undefined): string {
  const { source, backingStore, mirror, ...drive } = contentOf(node);
  const driver = child(node, 'driver');
  return renderXml('disk', {
    ...drive,
    '@type': medium && !medium.isBlock ? 'file' : 'block',
    driver: { ...(driver ? contentOf(driver) : { '@name': 'qemu' }), '@type': medium?.format ?? 'raw' },
    ...(medium && { source: medium.isBlock ? { '@dev': medium.path } : { '@file': medium.path } }),
  });
}
