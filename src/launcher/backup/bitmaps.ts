import { isRecord, listOf, memberAt } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';

const query = JSON.stringify({ execute: 'query-named-block-nodes', arguments: { flat: true } });

/**
 * File → names of its usable bitmaps, as QEMU has them: qemu-img does not see those of a running guest. One that a crash left half-written
 * is inconsistent, and as good as none.
 */
export async function usableBitmaps(
  hypervisor: Pick<Hypervisor, 'qmp'>,
  domain: DomainRef,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const found = new Map<string, Set<string>>();
  for (const node of await blockNodes(hypervisor, domain)) {
    const file = memberAt(node, 'file');
    if (typeof file !== 'string') continue;
    for (const bitmap of listOf(memberAt(node, 'dirty-bitmaps'))) {
      if (!isRecord(bitmap) || typeof bitmap.name !== 'string' || bitmap.inconsistent === true) continue;
      found.set(file, (found.get(file) ?? new Set()).add(bitmap.name));
    }
  }
  return found;
}

/** QEMU has a file below `directory` open: not all that it knows of it need be written. */
export async function hasOpenBelow(
  hypervisor: Pick<Hypervisor, 'qmp'>,
  domain: DomainRef,
  directory: string,
): Promise<boolean> {
  const nodes = await blockNodes(hypervisor, domain);
  return nodes.some((node) => String(memberAt(node, 'file')).startsWith(`${directory}/`));
}

async function blockNodes(hypervisor: Pick<Hypervisor, 'qmp'>, domain: DomainRef): Promise<readonly unknown[]> {
  return listOf(memberAt(parsed(await hypervisor.qmp(domain, query)), 'return'));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new LauncherError('INVALID_REQUEST', 'QEMU answers with no JSON when it is asked for its disks', { cause });
  }
}
