import { XMLParser, XMLValidator } from 'fast-xml-parser';
import type { NumaCell } from '../../../api/index.ts';
import { memberAt } from '../../../base/index.ts';

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  textNodeName: 'text',
  parseAttributeValue: false,
  isArray: (name) => ['cell', 'pages', 'sibling', 'cpu'].includes(name),
});

/**
 * NUMA cells of libvirt's `capabilities.xml`, as pkg/virt-handler/options.go sends them to launchers; none when the text is not
 * such a document.
 */
export function readTopology(capabilitiesXml: string): NumaCell[] {
  let document: unknown;
  try {
    // The parser itself takes half a document for a whole one.
    if (XMLValidator.validate(capabilitiesXml) !== true) return [];
    document = parser.parse(capabilitiesXml);
  } catch {
    return [];
  }
  return list(memberAt(document, 'capabilities', 'host', 'topology', 'cells', 'cell')).map((cell) => {
    const memory = memberAt(cell, 'memory');
    return {
      id: number(memberAt(cell, 'id')),
      ...(memory !== undefined && {
        memory: { amount: number(memberAt(memory, 'text')), unit: text(memberAt(memory, 'unit')) },
      }),
      pages: list(memberAt(cell, 'pages')).map((pages) => ({
        count: number(memberAt(pages, 'text')),
        unit: text(memberAt(pages, 'unit')),
        size: number(memberAt(pages, 'size')),
      })),
      distances: list(memberAt(cell, 'distances', 'sibling')).map((sibling) => ({
        id: number(memberAt(sibling, 'id')),
        value: number(memberAt(sibling, 'value')),
      })),
      cpus: list(memberAt(cell, 'cpus', 'cpu')).map((cpu) => ({
        id: number(memberAt(cpu, 'id')),
        siblings: siblingsOf(text(memberAt(cpu, 'siblings'))),
      })),
    };
  });
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

function list(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  return value === undefined || value === '' ? [] : [value];
}

function number(value: unknown): number {
  const parsed = Number(value);
  return Number.isSafeInteger(parsed) && parsed >= 0 ? parsed : 0;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
