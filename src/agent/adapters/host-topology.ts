import { XMLParser } from 'fast-xml-parser';
import type { NumaCell } from '../ports.ts';

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '',
  textNodeName: 'text',
  parseAttributeValue: false,
  isArray: (name) => ['cell', 'pages', 'sibling', 'cpu'].includes(name),
});

/** NUMA cells of libvirt's `capabilities.xml` (spec 10b §5); none when the text is not such a document. */
export function readTopology(capabilitiesXml: string): NumaCell[] {
  let document: unknown;
  try {
    document = parser.parse(capabilitiesXml);
  } catch {
    return [];
  }
  return list(at(document, 'capabilities', 'host', 'topology', 'cells', 'cell')).map((cell) => {
    const memory = at(cell, 'memory');
    return {
      id: number(at(cell, 'id')),
      ...(memory !== undefined && { memory: { amount: number(at(memory, 'text')), unit: text(at(memory, 'unit')) } }),
      pages: list(at(cell, 'pages')).map((pages) => ({
        count: number(at(pages, 'text')),
        unit: text(at(pages, 'unit')),
        size: number(at(pages, 'size')),
      })),
      distances: list(at(cell, 'distances', 'sibling')).map((sibling) => ({
        id: number(at(sibling, 'id')),
        value: number(at(sibling, 'value')),
      })),
      cpus: list(at(cell, 'cpus', 'cpu')).map((cpu) => ({
        id: number(at(cpu, 'id')),
        siblings: siblingsOf(text(at(cpu, 'siblings'))),
      })),
    };
  });
}

/** A comma list, whose entries may be ranges (`0-3`); upstream drops the ranges. */
function siblingsOf(siblings: string): number[] {
  return siblings.split(',').flatMap((entry) => {
    const match = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(entry);
    if (!match) return [];
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
  });
}

function at(value: unknown, ...path: string[]): unknown {
  let current = value;
  for (const name of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = (current as Record<string, unknown>)[name];
  }
  return current;
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
