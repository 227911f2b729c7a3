import type { NumaCell } from '../../../api/index.ts';
import {
  attribute,
  children,
  elementAt,
  LibvirtFileError,
  parseDocument,
  textOf,
  type XmlElement,
} from '../libvirt-xml/index.ts';

/**
 * NUMA cells of libvirt's `capabilities.xml`, as pkg/virt-handler/options.go sends them to launchers; none when the text is not
 * such a document.
 */
export function readTopology(capabilitiesXml: string): NumaCell[] {
  try {
    const root = parseDocument(capabilitiesXml, 'capabilities');
    return children(elementAt(root, 'host', 'topology', 'cells'), 'cell').map(numaCell);
  } catch (error) {
    if (error instanceof LibvirtFileError) return [];
    throw error;
  }
}

function numaCell(cell: XmlElement): NumaCell {
  const memory = elementAt(cell, 'memory');
  return {
    id: count(attribute(cell, 'id')),
    ...(memory !== undefined && { memory: { amount: count(textOf(memory)), unit: attribute(memory, 'unit') } }),
    pages: children(cell, 'pages').map((pages) => ({
      count: count(textOf(pages)),
      unit: attribute(pages, 'unit'),
      size: count(attribute(pages, 'size')),
    })),
    distances: children(elementAt(cell, 'distances'), 'sibling').map((sibling) => ({
      id: count(attribute(sibling, 'id')),
      value: count(attribute(sibling, 'value')),
    })),
    cpus: children(elementAt(cell, 'cpus'), 'cpu').map((cpu) => ({
      id: count(attribute(cpu, 'id')),
      siblings: siblingsOf(attribute(cpu, 'siblings')),
    })),
  };
}

/** More threads than any core or die has: a guard against ranges that are made up. */
const maxSiblings = 4_096;

/** A comma list, whose entries may be ranges (`0-3`); upstream drops the ranges. */
function siblingsOf(siblings: string): number[] {
  const found: number[] = [];
  for (const entry of siblings.split(',', maxSiblings)) {
    const match = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(entry);
    if (!match) continue;
    const last = Number(match[2] ?? match[1]);
    for (let cpu = Number(match[1]); cpu <= last && found.length < maxSiblings; cpu++) found.push(cpu);
  }
  return found;
}

function count(text: string): number {
  const parsed = Number(text);
  return Number.isSafeInteger(parsed) && parsed >= 0 ? parsed : 0;
}
